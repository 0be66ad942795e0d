package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/images"
	"github.com/org/rollout-action/internal/run/trial/services"
	"github.com/org/rollout-action/providers"
)

// AskProvider returns the features that the provider lacks for the trials: as errors if a run would
// certainly be refused, otherwise as warnings, because another machine may have them. Only a remote
// provider is connected to. It creates no environment.
func (p *Planned) AskProvider(ctx context.Context) diag.List {
	entry, _ := p.Host.Providers.Find(p.Job.Environment.Type) // config.Load has checked the name
	if !entry.Remote {
		if entry.Unconnected == nil || p.Implied {
			return nil
		}
		return p.refusedTasks(ctx, func(s trial.Spec) error { return NeverOn(entry.Unconnected, s, p.Job) })
	}
	_, never, err := p.TryProvider(ctx)
	if err != nil {
		at := p.At(fields.Path{"environment", "type"})
		d := warningOf(diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column}, err)
		if known := new(environment.Error); errors.As(err, &known) && known.Refused {
			d.Severity = diag.Error
		}
		return diag.List{d}
	}
	return never
}

// TryProvider connects to the job's provider and returns which features it lacks for the trials: as
// errors if a run would certainly be refused, otherwise as warnings. No environment is created.
func (p *Planned) TryProvider(ctx context.Context) (facts host.ProviderFacts, never diag.List, err error) {
	entry, _ := p.Host.Providers.Find(p.Job.Environment.Type)
	provider, err := host.Connect(ctx, p.Host.Hard, entry, p.Settings, providers.Host{Hide: p.hidden(), Version: p.Host.Version})
	if err != nil {
		return facts, nil, err
	}
	defer provider.Close()
	never, none := p.neverPossible(ctx, provider)
	if none {
		asErrors(never)
	}
	return host.FactsOf(provider), never, nil
}

func asErrors(problems diag.List) {
	for i := range problems {
		problems[i].Severity = diag.Error
	}
}

// ask returns, as warnings, the images and environments of the trials that a provider can never
// have or create. A new job in which no task will have an image is refused. resumption is as in
// connect.
func (p *Planned) ask(ctx context.Context, provider environment.Provider, resumption string) (never diag.List, refused error) {
	never, none := p.neverPossible(ctx, provider)
	if none && resumption == "" && p.Reverifies == "" {
		asErrors(never)
		return nil, never
	}
	return never, nil
}

// neverPossible returns a warning for each reason why there will be no images, and for each task
// whose environment the provider can never create; none reports whether no task will have an image.
func (p *Planned) neverPossible(ctx context.Context, provider environment.Provider) (never diag.List, none bool) {
	if never, none = p.neverImages(ctx, provider); none {
		return never, true
	}
	return append(never, p.neverCreated(ctx, provider)...), false
}

// runnable returns the valid tasks of this run.
func (p *Planned) runnable() []*task.Task {
	var tasks []*task.Task
	seen := map[*task.Task]bool{}
	for _, s := range p.Own() {
		if !seen[s.Task] && !s.Task.Missing && s.Task.Err() == nil {
			tasks = append(tasks, s.Task)
		}
		seen[s.Task] = true
	}
	return tasks
}

// imagesTime bounds how long the check of images delays a job. The trials discover the remaining
// problems.
const imagesTime = 30 * time.Second

// neverImages returns a warning for each reason why tasks will never have an image, and whether
// that applies to all of them.
func (p *Planned) neverImages(ctx context.Context, provider environment.Provider) (problems diag.List, none bool) {
	tasks := p.runnable()
	for _, t := range tasks { // and the images that only tests have
		if apart, _ := t.Apart(false); apart != nil && apart.ImageOf() == apart {
			tasks = append(tasks, apart)
		}
	}
	limited, cancel := context.WithTimeout(ctx, imagesTime)
	defer cancel()
	store := images.NewStore(provider, p.Job.Environment.ForceBuild)
	errs := make([]error, len(tasks))
	_ = EachTask(limited, "Checking images", tasks, func(i int, t *task.Task) {
		err := store.Check(limited, t)
		if limited.Err() == nil {
			errs[i] = err
		}
	}) // trials discover the rest
	affected := map[string][]*task.Task{} // by reason
	first := map[string]error{}
	var reasons []string
	none = len(tasks) > 0
	for i, err := range errs {
		if err == nil {
			none = false
			continue
		}
		why := err.Error()
		if known := new(environment.Error); errors.As(err, &known) && known.Hint != "" {
			why = known.Hint
		}
		if affected[why] == nil {
			reasons, first[why] = append(reasons, why), err
		}
		affected[why] = append(affected[why], tasks[i])
	}
	for _, why := range reasons {
		problems = append(problems, p.noImages(affected[why], first[why]))
	}
	return problems, none
}

// noImages returns the warning that tasks will never have an image. err is the problem of the first
// of them.
func (p *Planned) noImages(tasks []*task.Task, err error) diag.Diagnostic {
	if len(tasks) == 1 {
		return warningOf(diag.Diagnostic{File: p.Host.Paths.ShownTask(tasks[0], tasks[0].Files().Config)}, err)
	}
	const shown = 3
	var names []string
	for _, t := range tasks[:min(len(tasks), shown)] {
		names = append(names, t.Name)
	}
	list := strings.Join(names, ", ")
	if more := len(tasks) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	at := p.At(fields.Path{"environment", "type"})
	d := warningOf(diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column}, err)
	d.Message = fmt.Sprintf("%s have no image (%s): %s", plural.Count(len(tasks), "task"), host.Clean(list), d.Message)
	return d
}

// neverCreated returns a warning for each task whose environment the provider can never create.
func (p *Planned) neverCreated(ctx context.Context, provider environment.Provider) diag.List {
	return p.refusedTasks(ctx, func(s trial.Spec) error {
		if err := NeverOn(provider, s, p.Job); err != nil {
			return err
		}
		return checkCreation(ctx, provider, s.Limits(p.Job), s.Networks(p.Job))
	})
}

// refusedTasks returns a warning for each valid task of this run whose first trial check refuses.
// It ignores errors after ctx has ended.
func (p *Planned) refusedTasks(ctx context.Context, check func(trial.Spec) error) diag.List {
	var problems diag.List
	seen := map[*task.Task]bool{}
	for _, s := range p.Own() {
		if seen[s.Task] || s.Task.Missing || s.Task.Err() != nil {
			continue
		}
		seen[s.Task] = true
		if err := check(s); err != nil && ctx.Err() == nil {
			problems = append(problems, warningOf(diag.Diagnostic{File: p.Host.Paths.ShownTask(s.Task, s.Task.Files().Config)}, err))
		}
	}
	return problems
}

// NeverOn returns the reason why a provider of this kind can never run the trial's task: the task
// needs services or GPUs that it has not. The provider need not be connected.
func NeverOn(provider environment.Provider, s trial.Spec, job config.Job) error {
	if err := services.Check(provider, s.Task, s.Networks(job)); err != nil {
		return err
	}
	_, err := environment.CheckGPUs(provider, s.Limits(job))
	return err
}

func checkCreation(ctx context.Context, provider environment.Provider, l environment.Limits, n task.Networks) error {
	for _, network := range []environment.Network{n.Install, n.Agent, n.Verify} {
		if err := environment.CheckCreation(ctx, provider, l, network); err != nil {
			return err
		}
	}
	return nil
}

// proveNetworks returns an error if a trial needs restricted networks and the provider does not
// restrict them.
func (p *Planned) proveNetworks(ctx context.Context, provider environment.Provider, progress func(string)) error {
	restricted := func(s trial.Spec) bool {
		n := s.Networks(p.Job)
		return !n.Install.Public() || !n.Agent.Public() || !n.Verify.Public()
	}
	if !slices.ContainsFunc(p.Own(), restricted) {
		return nil
	}
	return environment.ProveNetworks(ctx, provider, progress)
}

// warningOf returns a provider's error as a warning at a place.
func warningOf(d diag.Diagnostic, err error) diag.Diagnostic {
	d.Severity, d.Message = diag.Warning, err.Error()
	if known := new(environment.Error); errors.As(err, &known) {
		d.Message, d.Hint = known.Err.Error(), known.Hint
	}
	d.File, d.Message, d.Hint = host.Clean(d.File), host.Clean(d.Message), host.Clean(d.Hint)
	return d
}
