package reuse

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/experiment"
	"github.com/org/rollout-action/internal/test/jobtest"
)

// reuseScene is a scene with a directory "old" whose first trial can be taken over, except for the
// effect of change.
func reuseScene(t *testing.T, change func(*result.Trial)) (*jobtest.Scene, trial.Spec, Experiment) {
	s := jobtest.New(t)
	spec := s.Specs[0]
	spec.Agent.Name = spec.Key.Agent
	one := result.Trial{
		Key: spec.Key, Reward: new(1.0), Cost: result.Dollars(2), Costs: result.Costs{Model: result.Dollars(2)}, TaskDigest: spec.Task.Digest(), AgentDigest: "sha256:a", ConfigDigest: "sha256:c",
		Environment: &result.Environment{Provider: "fake", Image: "debian", ImageID: "one", Preserved: true},
	}
	one.Timestamps.StartedAt = s.Began
	one.Timestamps.EndedAt = s.Began.Add(time.Second)
	if change != nil {
		change(&one)
	}
	dir := s.In("old", spec.Key.Dir())
	s.Check(os.MkdirAll(filepath.Join(dir, "command"), 0o755))
	s.Check(result.WriteJSON(filepath.Join(dir, result.ResultFile), one))
	s.Write(filepath.Join(dir, "command", "stdout.txt"), "hello")
	return s, spec, Experiment{Digests: experiment.Digests{Agents: map[string]string{spec.Key.Agent: "sha256:a"}, Config: "sha256:c"}}
}

func find(s *jobtest.Scene, spec trial.Spec, same Experiment) Findings {
	s.Helper()
	r, err := Find(s.Context(), []Source{{Label: "somewhere", Dir: s.In("none")}, {Label: "old", Dir: s.In("old"), Job: "main"}}, []trial.Spec{spec}, same)
	s.Check(err)
	return r
}

func TestOnlyTheSameExperimentIsReused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Trial)
		want   Reason
	}{
		"an error beside the reward": {func(t *result.Trial) { t.Error = &result.Error{Type: result.AgentExecutionTimeout} }, NotCompleted},
		"no reward":                  {func(t *result.Trial) { t.Reward = nil }, NotCompleted},
		"an older version":           {func(t *result.Trial) { t.AgentDigest, t.ConfigDigest = "", "" }, NoDigests},
		"no environment":             {func(t *result.Trial) { t.Environment = nil }, NoDigests},
		"another task":               {func(t *result.Trial) { t.TaskDigest = "sha256:x" }, OtherTask},
		"another agent":              {func(t *result.Trial) { t.AgentDigest = "sha256:x" }, OtherAgent},
		"another configuration":      {func(t *result.Trial) { t.ConfigDigest = "sha256:x" }, OtherConfig},
		"a stand-in for the image":   {func(t *result.Trial) { t.Environment.Base = &result.Base{Actual: "this machine"} }, OtherImage},
		"a result of another trial":  {func(t *result.Trial) { t.Attempt = 2 }, Unreadable},
	} {
		s, spec, same := reuseScene(t, c.change)
		if r := find(s, spec, same); len(r.Found) != 0 || r.Missed[c.want] != 1 {
			t.Errorf("%s: found %d, and %s", name, len(r.Found), r.Reasons())
		}
	}
	s, spec, same := reuseScene(t, nil)
	same.ImageID = func(ref string) string { t.Errorf("asked about %s, which was built", ref); return "" }
	if r := find(s, spec, same); len(r.Found) != 1 {
		t.Errorf("an image that was built: %s", r.Reasons())
	}
	same.Unaddressed = []string{"mounts"}
	if r := find(s, spec, same); len(r.Found) != 0 || r.Missed[Unaddressed] != 1 {
		t.Errorf("with files that no digest covers: found %d, and %s", len(r.Found), r.Reasons())
	}
}

func TestImagesAreComparedByContent(t *testing.T) {
	const pinned = "debian@sha256:5e1d0e4b0d9a6a1cf1cfd5f4b3c0e8d3f57a1c1e8d7d8c9b0a1f2e3d4c5b6a79"
	for _, c := range []struct {
		ref, there, here string // the image's content in the result, and on this machine
		want             Reason // 0: taken over
	}{
		{"debian", "one", "one", 0},
		{"debian", "one", "two", OtherImage},
		{"debian", "one", "", UnknownImage},
		{"debian", "", "one", UnknownImage},
		{pinned, "one", "one", 0},
		{pinned, "one", "", 0},
		{pinned, "", "one", 0},
		{pinned, "one", "of another platform", OtherImage},
	} {
		s, spec, same := reuseScene(t, func(r *result.Trial) { r.Environment.Image, r.Environment.ImageID = c.ref, c.there })
		spec.Task.Config.Environment.DockerImage = c.ref
		same.ImageID = func(ref string) string {
			if ref != c.ref {
				t.Errorf("asked about %s", ref)
			}
			return c.here
		}
		if r := find(s, spec, same); len(r.Found) == 1 != (c.want == 0) || c.want != 0 && r.Missed[c.want] != 1 {
			t.Errorf("%+v: found %d, and %s", c, len(r.Found), r.Reasons())
		}
	}
}

func TestTrialIsTakenOverWithItsFiles(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	s.Write(s.In("secret"), "of the machine")
	old := s.In("old", spec.Key.Dir())
	s.Check(os.Symlink(s.In("secret"), filepath.Join(old, "link.txt")))
	s.Check(os.Symlink(s.Dir, filepath.Join(old, "directory")))
	s.Check(unix.Mkfifo(filepath.Join(old, "pipe"), 0o644))
	before := s.Read(filepath.Join(old, result.ResultFile))
	plan, err := job.Record(s.Config, s.Specs, job.RecordOptions{StartedAt: s.Began.Add(time.Hour), Dir: s.Dir})
	s.Check(err)
	tree, err := job.Create(s.In("new"), s.Config, plan)
	s.Check(err)
	taken, err := TakeOver(t.Context(), tree, find(s, spec, same).Found, nil)
	s.Check(err)
	s.Check(tree.Close())
	want := result.Reused{Job: "main", From: "old", StartedAt: s.Began}
	if len(taken) != 1 || *taken[0].Reused != want || taken[0].Environment.Preserved || taken[0].Cost != result.Dollars(2) {
		t.Errorf("taken over: %+v", taken)
	}
	files := s.Content(tree.TrialDir(spec.Key))
	if len(files) != 2 || files[filepath.Join("command", "stdout.txt")] != "hello" || !strings.Contains(files[result.ResultFile], `"from": "old"`) {
		t.Errorf("in the new directory there are %v", files)
	}
	if after := s.Read(filepath.Join(old, result.ResultFile)); after != before {
		t.Errorf("the old result was changed to %s", after)
	}
	if n := strings.Count(s.Read(s.In("new", result.OutputsFile)), "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}
	job := result.Summarize(plan, taken)
	if job.ReusedTrials != 1 || job.TotalCost != (result.USD{}) || job.Costs.Model != (result.USD{}) || !job.Results.At(0).Reused || job.Results.At(0).Cost != result.Dollars(2) || job.Agents[spec.Key.Agent].ReusedTrials != 1 {
		t.Errorf("the job is %+v", job.Summary)
	}
}

// TestSourcesWithLinksAreNotRead: files behind links are not read.
func TestSourcesWithLinksAreNotRead(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	agent := s.In("old", result.Slug(spec.Key.Agent))
	s.Check(os.Rename(agent, s.In("elsewhere")))
	s.Check(os.Symlink(s.In("elsewhere"), agent))
	if r := find(s, spec, same); len(r.Found) != 0 || r.Missed[Unreadable] != 1 {
		t.Errorf("through a link to an agent's directory: %+v", r)
	}
	s, spec, same = reuseScene(t, nil)
	file := s.In("old", spec.Key.Dir(), result.ResultFile)
	s.Check(os.Rename(file, s.In("result")))
	s.Check(os.Symlink(s.In("result"), file))
	if r := find(s, spec, same); len(r.Found) != 0 || r.Missed[Unreadable] != 1 {
		t.Errorf("through a link to a result: %+v", r)
	}
	if _, err := Open("x", s.In("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	s.Check(os.Symlink(s.In("secret"), s.In("old", result.PlanFile)))
	if _, err := Open("x", s.In("old")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a plan that is a link: %v", err)
	}
}

// TestFailedTakeOverLeavesNoResult: the result is written last.
func TestFailedTakeOverLeavesNoResult(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	found := find(s, spec, same).Found
	plan, err := job.Record(s.Config, s.Specs, job.RecordOptions{StartedAt: s.Began, Dir: s.Dir})
	s.Check(err)
	tree, err := job.Create(s.In("new"), s.Config, plan)
	s.Check(err)
	s.Write(filepath.Join(tree.TrialDir(spec.Key), "in-the-way.txt"), "x") // so that the directory cannot be made
	taken, err := TakeOver(t.Context(), tree, found, nil)
	if err == nil || len(taken) != 0 {
		t.Errorf("%d taken over, %v", len(taken), err)
	}
	if _, err := os.Stat(filepath.Join(tree.TrialDir(spec.Key), result.ResultFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a result: %v", err)
	}
	s.Check(tree.Close())
}

func TestReasonsAreSorted(t *testing.T) {
	r := Findings{Missed: map[Reason]int{NoResult: 2, OtherAgent: 5, OtherImage: 2}}
	if got, want := r.Reasons(), "5 of another agent, 2 on another image, or on a stand-in for it, 2 without a result there"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(reasonText) != int(Unaddressed)+1 || slices.Contains(reasonText, "") {
		t.Error("a reason has no words")
	}
}
