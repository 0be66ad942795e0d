package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// ReuseSources opens the directories from which trials are reused. dir is the directory of the
// running job.
func ReuseSources(from host.Paths, paths []string, dir string) ([]reuse.Source, error) {
	var out []reuse.Source
	for _, path := range paths {
		if strings.HasPrefix(path, reporting.GitHubPrefix) {
			return nil, host.Usagef("--reuse %s: results are taken over with their logs, which are in no baseline: download the artifact with the job's directory, and give that", host.Clean(path))
		}
		if from.SameJob(path, dir) {
			return nil, host.Usagef("--reuse %s: is the job itself: --resume resumes it", host.Clean(path))
		}
		jobDir := path
		if info, err := os.Stat(from.Path(path)); err == nil && !info.IsDir() {
			if filepath.Base(path) != result.ResultFile {
				return nil, host.Usagef("--reuse %s: is not the directory of a job", host.Clean(path))
			}
			jobDir = filepath.Dir(path)
		}
		source, err := reuse.Open(path, from.Path(jobDir))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return nil, host.Usagef("--reuse %s: is not the directory of a job: it has no %s. A %s alone has neither the configuration nor the logs: give the whole directory",
				host.Clean(path), result.PlanFile, result.ResultFile)
		case err != nil:
			return nil, host.Usagef("--reuse %s: its %s cannot be read: %v", host.Clean(path), result.PlanFile, host.Clean(err.Error()))
		}
		out = append(out, source)
	}
	return out, nil
}

// reuse takes over the results of trials that need not run again, and reports their number.
func (o *Opened) reuse(ctx context.Context, sources []reuse.Source) error {
	if len(sources) == 0 || over(ctx) { // the run reports the cancel
		return nil
	}
	total := len(o.Todo)
	unaddressed := o.unaddressed()
	if len(unaddressed) > 0 {
		host.Linef(o.Host.Output, "Reused 0 of %s: the files that environment.provider_config brings into all environments cannot be compared: %s",
			plural.Count(total, "trial"), host.Joined(unaddressed))
		return nil
	}
	candidates := slices.DeleteFunc(slices.Clone(o.Todo), func(s trial.Spec) bool { return o.Named[s.Key] })
	found, err := reuse.Find(ctx, sources, candidates, reuse.Experiment{
		Digests: experiment.DigestsOf(o.Job, o.Inputs()), ImageID: o.imageIDs(ctx), Unaddressed: unaddressed,
	})
	if err != nil {
		return err
	}
	taken, err := reuse.TakeOver(ctx, o.Tree, found.Found, job.Instructions(o.Own(), redact.New(o.Secrets)))
	keys := map[result.Key]bool{}
	for _, t := range taken {
		keys[t.Key] = true
	}
	o.Todo = slices.DeleteFunc(o.Todo, func(s trial.Spec) bool { return keys[s.Key] })
	o.Earlier = append(slices.DeleteFunc(o.Earlier, func(t result.Trial) bool { return keys[t.Key] }), taken...)
	if err != nil && ctx.Err() == nil {
		return err
	}
	line := fmt.Sprintf("Reused %d of %s", len(taken), plural.Count(total, "trial"))
	if why := found.Reasons(); why != "" {
		line += " (the others: " + why + ")"
	}
	o.Host.Output.Line(line)
	o.noteUncompared()
	return nil
}

// noteUncompared reports the variables of the host whose values were not compared.
func (p *Planned) noteUncompared() {
	names := slices.Clone(p.HiddenPassed)
	for _, hidden := range p.Hidden {
		names = append(names, hidden...)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		host.Linef(p.Host.Output, "note: the values of %s were not compared, because they may be secrets. If one of them changes the run, such as the name of a model, add the variable to redact.except",
			host.Joined(names))
	}
}

// imageTimeout bounds the pull of one image for comparison: as long as the default for tasks.
const imageTimeout = 10 * time.Minute

// imageIDs returns a function that returns the content ID of an image, asking the provider once per
// image. A missing image is pulled: that is cheaper than to run its trials, which would pull it as
// well.
func (o *Opened) imageIDs(ctx context.Context) func(ref string) string {
	var mu sync.Mutex
	known := map[string]string{}
	if o.Provider == nil {
		return nil
	}
	return func(ref string) string {
		mu.Lock()
		defer mu.Unlock()
		id, ok := known[ref]
		if !ok {
			id = o.imageID(ctx, ref)
			known[ref] = id
		}
		return id
	}
}

// imageID returns the ID of an image's content; "" if unknown.
func (o *Opened) imageID(ctx context.Context, ref string) string {
	ctx, cancel := context.WithTimeout(ctx, imageTimeout)
	defer cancel()
	id, err := environment.ImageID(ctx, o.Provider, ref)
	if errors.Is(err, environment.ErrNoImage) && !strings.Contains(ref, "@sha256:") {
		host.Linef(o.Host.Output, "Pulling %s, to see whether it is still the image that earlier trials ran on", host.Clean(ref))
		if err = o.Provider.PullImage(ctx, ref, nil); err == nil {
			id, err = environment.ImageID(ctx, o.Provider, ref)
		}
	}
	if err != nil {
		return ""
	}
	return id
}

func over(ctx context.Context) bool { return ctx.Err() != nil }
