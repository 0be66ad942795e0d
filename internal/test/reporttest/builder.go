package reporttest

import (
	"maps"
	"path"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// start is the start time of all jobs here.
var start = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// Spec describes a trial of a made-up job.
type Spec struct {
	Agent, Dataset, Task string
	Attempt              int      // 0 is 1
	Reward               *float64 // nil: none
	Error                result.ErrorType
	Message              string // of the error
	Seconds, Cost        float64
	Missing              bool // planned, without a result
	Digest               string
	// Logs are files below the trial's directory.
	Logs map[string]string
	// Usage is what the agent used of its model; nil without one.
	Usage *result.Usage
	// Steps are those of a task with steps.
	Steps []result.StepRun
}

func (s Spec) key() result.Key {
	return result.Key{Agent: s.Agent, Dataset: s.Dataset, Task: s.Task, Attempt: max(s.Attempt, 1)}
}

// Make returns a job whose trials ran one after the other. Its tasks are at tasks/<dataset>/<task>.
func Make(name string, specs []Spec) report.Input {
	commit := "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
	in := report.Input{
		Plan:  result.Plan{JobName: name, StartedAt: start, Digest: "sha256:51c9", Commit: &commit, Metrics: []string{"mean"}},
		Dir:   "jobs/" + result.Slug(name),
		Now:   start.Add(time.Hour),
		Links: Links,
	}
	var trials []result.Trial
	files, seen, at := fstest.MapFS{}, map[result.PlannedTask]bool{}, start
	for _, s := range specs {
		in.Plan.Trials.Append(s.key())
		task := result.PlannedTask{Dataset: s.Dataset, Task: s.Task, Digest: s.Digest, Path: path.Join("tasks", s.Dataset, s.Task)}
		if !seen[task] {
			seen[task] = true
			in.Plan.Tasks = append(in.Plan.Tasks, task)
		}
		if s.Missing {
			continue
		}
		end := at.Add(time.Duration(s.Seconds * float64(time.Second)))
		trials = append(trials, trial(s, at, end))
		at = end
		for log, text := range s.Logs {
			files[path.Join(s.key().Dir(), log)] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		}
	}
	in.Files = index(files)
	SetTrials(&in, trials)
	in.Verdict = gate.Verdict{Outcome: gate.Pass, Reason: "All checks passed."}
	return in
}

// SetTrials gives a job other results, and computes its numbers from them.
func SetTrials(in *report.Input, trials []result.Trial) {
	in.Trials = result.PackAll(trials)
	in.Job, in.Groups = result.Summarize(in.Plan, trials), result.Groups(in.Plan, trials)
}

// ChangeTrials changes the results of a job, and not its numbers.
func ChangeTrials(in *report.Input, change func(trials []result.Trial)) {
	trials := result.UnpackAll(in.Trials)
	change(trials)
	in.Trials = result.PackAll(trials)
}

func trial(s Spec, from, to time.Time) result.Trial {
	t := result.Trial{
		Key: s.key(), Reward: s.Reward, Usage: s.Usage, Steps: s.Steps, Cost: cost(s.Cost), Costs: result.Costs{Model: cost(s.Cost)}, TaskDigest: s.Digest,
		Durations:  result.Durations{TotalSec: s.Seconds},
		Timestamps: result.Timestamps{StartedAt: from, EndedAt: to},
	}
	if !t.Usage.Exact() {
		t.Costs.Model = t.Costs.Model.LowerBound()
		result.SumCosts(&t)
	}
	if s.Error != "" {
		t.Error = &result.Error{Type: s.Error, Message: s.Message}
	}
	return t
}

// Against returns in compared with a baseline.
func Against(in, base report.Input) report.Input {
	diff := result.Compare(base.Job, in.Job)
	in.Diff = &diff
	in.Baseline = "main at 9f8e7d6, 2 commits before this branch began (run 123)"
	return in
}

// Links are the links of all jobs here.
var Links = report.Links{
	Run:      "https://github.com/acme/widgets/actions/runs/42",
	Artifact: "https://github.com/acme/widgets/actions/runs/42/artifacts/7",
	Commit:   "https://github.com/acme/widgets/commit/1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d",
	Sha:      "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d",
	Files:    "https://github.com/acme/widgets/tree/1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d",
}

// logs returns the union of sets of files.
func logs(sets ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return all
}

// cost is a reported amount; 0 stands for none.
func cost(usd float64) result.USD {
	if usd == 0 {
		return result.USD{}
	}
	return result.Dollars(usd)
}
