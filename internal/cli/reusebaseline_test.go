package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// newReuseScene returns a job of three tasks on pinned images, with a baseline of which only the
// result.json is there.
func newReuseScene(t *testing.T) *suspects {
	t.Helper()
	s := newSuspects(t)
	s.outcome = map[string][]string{"steady": {"1"}, "flaky": {"1"}, "broken": {"1"}}
	for task := range s.outcome {
		s.write("evals/"+task+"/task.toml", "version = \"1.0\"\n[environment]\ndocker_image = \"x@sha256:"+strings.Repeat("a", 64)+"\"\n")
	}
	s.write("job.yaml", strings.Replace(s.read("job.yaml"), "max_broken_tasks: 0", "max_broken_tasks: 0, max_pass_rate_drop: 0, on_no_baseline: fail", 1))
	s.rollout(0, "run", "job.yaml", "--name", "main", "--set", "gate.on_no_baseline=pass")
	var base result.Job
	if err := json.Unmarshal([]byte(s.read("jobs/main/result.json")), &base); err != nil {
		t.Fatal(err)
	}
	base.Commit = new("5d6e7f8000000000000000000000000000000000")
	s.storeBase(base)
	if err := os.RemoveAll(filepath.Join(s.dir, "jobs/main")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *suspects) storeBase(base result.Job) {
	s.Helper()
	text, err := json.Marshal(base)
	if err != nil {
		s.Fatal(err)
	}
	s.write("stored/result.json", string(text))
}

func TestReuseBaselineRunsNothingIfNothingChanged(t *testing.T) {
	s := newReuseScene(t)
	s.rollout(0, "run", "job.yaml", "--baseline", "stored/result.json", "--reuse", "baseline", "--markdown", "report.md", "--log-format", "plain")
	const sentence = "Nothing that the agents or tasks depend on has changed since 5d6e7f8: 0 of 3 trials ran."
	s.says(sentence)
	if !strings.Contains(strings.ReplaceAll(s.read("report.md"), "`", ""), sentence) {
		t.Errorf("the report does not say it:\n%s", s.read("report.md"))
	}
	if text := s.read("jobs/pr/a/evals/steady__1/result.json"); !strings.Contains(text, `"commit": "5d6e7f8`) {
		t.Errorf("the trial is not marked: %s", text)
	}
	s.rollout(0, "show", "jobs/pr", "steady")
	s.rollout(0, "report", "jobs/pr", "--baseline", "stored/result.json")
	s.says(sentence)
}

func TestReuseBaselineRunsWhatChanged(t *testing.T) {
	s := newReuseScene(t)
	s.write("evals/broken/instruction.md", "Do it otherwise.\n")
	s.rollout(0, "run", "job.yaml", "--baseline", "stored/result.json", "--reuse", "baseline", "--dry-run")
	s.says("Reused: 2 trials")
	s.outcome["broken"] = []string{"0"}
	s.rollout(0, "run", "job.yaml", "--baseline", "stored/result.json", "--reuse", "baseline", "--log-format", "plain")
	s.says("Reused 2 of 3 trials", "not part of any drop")
	s.rollout(0, "run", "job.yaml", "--name", "next", "--baseline", "jobs/pr", "--reuse", "baseline", "--log-format", "plain")
	s.says("2 that the other job had taken over itself")
}

// An estimate counts the trials that the run makes: none that it takes from the baseline, and those
// of both sides if the baseline runs with the job.
func TestTheEstimateCountsWhatRuns(t *testing.T) {
	s := newReuseScene(t)
	estimate := func(args ...string) {
		t.Helper()
		s.rollout(0, append([]string{"plan", "job.yaml", "--estimate", "--baseline", "stored/result.json"}, args...)...)
	}
	estimate()
	s.says("each 3 trials of 3 tasks in 1 shard: ", "Not counted: up to 4 more attempts at each task that looks broken (gate.confirm)")
	estimate("--reuse", "baseline", "--shards", "3")
	s.says("each No trial Taken from the baseline (reuse: baseline): 3 of 3 trials, which are the same there")
	if text := s.out.String(); strings.Contains(text, "Cost:") {
		t.Errorf("it says what no trial costs: %s", text)
	}
	estimate("--against", "main", "--reuse", "baseline")
	s.says("each at most 6 trials of 3 tasks in 1 shard: ", "Half of the trials are those of the baseline, main (against)", "Time: at most about", "on both sides (gate.confirm)")
	s.write("evals/broken/instruction.md", "Do it otherwise.\n")
	estimate("--reuse", "baseline", "--shards", "3")
	s.says("each 1 trial of 1 task in 3 shards: broken", "2 of 3 trials, which are the same there")
	estimate("--reuse", "elsewhere", "--confirm-against", "main")
	s.says("each at most 3 trials of 3 tasks", "in the directories of reuse are not taken off")
	s.rollout(2, "plan", "job.yaml", "--shards", "2", "--reuse", "baseline")
}

func TestReuseBaselineSaysWhyAllTrialsRun(t *testing.T) {
	t.Parallel()
	s := newReuseScene(t)
	s.rollout(1, "run", "job.yaml", "--name", "none", "--reuse", "baseline", "--log-format", "plain")
	s.says("all trials run, because the job is compared with none")
	var base result.Job
	if err := json.Unmarshal([]byte(s.read("stored/result.json")), &base); err != nil {
		t.Fatal(err)
	}
	base.Experiments = nil
	for i := range base.Results.Len() {
		base.Results.Change(i, func(o *result.Outcome) { o.Experiment = 0 })
	}
	s.storeBase(base)
	s.rollout(0, "run", "job.yaml", "--name", "old", "--baseline", "stored/result.json", "--reuse", "baseline", "--log-format", "plain")
	s.says("does not say what its trials ran")
}

func TestReuseBaselineInShards(t *testing.T) {
	s := newReuseScene(t)
	s.outcome["broken"] = []string{"0"}
	for _, shard := range []string{"1/2", "2/2"} {
		s.rollout(0, "run", "job.yaml", "--shard", shard, "--baseline", "stored/result.json", "--reuse", "baseline", "--log-format", "plain")
		s.says("0 of ")
	}
	s.rollout(0, "merge", "jobs/pr.shard-1-of-2", "jobs/pr.shard-2-of-2", "--name", "pr", "--baseline", "stored/result.json", "--junit", "junit.xml", "--html", "page.html")
	s.says("0 of 3 trials ran.")
	if text := s.read("junit.xml"); !strings.Contains(text, "reused_trials") {
		t.Errorf("JUnit does not mark reused trials: %s", text)
	}
}

// Reused trials count as made in their round, and a baseline that ended early has fewer to reuse.
func TestReuseBaselineWithRounds(t *testing.T) {
	t.Parallel()
	s := newReuseScene(t)
	s.write("job.yaml", strings.NewReplacer(", noise: ignore, confirm: {attempts: 4}", "", "on_no_baseline: fail", "on_no_baseline: pass").Replace(s.read("job.yaml"))+"n_attempts: 3\n")
	run := func(name, baseline string, more ...string) {
		t.Helper()
		s.rollout(0, append([]string{"run", "job.yaml", "--name", name, "--baseline", baseline, "--log-format", "plain"}, more...)...)
	}
	run("full", "none")
	run("same", "jobs/full", "--reuse", "baseline", "--stop-early")
	s.says("Reused 9 of 9 trials")
	s.write("job.yaml", strings.Replace(s.read("job.yaml"), `execute: "true"`, `execute: "true #"`, 1))
	run("early", "jobs/full", "--stop-early")
	var early result.Job
	if err := json.Unmarshal([]byte(s.read("jobs/early/result.json")), &early); err != nil {
		t.Fatal(err)
	}
	if early.Rounds == nil || early.Results.Len() == 9 {
		t.Fatalf("the job did not end early: %d results", early.Results.Len())
	}
	run("after", "jobs/early", "--reuse", "baseline", "--stop-early")
	s.says(fmt.Sprintf("Reused %d of 9 trials", early.Results.Len()), "ended early itself")
	// One task changed: the rounds are those of its trials.
	s.write("evals/broken/instruction.md", "Do it otherwise.\n")
	run("full2", "none")
	s.write("evals/broken/instruction.md", "Do it in a third way.\n")
	run("part", "jobs/full2", "--reuse", "baseline", "--stop-early")
	s.says("Reused 6 of 9 trials")
}

// A shard that has nothing to run is merged with one that makes rounds.
func TestReuseBaselineWithRoundsInShards(t *testing.T) {
	t.Parallel()
	s := newReuseScene(t)
	s.write("job.yaml", strings.NewReplacer(", noise: ignore, confirm: {attempts: 4}", "", "max_pass_rate_drop: 0, ", "").Replace(s.read("job.yaml"))+"n_attempts: 3\n")
	s.rollout(0, "run", "job.yaml", "--name", "full", "--set", "gate.on_no_baseline=pass", "--log-format", "plain")
	s.write("evals/broken/instruction.md", "Do it otherwise.\n")
	var said strings.Builder
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		s.rollout(0, "run", "job.yaml", "--shard", shard, "--baseline", "jobs/full", "--reuse", "baseline", "--stop-early", "--log-format", "plain")
		said.WriteString(s.out.String())
	}
	s.rollout(0, "merge", "jobs/pr.shard-1-of-3", "jobs/pr.shard-2-of-3", "jobs/pr.shard-3-of-3", "--name", "pr", "--baseline", "jobs/full")
	var job result.Job
	if err := json.Unmarshal([]byte(s.read("jobs/pr/result.json")), &job); err != nil {
		t.Fatal(err)
	}
	if job.ReusedTrials != 6 || job.SkippedTrials > 0 {
		t.Errorf("%d trials were reused, %d skipped:\n%s", job.ReusedTrials, job.SkippedTrials, said.String())
	}
}

// The results of these runs become baselines, which are measured as a whole. In CI no note is
// printed, because each shard of each such run would repeat it.
func TestRunsThatBecomeBaselinesReuseNothing(t *testing.T) {
	t.Parallel()
	reuses := map[string]bool{"pull_request": true, "merge_group": true, "merge request": true}
	for _, event := range []string{"push", "schedule", "workflow_dispatch", "pull_request", "merge_group", "default branch", "merge request"} {
		s := newReuseScene(t)
		s.vars = map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event}
		switch event {
		case "default branch":
			s.vars = map[string]string{"CI": "true", "GITLAB_CI": "true", "CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}
		case "merge request":
			s.vars = map[string]string{"CI": "true", "GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main", "CI_MERGE_REQUEST_IID": "7"}
		}
		s.rollout(0, "run", "job.yaml", "--baseline", "stored/result.json", "--reuse", "baseline", "--dry-run")
		if strings.Contains(s.out.String(), "Reused: 3 trials") != reuses[event] || strings.Contains(s.out.String(), "all trials run") {
			t.Errorf("%s:\n%s", event, s.out.String())
		}
		if event == "push" { // it has nothing to compare with yet
			s.rollout(0, "run", "job.yaml", "--baseline", "none", "--reuse", "baseline", "--set", "gate.on_no_baseline=pass", "--log-format", "plain")
			if strings.Contains(s.out.String(), "all trials run") {
				t.Errorf("%s:\n%s", event, s.out.String())
			}
		}
	}
}

// A job that ends early is no baseline for looks, so these runs make all attempts, also in shards.
func TestRunsThatBecomeBaselinesMakeAllAttempts(t *testing.T) {
	t.Parallel()
	for event, most := range map[string]int{"push": 9, "schedule": 9, "default branch": 9, "pull_request": 8, "merge request": 8} {
		s := newReuseScene(t)
		s.write("job.yaml", strings.NewReplacer(", noise: ignore, confirm: {attempts: 4}", "", "on_no_baseline: fail", "on_no_baseline: pass").Replace(s.read("job.yaml"))+"n_attempts: 3\n")
		s.rollout(0, "run", "job.yaml", "--name", "full", "--log-format", "plain")
		s.vars = map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event}
		switch event {
		case "default branch":
			s.vars = map[string]string{"CI": "true", "GITLAB_CI": "true", "CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}
		case "merge request":
			s.vars = map[string]string{"CI": "true", "GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main", "CI_MERGE_REQUEST_IID": "7"}
		}
		s.rollout(0, "run", "job.yaml", "--name", "next", "--baseline", "jobs/full", "--stop-early", "--log-format", "plain")
		if n := s.job("next").Results.Len(); n > most || most == 9 && n < 9 {
			t.Errorf("%s: %d trials ran:\n%s", event, n, s.out.String())
		}
		s.rollout(0, "run", "job.yaml", "--name", "part", "--baseline", "jobs/full", "--stop-early", "--shard", "1/3", "--round", "1", "--log-format", "plain")
		if n := s.job("part.shard-1-of-3").Results.Len(); (n == 3) != (most == 9) {
			t.Errorf("%s: %d trials of a shard ran:\n%s", event, n, s.out.String())
		}
	}
}

// Trials that a change cannot affect are left out, and equal trials among the rest are taken over.
func TestReuseBaselineOfWhatAChangeCanAffect(t *testing.T) {
	s := newReuseScene(t)
	s.write("job.yaml", s.read("job.yaml")+"affects: [{paths: [\"evals/*/tests/outcome\"], tasks: []}, {paths: [\"evals/broken/**\"], tasks: [broken]}, {paths: [\"skills/**\"], tasks: [broken, flaky]}]\n")
	commitAll(t, s.dir)
	s.write("skills/pdf.md", "new\n") // no digest covers it
	run := func(name string) string {
		return s.rollout(0, "run", "job.yaml", "--name", name, "--baseline", "stored/result.json", "--reuse", "baseline", "--changed", "HEAD", "--log-format", "plain")
	}
	run("same")
	s.says("Nothing that the agents or tasks depend on has changed since 5d6e7f8: 0 of 3 trials ran.")
	s.write("evals/broken/instruction.md", "Do it otherwise.\n")
	run("part")
	s.says("Reused 1 of 2 trials", "1 of 3 trials")
	if job := s.job("part"); job.ReusedTrials != 1 || job.TotalTrials != 2 || job.NotAffected == nil || job.NotAffected.Trials != 1 || job.Unchanged != "" {
		t.Errorf("%d reused of %d, not affected are %+v, unchanged since %q", job.ReusedTrials, job.TotalTrials, job.NotAffected, job.Unchanged)
	}
	s.rollout(0, "resume", "jobs/part", "--baseline", "stored/result.json")
}

func (s *suspects) job(name string) (job result.Job) {
	s.Helper()
	if err := json.Unmarshal([]byte(s.read("jobs/"+name+"/result.json")), &job); err != nil {
		s.Fatal(err)
	}
	return job
}

// Verbs that work on a job's files say what a job without files lacks, and compare the rest.
func TestAJobThatTookAllOverIsReadByOtherVerbs(t *testing.T) {
	s := newReuseScene(t)
	s.rollout(0, "run", "job.yaml", "--baseline", "stored/result.json", "--reuse", "baseline", "--log-format", "plain")
	s.rollout(0, "diff", "stored/result.json", "jobs/pr")
	s.says("3 tasks: 3 same.")
	s.rollout(0, "diff", "stored/result.json", "jobs/pr", "--json")
	if n := strings.Count(s.out.String(), `"taken_over": true`); n != 3 {
		t.Errorf("%d tasks are equal by construction:\n%s", n, s.out.String())
	}
	s.rollout(2, "verify", "jobs/pr", "--log-format", "plain")
	s.says("3 trials cannot be verified again, because the result was taken over from another job, stored/result.json: verify that one")
	s.rollout(2, "rejudge", "jobs/pr")
	s.rollout(0, "report", "jobs/pr", "--baseline", "none", "--min-pass-rate", "1")
}

// A run says why nothing is taken over, if that is not what its workflow says.
func TestReuseBaselineNamesItsReasons(t *testing.T) {
	s := newReuseScene(t)
	commitAll(t, s.dir)
	s.rollout(0, "run", "job.yaml", "--name", "beside", "--against", "main", "--reuse", "baseline", "--log-format", "plain")
	s.says("all trials run, because the baseline runs with the job")
}

// TestAHostileBaselineChangesNothingElse: names, digests and numbers of a forged file reach no path
// and no terminal as they are, and trials that it does not describe run.
func TestAHostileBaselineChangesNothingElse(t *testing.T) {
	s := newReuseScene(t)
	var base result.Job
	if err := json.Unmarshal([]byte(s.read("stored/result.json")), &base); err != nil {
		t.Fatal(err)
	}
	base.JobName = "../../\x1b[31mmain\u202e"
	for i := range base.Results.Len() {
		switch base.Results.At(i).Task {
		case "broken":
			base.Results.Change(i, func(o *result.Outcome) { o.Reward = new(1e308) })
		case "flaky":
			base.Results.Change(i, func(o *result.Outcome) { o.DurationSec = 1e308 })
		}
	}
	for _, task := range []string{"../../../outside", "a\x1b[2J\nb", strings.Repeat("x", 100_000)} {
		o := base.Results.At(0)
		o.Task, o.Agent = task, task
		base.Results.Append(o)
	}
	s.storeBase(base)
	s.rollout(0, "run", "job.yaml", "--baseline", "stored/result.json", "--reuse", "baseline", "--set", "gate.max_pass_rate_drop=null", "--html", "page.html", "--markdown", "report.md", "--log-format", "plain")
	s.says("Reused 2 of 3 trials", "1 with a result that cannot be read")
	said := s.out.String() + s.read("page.html") + s.read("report.md") + s.rollout(0, "show", "jobs/pr", "steady")
	if strings.ContainsAny(said, "\x1b\u202e") || len(said) > 1<<20 {
		t.Errorf("%d bytes, or text from outside as it was", len(said))
	}
	if found, _ := filepath.Glob(filepath.Join(s.dir, "..", "*outside*")); len(found) > 0 {
		t.Error(found)
	}
	for name, forge := range map[string]func(string) string{
		"a reward that JSON has not": func(text string) string { return strings.Replace(text, `"reward":1`, `"reward":NaN`, 1) },
		"a reward without end":       func(text string) string { return strings.Replace(text, `"reward":1`, `"reward":1e999`, 1) },
		"an experiment out of range": func(text string) string { return strings.Replace(text, `"experiment":1`, `"experiment":9`, 1) },
		"no JSON":                    func(string) string { return "{" },
	} {
		s := newReuseScene(t)
		text := forge(s.read("stored/result.json"))
		s.write("stored/result.json", text)
		s.rollout(2, "run", "job.yaml", "--baseline", "stored/result.json", "--reuse", "baseline", "--log-format", "plain")
		if _, err := os.Stat(filepath.Join(s.dir, "jobs/pr")); err == nil {
			t.Errorf("%s: the job began", name)
		}
	}
}

// Rounds over shards, with a look between them: a shard whose trials are all taken over has made
// its rounds, and the others go on.
func TestReuseBaselineWithLooksAtShards(t *testing.T) {
	t.Parallel()
	s := newReuseScene(t)
	s.write("job.yaml", strings.NewReplacer(", noise: ignore, confirm: {attempts: 4}", "").Replace(s.read("job.yaml"))+"n_attempts: 3\n")
	s.rollout(0, "run", "job.yaml", "--name", "full", "--set", "gate.on_no_baseline=pass", "--log-format", "plain")
	base := s.job("full")
	for i := range base.Results.Len() { // what these trials ran is not known, so they run
		if base.Results.At(i).Task == "broken" {
			base.Results.Change(i, func(o *result.Outcome) { o.Experiment = 0 })
		}
	}
	s.storeBase(base)
	round := func(n string, reuse ...string) {
		t.Helper()
		for _, shard := range []string{"1/3", "2/3", "3/3"} {
			s.rollout(0, append([]string{"run", "job.yaml", "--shard", shard, "--round", n, "--baseline", "stored/result.json", "--stop-early", "--log-format", "plain"}, reuse...)...)
		}
	}
	shards := []string{"jobs/pr.shard-1-of-3", "jobs/pr.shard-2-of-3", "jobs/pr.shard-3-of-3", "--name", "pr", "--baseline", "stored/result.json"}
	round("1", "--reuse", "baseline")
	s.rollout(0, append([]string{"merge", "--look"}, shards...)...)
	s.says("Ended after 1 of 3 rounds", "no further round")
	s.rollout(0, append([]string{"merge"}, shards...)...)
	if job := s.job("pr"); job.ReusedTrials != 6 || job.TotalTrials != 7 {
		t.Errorf("%d of %d trials are reused", job.ReusedTrials, job.TotalTrials)
	}
	// Where no look is possible, as on GitLab, the shards make all rounds at once.
	if err := os.RemoveAll(filepath.Join(s.dir, "jobs")); err != nil {
		t.Fatal(err)
	}
	round("1000", "--reuse", "baseline")
	s.rollout(0, append([]string{"merge"}, shards...)...)
	if job := s.job("pr"); job.ReusedTrials != 6 || job.SkippedTrials != 0 {
		t.Errorf("%d trials are reused, %d skipped", job.ReusedTrials, job.SkippedTrials)
	}
}
