package job

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

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
)

// reuseScene is a scene with a folder "old" whose first trial can be taken over, but for what change does to it.
func reuseScene(t *testing.T, change func(*result.Trial)) (*scene, trial.Spec, Experiment) {
	s := newScene(t)
	spec := s.specs[0]
	spec.Agent.Name = spec.Key.Agent
	one := result.Trial{
		Key: spec.Key, Reward: new(1.0), Cost: 2, Costs: result.Costs{Model: 2}, TaskDigest: spec.Task.Digest(), AgentDigest: "sha256:a", ConfigDigest: "sha256:c",
		Environment: &result.Environment{Provider: "fake", Image: "debian", ImageID: "one", Preserved: true},
	}
	one.Timestamps.StartedAt = s.began
	one.Timestamps.EndedAt = s.began.Add(time.Second)
	if change != nil {
		change(&one)
	}
	dir := s.in("old", spec.Key.Dir())
	s.check(os.MkdirAll(filepath.Join(dir, "command"), 0o755))
	s.check(result.WriteJSON(filepath.Join(dir, result.ResultFile), one))
	s.write(filepath.Join(dir, "command", "stdout.txt"), "hello")
	return s, spec, Experiment{Digests: trial.Digests{Agents: map[string]string{spec.Key.Agent: "sha256:a"}, Config: "sha256:c"}}
}

func (s *scene) find(spec trial.Spec, same Experiment) Reuse {
	s.Helper()
	r, err := FindReuse(s.Context(), []Source{{Label: "somewhere", Dir: s.in("none")}, {Label: "old", Dir: s.in("old"), Job: "main"}}, []trial.Spec{spec}, same)
	s.check(err)
	return r
}

func TestOnlyTheSameExperimentIsTakenOver(t *testing.T) {
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
		if r := s.find(spec, same); len(r.Found) != 0 || r.Not[c.want] != 1 {
			t.Errorf("%s: found %d, and %s", name, len(r.Found), r.Reasons())
		}
	}
	s, spec, same := reuseScene(t, nil)
	same.ImageID = func(ref string) string { t.Errorf("asked about %s, which was built", ref); return "" }
	if r := s.find(spec, same); len(r.Found) != 1 {
		t.Errorf("an image that was built: %s", r.Reasons())
	}
	same.Unaddressed = []string{"mounts"}
	if r := s.find(spec, same); len(r.Found) != 0 || r.Not[Unaddressed] != 1 {
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
		if r := s.find(spec, same); len(r.Found) == 1 != (c.want == 0) || c.want != 0 && r.Not[c.want] != 1 {
			t.Errorf("%+v: found %d, and %s", c, len(r.Found), r.Reasons())
		}
	}
}

func TestATrialIsTakenOverWithItsFiles(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	s.write(s.in("secret"), "of the machine")
	old := s.in("old", spec.Key.Dir())
	s.check(os.Symlink(s.in("secret"), filepath.Join(old, "link.txt")))
	s.check(os.Symlink(s.dir, filepath.Join(old, "folder")))
	s.check(unix.Mkfifo(filepath.Join(old, "pipe"), 0o644))
	before := s.read(filepath.Join(old, result.ResultFile))
	plan, err := Record(s.cfg, s.specs, RecordOptions{StartedAt: s.began.Add(time.Hour), Dir: s.dir})
	s.check(err)
	tree, err := Create(s.in("new"), s.cfg, plan)
	s.check(err)
	taken, err := tree.TakeOver(t.Context(), s.find(spec, same).Found, nil)
	s.check(err)
	s.check(tree.Close())
	want := result.Reused{Job: "main", From: "old", StartedAt: s.began}
	if len(taken) != 1 || *taken[0].Reused != want || taken[0].Environment.Preserved || taken[0].Cost != 2 {
		t.Errorf("taken over: %+v", taken)
	}
	files := s.content(tree.TrialDir(spec.Key))
	if len(files) != 2 || files[filepath.Join("command", "stdout.txt")] != "hello" || !strings.Contains(files[result.ResultFile], `"from": "old"`) {
		t.Errorf("in the new folder there are %v", files)
	}
	if after := s.read(filepath.Join(old, result.ResultFile)); after != before {
		t.Errorf("the old result was changed to %s", after)
	}
	if n := len(lines(t, s.in("new", result.OutputsFile))); n != 1 {
		t.Errorf("%d lines", n)
	}
	job := result.Summarize(plan, taken)
	if job.ReusedTrials != 1 || job.TotalCost != 0 || job.Costs.Model != 0 || !job.Results[0].Reused || job.Results[0].Cost != 2 || job.Agents[spec.Key.Agent].ReusedTrials != 1 {
		t.Errorf("the job is %+v", job.Summary)
	}
}

// TestSourcesAreHostile: what is reached through links is not looked at.
func TestSourcesAreHostile(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	agent := s.in("old", result.Slug(spec.Key.Agent))
	s.check(os.Rename(agent, s.in("elsewhere")))
	s.check(os.Symlink(s.in("elsewhere"), agent))
	if r := s.find(spec, same); len(r.Found) != 0 || r.Not[Unreadable] != 1 {
		t.Errorf("through a link to an agent's folder: %+v", r)
	}
	s, spec, same = reuseScene(t, nil)
	file := s.in("old", spec.Key.Dir(), result.ResultFile)
	s.check(os.Rename(file, s.in("result")))
	s.check(os.Symlink(s.in("result"), file))
	if r := s.find(spec, same); len(r.Found) != 0 || r.Not[Unreadable] != 1 {
		t.Errorf("through a link to a result: %+v", r)
	}
	if _, err := OpenSource("x", s.in("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	s.check(os.Symlink(s.in("secret"), s.in("old", result.PlanFile)))
	if _, err := OpenSource("x", s.in("old")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a plan that is a link: %v", err)
	}
}

// TestATrialThatIsNotWholeIsNoResult: a result is the last that is there.
func TestATrialThatIsNotWholeIsNoResult(t *testing.T) {
	s, spec, same := reuseScene(t, nil)
	found := s.find(spec, same).Found
	plan, err := Record(s.cfg, s.specs, RecordOptions{StartedAt: s.began, Dir: s.dir})
	s.check(err)
	tree, err := Create(s.in("new"), s.cfg, plan)
	s.check(err)
	s.write(filepath.Join(tree.TrialDir(spec.Key), "in-the-way.txt"), "x") // so that the folder cannot be made
	taken, err := tree.TakeOver(t.Context(), found, nil)
	if err == nil || len(taken) != 0 {
		t.Errorf("%d taken over, %v", len(taken), err)
	}
	if _, err := os.Stat(filepath.Join(tree.TrialDir(spec.Key), result.ResultFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a result: %v", err)
	}
	s.check(tree.Close())
}

func TestReasonsAreSorted(t *testing.T) {
	r := Reuse{Not: map[Reason]int{NoResult: 2, OtherAgent: 5, OtherImage: 2}}
	if got, want := r.Reasons(), "5 of another agent, 2 on another image, or on a stand-in for it, 2 without a result there"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(reasonText) != int(Unaddressed)+1 || slices.Contains(reasonText, "") {
		t.Error("a reason has no words")
	}
}
