package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// suspects is a directory with a job on three tasks. What their verifiers say is decided when a
// trial begins: outcome has for each task the reward by the number of the attempt, the last one for
// all that follow.
type suspects struct {
	*testing.T
	dir     string
	outcome map[string][]string
	out     lockedBuffer // of the last command, both streams
	vars    map[string]string

	mu   sync.Mutex
	stop func() bool // cancels the command when it is true
	end  context.CancelFunc
}

func newSuspects(t *testing.T) *suspects {
	t.Helper()
	s := &suspects{T: t, dir: t.TempDir(), outcome: map[string][]string{"steady": {"1"}, "flaky": {"0", "0", "1"}, "broken": {"0"}}}
	s.write("job.yaml", `
name: pr
n_concurrent_trials: 1
environment: {type: fake}
agents: [{name: a, execute: "true"}]
datasets: [{path: evals}]
gate: {max_broken_tasks: 0, noise: ignore, confirm: {attempts: 4}}
`)
	for task := range s.outcome {
		s.write("evals/"+task+"/task.toml", "version = \"1.0\"\n[environment]\ndocker_image = \"x\"\n")
		s.write("evals/"+task+"/instruction.md", "Do it.\n")
		s.write("evals/"+task+"/tests/test.sh", "cat /tests/outcome > /logs/verifier/reward.txt\n")
		s.write("evals/"+task+"/tests/outcome", "0\n")
	}
	right := s.outcome
	s.outcome = map[string][]string{"steady": {"1"}, "flaky": {"1"}, "broken": {"1"}}
	s.rollout(0, "run", "job.yaml", "--name", "base")
	s.outcome = right
	return s
}

func (s *suspects) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

func (s *suspects) read(name string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// begins is asked for the time, also when a trial begins: then it writes what the verifier will
// say. Until the job has a plan the files are those that its digests are of.
func (s *suspects) begins(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := os.Stat(filepath.Join(s.dir, "jobs", job, result.MetadataFile))
	for task, outcomes := range s.outcome {
		reward := "0"
		if err == nil {
			done, _ := filepath.Glob(filepath.Join(s.dir, "jobs", job, "a/evals", task+"__*", result.ResultFile))
			reward = outcomes[min(len(done), len(outcomes)-1)]
		}
		_ = os.WriteFile(filepath.Join(s.dir, "evals", task, "tests/outcome"), []byte(reward+"\n"), 0o644)
	}
	if s.stop != nil && s.stop() {
		s.end()
	}
}

// lockedBuffer is a bytes.Buffer that may be read while a command writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *lockedBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// rollout runs a command, and wants an exit code.
func (s *suspects) rollout(want int, args ...string) string {
	s.Helper()
	job := "pr"
	for i, arg := range args {
		switch {
		case arg == "--name":
			job = args[i+1]
		case arg == "--shard":
			job += ".shard-" + strings.ReplaceAll(args[i+1], "/", "-of-")
		}
	}
	s.out.Reset()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	s.end = cancel
	lookedAt := job
	for task := range s.outcome {
		s.write("evals/"+task+"/tests/outcome", "0\n")
	}
	ready := args[0] == "run" && !slices.Contains(args, "--resume")
	env := Env{
		Providers: offered,
		Stdin:     strings.NewReader(""), Stdout: &s.out, Stderr: &s.out, Dir: s.dir,
		Now: func() time.Time {
			if ready || strings.Contains(s.out.String(), "Resuming") {
				s.begins(lookedAt)
			}
			return time.Now()
		},
		Getenv: func(name string) (string, bool) { value, ok := s.vars[name]; return value, ok },
	}
	if got := Main(ctx, context.Background(), env, args); got != want {
		s.Fatalf("rollout %q ends with %d, want %d:\n%s", args, got, want, s.out.String())
	}
	return s.out.String()
}

func (s *suspects) says(texts ...string) {
	s.Helper()
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(s.out.String()), " "), text) {
			s.Errorf("it does not say %q:\n%s", text, s.out.String())
		}
	}
}

// attempts are the results and the confirmations of a job by what they came to.
func (s *suspects) attempts(job string) (planned, confirmations []string) {
	s.Helper()
	var j result.Job
	if err := json.Unmarshal([]byte(s.read("jobs/"+job+"/result.json")), &j); err != nil {
		s.Fatal(err)
	}
	list := func(all result.Outcomes) (lines []string) {
		for _, o := range all.All() {
			line := fmt.Sprintf("%s__%d", o.Task, o.Attempt)
			if o.Reward != nil {
				line += fmt.Sprint(" ", *o.Reward)
			} else {
				line += " " + string(o.Error)
			}
			lines = append(lines, line)
		}
		return lines
	}
	return list(j.Results), list(j.Confirmations)
}

var (
	wantPlanned       = []string{"broken__1 0", "flaky__1 0", "steady__1 1"}
	wantConfirmations = []string{"broken__2 0", "broken__3 0", "broken__4 0", "broken__5 0", "flaky__2 0", "flaky__3 1"}
)

func (s *suspects) wantConfirmed(job string) {
	s.Helper()
	planned, confirmations := s.attempts(job)
	if !slices.Equal(planned, wantPlanned) || !slices.Equal(confirmations, wantConfirmations) {
		s.Errorf("%s has %q and the confirmations %q:\n%s", job, planned, confirmations, s.out.String())
	}
}

func TestTasksThatLookBrokenAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSuspects(t)
	s.rollout(1, "run", "job.yaml", "--baseline", "jobs/base", "--junit", "junit.xml", "--markdown", "report.md", "--log-format", "plain")
	s.wantConfirmed("pr")
	s.says("2 tasks look broken: up to 4 attempts more", "confirmed broken: passed 0 of 4 more attempts", "not broken: passed 1 of 2 more attempts",
		"2 tasks looked broken and had 6 further attempts (gate.confirm), which enter no rate")
	for _, report := range []string{"junit.xml", "report.md"} {
		for _, text := range []string{"confirmed broken: passed 0 of 4 more attempts", "not broken: passed 1 of 2 more attempts"} {
			if !strings.Contains(s.read(report), text) {
				t.Errorf("%s does not say %q", report, text)
			}
		}
	}
	if n := strings.Count(s.read("jobs/pr/outputs.jsonl"), `"confirmation":true`); n != 6 {
		t.Errorf("%d lines of outputs.jsonl are marked, want 6", n)
	}
	if text := s.read("jobs/pr/a/evals/broken__5/result.json"); !strings.Contains(text, `"confirmation": true`) {
		t.Errorf("the result is not marked: %s", text)
	}
	if s.rollout(0, "export", "jobs/pr", "--format", "jsonl"); strings.Count(s.out.String(), `"confirmation":true`) != 6 {
		t.Error("the export does not mark 6 attempts")
	}
	s.rollout(1, "report", "jobs/pr", "--baseline", "jobs/base")
	s.says("confirmed broken: passed 0 of 4 more attempts")
	s.rollout(1, "resume", "jobs/pr", "--baseline", "jobs/base")
	s.says("Nothing to run: 3 of 3 trials")
	s.wantConfirmed("pr")

	// Nothing of it is taken over as an ordinary attempt.
	s.outcome["flaky"] = []string{"1"}
	s.rollout(0, "run", "job.yaml", "--name", "more", "--n-attempts", "3", "--reuse", "jobs/pr")
	if strings.Contains(s.read("jobs/more/a/evals/broken__2/result.json"), "reused") {
		t.Error("a confirmation attempt was taken over")
	}
	s.says("Reused 3 of 9 trials (the others: 4 with an attempt that was made because the task looked broken")
}

func TestAFlakyTaskIsNotBroken(t *testing.T) {
	s := newSuspects(t)
	s.outcome["broken"] = []string{"1"}
	s.rollout(0, "run", "job.yaml", "--baseline", "jobs/base")
	if planned, confirmations := s.attempts("pr"); len(planned) != 3 || !slices.Equal(confirmations, []string{"flaky__2 0", "flaky__3 1"}) {
		t.Errorf("got %q, %q", planned, confirmations)
	}
	// Without a baseline nothing looks broken, and a gate without confirm tries nothing again.
	s.rollout(0, "run", "job.yaml", "--name", "alone")
	s.rollout(1, "run", "job.yaml", "--name", "strict", "--baseline", "jobs/base", "--set", "gate.confirm.attempts=0")
	for _, job := range []string{"alone", "strict"} {
		if _, confirmations := s.attempts(job); len(confirmations) > 0 {
			t.Errorf("%s has %q", job, confirmations)
		}
	}
	// Whoever names the baseline later, has them tried then.
	s.rollout(1, "report", "jobs/alone", "--baseline", "jobs/base")
	s.says("1 task looks broken and had no further attempts (gate.confirm)")
}

func TestShardsTryTasksAgainThatLookBroken(t *testing.T) {
	t.Parallel()
	s := newSuspects(t)
	s.rollout(1, "run", "job.yaml", "--baseline", "jobs/base")
	s.rollout(0, "run", "job.yaml", "--name", "parts", "--baseline", "jobs/base", "--shard", "1/2")
	s.rollout(0, "run", "job.yaml", "--name", "parts", "--baseline", "jobs/base", "--shard", "2/2")
	s.rollout(1, "merge", "jobs/parts.shard-1-of-2", "jobs/parts.shard-2-of-2", "--baseline", "jobs/base")
	s.says("confirmed broken: passed 0 of 4 more attempts", "not broken: passed 1 of 2 more attempts")
	s.wantConfirmed("parts")
	for _, left := range []string{"incomplete", "left out", "note:"} {
		if strings.Contains(s.out.String(), left) {
			t.Errorf("it says %q:\n%s", left, s.out.String())
		}
	}
	var whole, parts result.Plan
	for name, plan := range map[string]*result.Plan{"pr": &whole, "parts": &parts} {
		if err := json.Unmarshal([]byte(s.read("jobs/"+name+"/plan.json")), plan); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(whole.Confirm) != fmt.Sprint(parts.Confirm) || whole.Confirm == nil {
		t.Errorf("the plans confirm %v and %v", whole.Confirm, parts.Confirm)
	}

	// Shards that did not know the baseline have tried nothing again, which is said; whoever
	// resumes the job does.
	for _, shard := range []string{"1/2", "2/2"} {
		s.rollout(0, "run", "job.yaml", "--name", "late", "--shard", shard)
	}
	s.rollout(1, "merge", "jobs/late.shard-1-of-2", "jobs/late.shard-2-of-2", "--baseline", "jobs/base")
	s.says("2 tasks look broken and had no further attempts")
	again := s.printed("To make them now:")
	s.rollout(1, "report", "jobs/late", "--baseline", "jobs/base", "--json", "--markdown", "late.md")
	if text := s.read("late.md"); !strings.Contains(text, "--baseline jobs/base --markdown late.md") || strings.Contains(text, "--github") {
		t.Errorf("with --json, the command in the report has not the flags that were given:\n%s", text)
	}

	// Where the job file was may not be known any more: the command says that it is needed, by the
	// path that it had if there is one here.
	plan := s.read("jobs/late/plan.json")
	s.write("jobs/late/plan.json", strings.Replace(plan, `"paths_from": "../.."`, `"paths_from": ""`, 1))
	s.rollout(1, "report", "jobs/late", "--baseline", "jobs/base")
	if got, want := s.printed("To make them now:"), []string{"resume", "jobs/late", "--job-file", "job.yaml", "--baseline", "jobs/base"}; !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	s.write("jobs/late/plan.json", strings.NewReplacer(`"paths_from": "../.."`, `"paths_from": ""`, `"job_file": "job.yaml"`, `"job_file": "gone.yaml"`).Replace(plan))
	s.rollout(1, "report", "jobs/late", "--baseline", "jobs/base")
	if got, want := s.printed("To make them now:"), []string{"resume", "jobs/late", "--job-file", "JOB_FILE", "--baseline", "jobs/base"}; !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	s.rollout(2, "resume", "jobs/late", "--baseline", "jobs/base")
	s.write("jobs/late/plan.json", plan)
	s.rollout(1, again...)
	s.says("confirmed broken: passed 0 of 4 more attempts")
}

func TestConfirmationsThatAreCancelledAreResumed(t *testing.T) {
	t.Parallel()
	s := newSuspects(t)
	s.stop = func() bool { // between the second and the third
		_, err := os.Stat(filepath.Join(s.dir, "jobs/pr/a/evals/broken__3/result.json"))
		return err == nil
	}
	s.rollout(130, "run", "job.yaml", "--baseline", "jobs/base", "--log-format", "plain")
	s.says("Resume it with: rollout resume jobs/pr")
	if _, confirmations := s.attempts("pr"); len(confirmations) == 0 || slices.Equal(confirmations, wantConfirmations) {
		t.Fatalf("this test has lost its point: there are %q", confirmations)
	}
	s.stop = nil
	s.rollout(1, "report", "jobs/pr", "--baseline", "jobs/base")
	s.says("incomplete: 2 tasks look broken, and not all attempts were made that would confirm it")
	s.rollout(1, "resume", "jobs/pr", "--baseline", "jobs/base", "--log-format", "plain")
	s.wantConfirmed("pr")

	// With more attempts than there were, none of them takes the place of a planned one.
	s.outcome["flaky"] = []string{"1"}
	s.rollout(1, "resume", "jobs/pr", "--n-attempts", "2", "--baseline", "jobs/base", "--log-format", "plain")
	planned, confirmations := s.attempts("pr")
	if want := []string{"broken__1 0", "broken__2 0", "flaky__1 0", "flaky__2 1", "steady__1 1", "steady__2 1"}; !slices.Equal(planned, want) {
		t.Errorf("planned are %q", planned)
	}
	if want := []string{"broken__3 0", "broken__4 0", "broken__5 0", "broken__6 0"}; !slices.Equal(confirmations, want) {
		t.Errorf("confirmations are %q", confirmations)
	}
}

// printed is the arguments of the first command that was printed after a text.
func (s *suspects) printed(after string) []string {
	s.Helper()
	_, rest, ok := strings.Cut(strings.Join(strings.Fields(s.out.String()), " "), after+" rollout ")
	args, isCommand := commandIn(s.dir, words(rest))
	if !ok || !isCommand {
		s.Fatalf("no command after %q:\n%s", after, s.out.String())
	}
	return args
}

func TestThePrintedCommandKeepsTheBaseline(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"steady__1", "broken__3"} { // the last trial, and the second confirmation attempt
		t.Run(at, func(t *testing.T) {
			s := newSuspects(t)
			s.stop = func() bool {
				_, err := os.Stat(filepath.Join(s.dir, "jobs/pr/a/evals", at, "result.json"))
				return err == nil
			}
			s.rollout(130, "run", "job.yaml", "--baseline", "jobs/base", "--junit", "the report.xml", "--max-broken-tasks", "1", "--log-format", "plain")
			s.stop = nil
			again := s.printed("Resume it with:")
			if want := []string{"resume", "jobs/pr", "--baseline", "jobs/base", "--junit", "the report.xml", "--log-format", "plain"}; !slices.Equal(again, want) {
				t.Errorf("it says %q, want %q", again, want)
			}
			if strings.Contains(s.read("jobs/pr/plan.json"), "jobs/base") {
				t.Error("the plan names the baseline")
			}
			// Whoever leaves the baseline out gets no green, unless that is what they say.
			s.rollout(1, "resume", "jobs/pr", "--log-format", "plain")
			s.says("the job began with a baseline, and is compared with none")
			s.rollout(0, "resume", "jobs/pr", "--baseline", "none")
			s.rollout(1, "resume", "jobs/pr")
			s.says("the job began with a baseline")
			s.rollout(0, again...)
			s.says("1 task broke")
			s.read("the report.xml")
			s.rollout(0, "report", "jobs/pr")
			s.says("the job began with a baseline")
		})
	}
}
