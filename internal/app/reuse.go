package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
)

// reuseSources opens the directories from which trials are reused. dir is the directory of the
// running job.
func reuseSources(from Paths, paths []string, dir string) ([]reuse.Source, error) {
	var out []reuse.Source
	for _, path := range paths {
		if strings.HasPrefix(path, GitHubPrefix) {
			return nil, usage("--reuse %s: results are taken over with their logs, which are in no baseline: download the artifact with the job's directory, and give that", clean(path))
		}
		if from.same(path, dir) {
			return nil, usage("--reuse %s: is the job itself: --resume resumes it", clean(path))
		}
		jobDir := path
		if info, err := os.Stat(from.Path(path)); err == nil && !info.IsDir() {
			if filepath.Base(path) != result.ResultFile {
				return nil, usage("--reuse %s: is not the directory of a job", clean(path))
			}
			jobDir = filepath.Dir(path)
		}
		source, err := reuse.Open(path, from.Path(jobDir))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return nil, usage("--reuse %s: is not the directory of a job: it has no %s. A %s alone does not say what was run, and has no logs: give the whole directory",
				clean(path), result.PlanFile, result.ResultFile)
		case err != nil:
			return nil, usage("--reuse %s: its %s cannot be read: %v", clean(path), result.PlanFile, clean(err.Error()))
		}
		out = append(out, source)
	}
	return out, nil
}

// reuse takes over the results of trials that need not run again, and reports their number.
func (o *opened) reuse(ctx context.Context, sources []reuse.Source) error {
	if len(sources) == 0 || over(ctx) { // the run reports the cancel
		return nil
	}
	total := len(o.todo)
	var unaddressed []string
	if entry, ok := o.host.Providers.Find(o.Job.Environment.Type); ok {
		unaddressed = entry.Unaddressed(o.Job.Environment.ProviderConfig)
	}
	if len(unaddressed) > 0 {
		linef(o.host.Output, "Reused 0 of %s: what environment.provider_config brings into all environments cannot be compared: %s",
			plural.Count(total, "trial"), joined(unaddressed))
		return nil
	}
	candidates := slices.DeleteFunc(slices.Clone(o.todo), func(s trial.Spec) bool { return o.named[s.Key] })
	found, err := reuse.Find(ctx, sources, candidates, reuse.Experiment{
		Digests: trial.DigestsOf(o.Job, o.inputs()), ImageID: o.imageIDs(ctx), Unaddressed: unaddressed,
	})
	if err != nil {
		return err
	}
	taken, err := reuse.TakeOver(ctx, o.tree, found.Found, job.Instructions(o.own(), redact.New(o.Secrets)))
	keys := map[result.Key]bool{}
	for _, t := range taken {
		keys[t.Key] = true
	}
	o.todo = slices.DeleteFunc(o.todo, func(s trial.Spec) bool { return keys[s.Key] })
	o.earlier = append(slices.DeleteFunc(o.earlier, func(t result.Trial) bool { return keys[t.Key] }), taken...)
	if err != nil && ctx.Err() == nil {
		return err
	}
	line := fmt.Sprintf("Reused %d of %s", len(taken), plural.Count(total, "trial"))
	if why := found.Reasons(); why != "" {
		line += " (the others: " + why + ")"
	}
	o.host.Output.Line(line)
	o.noteUncompared()
	return nil
}

// noteUncompared reports the variables of the host whose values were not compared.
func (p *planned) noteUncompared() {
	names := slices.Clone(p.HiddenPassed)
	for _, hidden := range p.Hidden {
		names = append(names, hidden...)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		linef(p.host.Output, "note: the values of %s were not compared: they may be secrets. If one of them says what is run, a model say, name it in redact.except",
			joined(names))
	}
}

// imageTimeout bounds the pull of one image for comparison: as long as the default for tasks.
const imageTimeout = 10 * time.Minute

// imageIDs returns a function that returns the content ID of an image, asking the provider once per
// image. A missing image is pulled: that is cheaper than to run its trials, which would pull it as
// well.
func (o *opened) imageIDs(ctx context.Context) func(ref string) string {
	var mu sync.Mutex
	known := map[string]string{}
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
func (o *opened) imageID(ctx context.Context, ref string) string {
	ctx, cancel := context.WithTimeout(ctx, imageTimeout)
	defer cancel()
	id, err := environment.ImageID(ctx, o.provider, ref)
	if errors.Is(err, environment.ErrNoImage) && !strings.Contains(ref, "@sha256:") {
		linef(o.host.Output, "Pulling %s, to see whether it is still the image that earlier trials ran on", clean(ref))
		if err = o.provider.PullImage(ctx, ref, nil); err == nil {
			id, err = environment.ImageID(ctx, o.provider, ref)
		}
	}
	if err != nil {
		return ""
	}
	return id
}

// reused returns a sentence for reports about reused trials; "" if there are none.
func reused(job result.Job, trials []result.Trial) string {
	if job.ReusedTrials == 0 {
		return ""
	}
	from := map[string]bool{}
	var cost result.USD
	for _, t := range trials {
		if t.Reused != nil {
			from[t.Reused.From] = true
			cost = cost.Plus(t.Cost)
		}
	}
	directories := slices.Sorted(maps.Keys(from))
	text := fmt.Sprintf("%d of %s %s not run but taken over from %s", job.ReusedTrials, plural.Count(job.TotalTrials, "trial"), plural.Were(job.ReusedTrials), clean(strings.Join(directories[:min(3, len(directories))], ", ")))
	if more := len(directories) - 3; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if cost.Amount() > 0 {
		text += fmt.Sprintf("; the %s that they cost there are not counted", report.Cost(cost))
	}
	return text
}

func over(ctx context.Context) bool { return ctx.Err() != nil }
