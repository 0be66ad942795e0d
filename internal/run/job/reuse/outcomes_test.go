package reuse

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

func TestOutcomesAreTakenOverWithoutFiles(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	var old result.Trial
	one := find(s, spec, same).Found[0].Trial
	old, old.Reused = one, nil
	plan, err := job.Record(s.Config, s.Specs, job.RecordOptions{StartedAt: s.Began, Dir: s.Dir})
	s.Check(err)
	file := s.In("result.json")
	s.Check(result.WriteJSON(file, result.Summarize(plan, []result.Trial{old})))
	base, _, err := result.ReadJob(file)
	s.Check(err)
	source, known := FromJob("main at 5d6e7f8", base)
	if known != 1 {
		t.Errorf("%d say what they ran", known)
	}
	r, err := Find(t.Context(), []Source{source}, []trial.Spec{spec}, same)
	if err != nil || len(r.Found) != 1 {
		t.Fatalf("%v: %s", err, r.Reasons())
	}
	tree, err := job.Create(s.In("new"), s.Config, plan)
	s.Check(err)
	taken, err := TakeOver(t.Context(), tree, r.Found, nil)
	s.Check(err)
	s.Check(tree.Close())
	if len(taken) != 1 || taken[0].Reused.From != "main at 5d6e7f8" || taken[0].Cost != result.Dollars(2) || !taken[0].Timestamps.StartedAt.Equal(s.Began) {
		t.Errorf("taken over: %+v", taken)
	}
	if files := s.Content(tree.TrialDir(spec.Key)); len(files) != 1 || files[filepath.Base(result.ResultFile)] == "" {
		t.Errorf("in the new directory there are %v", files)
	}
	again, _ := FromJob("pr", result.Summarize(plan, taken))
	if r, err := Find(t.Context(), []Source{again}, []trial.Spec{spec}, same); err != nil || r.Missed[TakenOver] != 1 {
		t.Errorf("a result that was taken over: %v, %s", err, r.Reasons())
	}
}

// TestOldAndHostileResultsAreNotTakenOver: without digests, or with wrong ones, everything runs.
func TestOldAndHostileResultsAreNotTakenOver(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	o := result.Outcome{Key: spec.Key, Reward: new(1.0), TaskDigest: spec.Task.Digest()}
	for name, c := range map[string]struct {
		change func(*result.Job)
		want   Reason
	}{
		"an older version": {func(*result.Job) {}, NoDigests},
		"another agent": {func(j *result.Job) {
			j.Results.Change(0, func(o *result.Outcome) { o.Experiment = 1 })
			j.Experiments = []result.Experiment{{AgentDigest: "x", ConfigDigest: "sha256:c", Image: "i"}}
		}, OtherAgent},
		"a digest that is none": {func(j *result.Job) {
			j.Results.Change(0, func(o *result.Outcome) { o.Experiment = 1 })
			j.Experiments = []result.Experiment{{AgentDigest: "../\x1b[31m", ConfigDigest: strings.Repeat("x", 1<<20), Image: "i"}}
		}, OtherAgent},
		"another task's digest": {func(j *result.Job) {
			j.Results.Change(0, func(o *result.Outcome) { o.TaskDigest = "sha256:" })
			j.Results.Change(0, func(o *result.Outcome) { o.Experiment = 1 })
			j.Experiments = []result.Experiment{{AgentDigest: same.Digests.Agents[spec.Agent.Name], ConfigDigest: "sha256:c", Image: "i"}}
		}, OtherTask},
		"no digest of the task":  {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.TaskDigest = "" }) }, NoDigests},
		"a reward that is none":  {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.Reward = new(math.NaN()) }) }, Unreadable},
		"a reward without end":   {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.Reward = new(math.Inf(1)) }) }, Unreadable},
		"a time before it began": {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.DurationSec = -1 }) }, Unreadable},
		"a time of ages":         {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.DurationSec = 1e308 }) }, Unreadable},
		"an image of ages":       {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.ImageSec = 1e308 }) }, Unreadable},
		"a cost below nothing":   {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.Cost = result.Dollars(-1) }) }, Unreadable},
		"a year that JSON has not": {func(j *result.Job) {
			j.Results.Change(0, func(o *result.Outcome) { o.StartedAt = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) })
		}, Unreadable},
		"names that lead elsewhere": {func(j *result.Job) {
			j.Results.Change(0, func(o *result.Outcome) { o.Task = "../../" + o.Task + "\x1b[31m" })
		}, NoResult},
		"the first of two counts": {func(j *result.Job) {
			bad := j.Results.At(0)
			bad.DurationSec = -1
			j.Results = result.OutcomesOf(bad, j.Results.At(0))
		}, Unreadable},
		"a number out of range": {func(j *result.Job) { j.Results.Change(0, func(o *result.Outcome) { o.Experiment = 7 }) }, NoDigests},
	} {
		base := result.Job{JobName: "main", Results: result.OutcomesOf(o)}
		c.change(&base)
		source, _ := FromJob("main", base)
		if r, err := Find(t.Context(), []Source{source}, []trial.Spec{spec}, same); err != nil || r.Missed[c.want] != 1 {
			t.Errorf("%s: %v, %s", name, err, r.Reasons())
		}
	}
	for _, text := range []string{`{"job_name":"a","agents":{},"results":[{"experiment":2}],"experiments":[{}]}`, `{"job_name":"a","agents":{},"results":[{"experiment":-1}]}`, `{"job_name":"a","agents":{},"results":[],"unchanged":"](http://evil)"}`} {
		if _, err := result.ParseJob(s.In("x"), []byte(text)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}
