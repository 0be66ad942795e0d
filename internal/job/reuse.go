package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
)

// Source is a job's folder that results may be taken over from. It is hostile, but what it says of rewards is believed.
type Source struct {
	Label string // the folder as it was given
	Dir   string
	Job   string // its name
}

// OpenSource looks at the folder of a job. It fails with fs.ErrNotExist where there is no plan.
func OpenSource(label, dir string) (Source, error) {
	plan, err := readHead[result.Plan](filepath.Join(dir, result.PlanFile), "tasks", "trials", "shard_of")
	return Source{Label: label, Dir: dir, Job: plan.JobName}, err
}

// Experiment is what has to be the same for a result to be taken over.
type Experiment struct {
	Digests trial.Digests
	// ImageID is environment.Provider's, of an image that a task names; "" if it is not known. ref is asked about only where
	// nothing else differs. It may be nil.
	ImageID func(ref string) string
	// Unaddressed is what comes into all environments although no digest covers it, in a few words each. If there is any, nobody
	// can tell whether trials are the same, so none is.
	Unaddressed []string
}

// Reason says why a trial has to be run although there are folders with results. Larger ones came closer.
type Reason int

// The reasons.
const (
	NoResult Reason = iota
	Unreadable
	OnlyConfirmed
	NotCompleted
	NoDigests
	OtherTask
	OtherFormat
	OtherAgent
	OtherConfig
	OtherImage
	UnknownImage
	Unaddressed
)

var reasonText = []string{
	NoResult: "without a result there", Unreadable: "with a result that cannot be read", OnlyConfirmed: "with an attempt that was made because the task looked broken",
	NotCompleted: "with an error or without a reward",
	NoDigests:    "of a version that did not say what it ran", OtherTask: "of other files of the task", OtherFormat: "of the task in another format", OtherAgent: "of another agent",
	OtherConfig: "of another configuration", OtherImage: "on another image, or on a stand-in for it",
	UnknownImage: "on an image named by a tag, whose content is not known any more", Unaddressed: "with what no digest covers",
}

// Reuse is what can be taken over.
type Reuse struct {
	Found []Found
	// Not counts the trials that cannot be, by the reason that came closest.
	Not map[Reason]int
}

// Found is a result that can be taken over. Trial is what it will be in the new job.
type Found struct {
	Trial  result.Trial
	source Source
}

// Reasons is why trials cannot be taken over, the most frequent first; "" if all can be.
func (r Reuse) Reasons() string {
	var whys []Reason
	for w := range r.Not {
		whys = append(whys, w)
	}
	slices.SortFunc(whys, func(a, b Reason) int {
		if r.Not[a] != r.Not[b] {
			return r.Not[b] - r.Not[a]
		}
		return int(b - a)
	})
	var parts []string
	for _, w := range whys {
		parts = append(parts, fmt.Sprintf("%d %s", r.Not[w], reasonText[w]))
	}
	return strings.Join(parts, ", ")
}

// FindReuse looks in each source for a result of each spec's own key that stands for the same experiment: with a reward and
// without an error, of a task with the same files, the same agent, configuration and image. The first that fits is taken. No link
// is followed, and nothing is changed. When ctx ends it stops looking.
func FindReuse(ctx context.Context, sources []Source, specs []trial.Spec, same Experiment) (Reuse, error) {
	if len(same.Unaddressed) > 0 {
		return Reuse{Not: map[Reason]int{Unaddressed: len(specs)}}, nil
	}
	found := make([]*Found, len(specs))
	whys := make([]Reason, len(specs))
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // some wait for the disk
	const batch = 64
	for first := 0; first < len(specs) && ctx.Err() == nil; first += batch {
		group.Go(func() error {
			var p linker
			for i := first; i < min(first+batch, len(specs)); i++ {
				for _, s := range sources {
					t, why, ok := p.reusable(s, specs[i], same)
					if ok {
						found[i] = &Found{Trial: t, source: s}
						break
					}
					whys[i] = max(whys[i], why)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Reuse{}, err
	}
	r := Reuse{Not: map[Reason]int{}}
	for i, f := range found {
		if f != nil {
			r.Found = append(r.Found, *f)
		} else if ctx.Err() == nil {
			r.Not[whys[i]]++
		}
	}
	return r, nil
}

// reusable is a spec's result in a source, marked; ok is false if there is none that stands for the same.
func (p *linker) reusable(s Source, spec trial.Spec, same Experiment) (t result.Trial, why Reason, ok bool) {
	folder, err := openTrial(s.Dir, spec.Key)
	if errors.Is(err, os.ErrNotExist) {
		return t, NoResult, false
	}
	if err != nil {
		return t, Unreadable, false
	}
	defer folder.Close()
	there, err := p.read(folder, s.Label, spec.Key, &t, func([]byte, string) error { return nil })
	switch {
	case err != nil:
		return t, Unreadable, false
	case !there:
		return t, NoResult, false
	}
	if why, ok := differs(t, spec, same); !ok {
		return t, why, false
	}
	mark := result.Reused{Job: s.Job, From: s.Label, StartedAt: t.Timestamps.StartedAt}
	if t.Reused != nil {
		mark.Job, mark.StartedAt = t.Reused.Job, t.Reused.StartedAt
	}
	t.Reused = &mark
	t.Environment.Preserved = false // what is kept is the other job's
	return t, 0, true
}

// openTrial opens a trial's folder. No link is followed.
func openTrial(dir string, key result.Key) (*os.File, error) {
	below, name := filepath.Split(filepath.FromSlash(key.Dir()))
	agent, dataset := filepath.Split(filepath.Clean(below))
	in, err := openBelow(dir, filepath.Clean(agent), dataset)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return openDir(int(in.Fd()), name, in.Name())
}

// differs compares what a result stands for with what a spec would be.
func differs(t result.Trial, spec trial.Spec, same Experiment) (why Reason, ok bool) {
	switch e := t.Environment; {
	case t.Confirmation:
		return OnlyConfirmed, false
	case !t.Completed() || t.Error != nil:
		return NotCompleted, false
	case t.TaskDigest == "" || t.AgentDigest == "" || t.ConfigDigest == "" || e == nil || e.Image == "":
		return NoDigests, false
	case t.TaskFormat != trial.FormatOf(spec.Task):
		return OtherFormat, false
	case t.TaskDigest != spec.Task.Digest():
		return OtherTask, false
	case t.AgentDigest != same.Digests.Agents[spec.Agent.Name]:
		return OtherAgent, false
	case t.ConfigDigest != same.Digests.Config:
		return OtherConfig, false
	case e.Base != nil:
		return OtherImage, false
	case e.Image != spec.Task.Config.Environment.DockerImage:
		return 0, true // it was built of the task's files
	}
	return otherImage(t.Environment, same)
}

// otherImage compares an image that the task names. A tag may have been moved since, a digest may not; but also a digest has
// another image for each platform, so what is known of it counts.
func otherImage(e *result.Environment, same Experiment) (why Reason, ok bool) {
	pinned, id := strings.Contains(e.Image, "@sha256:"), ""
	if e.ImageID == "" {
		return UnknownImage, pinned
	}
	if same.ImageID != nil {
		id = same.ImageID(e.Image)
	}
	if id == "" {
		return UnknownImage, pinned
	}
	return OtherImage, id == e.ImageID
}

// TakeOver puts trials that were found into the tree, with all of their files: linked where that is possible, copied where it
// is not. A result is written last, so that a folder that is not whole is no result. It stops early when ctx ends. What it returns is
// in the tree, also if it fails. prompt gives the tasks' instructions for outputs.jsonl.
func (t *Tree) TakeOver(ctx context.Context, found []Found, prompt func(dataset, task string) []result.Message) ([]result.Trial, error) {
	t.outputs.from(prompt)
	var mu sync.Mutex
	var taken []result.Trial
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, f := range found {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := t.takeOver(f); err != nil {
				return fmt.Errorf("take over %s from %s: %w", f.Trial.Key, f.source.Label, err)
			}
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, f.Trial)
			return nil
		})
	}
	err := group.Wait()
	slices.SortFunc(taken, func(a, b result.Trial) int { return a.Key.Compare(b.Key) })
	return taken, err
}

func (t *Tree) takeOver(f Found) error {
	if err := t.supersede(f.Trial.Key); err != nil {
		return err
	}
	dir := t.TrialDir(f.Trial.Key)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	source, err := openTrial(f.source.Dir, f.Trial.Key)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := openDir(unix.AT_FDCWD, filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer target.Close()
	p := linker{without: result.ResultFile}
	if err := p.folder(source, target, filepath.Base(dir), 0); err != nil {
		return err
	}
	if err := result.WriteJSON(filepath.Join(dir, result.ResultFile), f.Trial); err != nil {
		return err
	}
	return t.outputs.add(f.Trial)
}
