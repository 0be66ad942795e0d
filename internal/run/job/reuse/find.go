package reuse

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// Source is the directory of a job whose results may be taken over. Its files are hostile, but its
// rewards are trusted.
type Source struct {
	Label string // the directory as it was given
	Dir   string
	Job   string // its name
	// outcomes are the trials of a source that is a job's result.json alone; nil: it is a
	// directory. A trial is nil if its result cannot be read.
	outcomes map[result.Key]*result.Trial
	// baseline: the source is the baseline of the new job, of a commit and with the address of its
	// run ("": not known). What it has taken over itself is not taken again.
	baseline    bool
	commit, url string
}

// AsBaseline returns the source as the baseline of the new job.
func (s Source) AsBaseline(commit, url string) Source {
	s.baseline, s.commit, s.url = true, commit, url
	return s
}

// Open returns the source in the directory of a job. The error is fs.ErrNotExist if it has no plan.
func Open(label, dir string) (Source, error) {
	plan, err := result.ReadPlanHead(dir)
	return Source{Label: label, Dir: dir, Job: plan.JobName}, err
}

// Experiment holds the properties that must be equal for a result to be taken over.
type Experiment struct {
	Digests experiment.Digests
	// ImageID returns the ID of an image that a task names, and "" if it is not known. Find calls
	// it only if nothing else differs. It may be nil.
	ImageID func(ref string) string
	// Unaddressed names contents of all environments that are in no digest. If there are any,
	// nothing is taken over, because trials cannot be compared.
	Unaddressed []string
}

// Found is a result that can be taken over. Trial is the result in the form for the new job.
type Found struct {
	Trial  result.Trial
	source Source
}

// Find searches the sources for a result of each spec that can be taken over: a result of the same
// key, with a reward and without an error, of a task with the same files, and with the same agent,
// configuration and image. It takes the first one. It follows no link, changes nothing, and stops
// when ctx ends.
func Find(ctx context.Context, sources []Source, specs []trial.Spec, same Experiment) (Findings, error) {
	if len(same.Unaddressed) > 0 {
		return Findings{Missed: map[Reason]int{Unaddressed: len(specs)}}, nil
	}
	found := make([]*Found, len(specs))
	whys := make([]Reason, len(specs))
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // some wait for the disk
	const batch = 64
	for first := 0; first < len(specs) && ctx.Err() == nil; first += batch {
		group.Go(func() error {
			var reader result.TrialReader
			for i := first; i < min(first+batch, len(specs)); i++ {
				for _, s := range sources {
					t, why, ok := reusable(&reader, s, specs[i], same)
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
		return Findings{}, err
	}
	r := Findings{Missed: map[Reason]int{}}
	for i, f := range found {
		if f != nil {
			r.Found = append(r.Found, *f)
		} else if ctx.Err() == nil {
			r.Missed[whys[i]]++
		}
	}
	return r, nil
}

// reusable returns a spec's result in a source, marked as reused. If ok is false, there is none,
// and why is the reason.
func reusable(reader *result.TrialReader, s Source, spec trial.Spec, same Experiment) (t result.Trial, why Reason, ok bool) {
	if s.outcomes != nil {
		found, there := s.outcomes[spec.Key]
		if !there {
			return t, NoResult, false
		}
		if found == nil {
			return t, Unreadable, false
		}
		t = *found
	} else if why, ok := s.read(reader, spec.Key, &t); !ok {
		return t, why, false
	}
	if s.baseline && t.Reused != nil {
		return t, TakenOver, false
	}
	if why, ok := differs(t, spec, same); !ok {
		return t, why, false
	}
	return s.Take(t).Trial, 0, true
}

// read reads a result from the directory of a job. If ok is false, there is none, and why is the
// reason.
func (s Source) read(reader *result.TrialReader, key result.Key, t *result.Trial) (why Reason, ok bool) {
	opened, err := openTrial(s.Dir, key)
	if errors.Is(err, os.ErrNotExist) {
		return NoResult, false
	}
	if err != nil {
		return Unreadable, false
	}
	defer opened.Close()
	there, err := reader.Read(opened, s.Label, key, t, nil)
	switch {
	case err != nil:
		return Unreadable, false
	case !there:
		return NoResult, false
	}
	return 0, true
}

// Take marks a result in the source as taken over, without checking it.
func (s Source) Take(t result.Trial) Found {
	mark := result.Reused{Job: s.Job, From: s.Label, StartedAt: t.Timestamps.StartedAt, Commit: s.commit, URL: s.url}
	if t.Reused != nil {
		mark.Job, mark.StartedAt = t.Reused.Job, t.Reused.StartedAt
	}
	t.Reused = &mark
	t = t.WithoutGroups("") // the other trials of its task may differ here
	return Found{Trial: t.WithoutKept(), source: s}
}

// openTrial opens a trial's directory. It follows no link.
func openTrial(dir string, key result.Key) (*os.File, error) {
	return nofollow.OpenDirBelow(dir, strings.Split(key.Dir(), "/")...)
}

// differs compares a result with the trial of a spec. ok is true if they are the same experiment;
// else why is the difference.
func differs(t result.Trial, spec trial.Spec, same Experiment) (why Reason, ok bool) {
	e := t.Environment
	switch {
	case t.Confirmation:
		return OnlyConfirmed, false
	case t.Reused != nil && t.Reused.From == "":
		return TakenOver, false
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
	case t.ConfigDigest != same.Digests.ConfigOf(spec.Task):
		return OtherConfig, false
	case e.Base != nil, e.Verifier != nil && e.Verifier.Base != nil:
		return OtherImage, false
	case spec.Task.Services().Unpinned(): // results do not have the images of services
		return UnknownImage, false
	}
	why, ok = otherImage(e.Image, e.ImageID, spec.Task, same)
	of, _ := spec.Task.Apart(false)
	switch own := of != nil && of.ImageOf() == of; {
	case !ok || !own:
		return why, ok
	case e.Verifier == nil: // a list of results does not have it
		return UnknownImage, of.Config.Environment.DockerImage == ""
	}
	return otherImage(e.Verifier.Image, e.Verifier.ImageID, of, same)
}

// otherImage compares an image with that of a task, if the task names it. A tag may have been moved
// since. A digest cannot, but it has one image for each platform, so a known ID counts more.
func otherImage(image, knownID string, of *task.Task, same Experiment) (why Reason, ok bool) {
	if image != of.Config.Environment.DockerImage {
		return 0, true // it was built from the task's files
	}
	pinned, id := strings.Contains(image, "@sha256:"), ""
	if knownID == "" {
		return UnknownImage, pinned
	}
	if same.ImageID != nil {
		id = same.ImageID(image)
	}
	if id == "" {
		return UnknownImage, pinned
	}
	return OtherImage, id == knownID
}
