package app

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/job/merge"
	"github.com/org/rollout-action/internal/job/resume"
	"github.com/org/rollout-action/internal/job/reuse"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
)

// pair is a job and the baseline that is run beside it.
type pair struct {
	head, base *planned
	shared     map[string]bool // the agents whose trials are the same in both: they run in head alone
}

// runBeside runs the job, and the one of an earlier commit beside it, on the same workers. Then it reports on the job, with the other one as its
// baseline.
func (p *planned) runBeside(ctx context.Context, req RunRequest, policy resume.RerunPolicy, sources []reuse.Source) (*Finished, error) {
	switch {
	case req.Report.compares():
		return nil, usage("--against runs the baseline, so that --baseline has no use: leave one of them out")
	case req.FailFast:
		return nil, usage("--fail-fast would leave out trials of the job that is compared: leave out --against or --fail-fast")
	case len(sources) > 0:
		return nil, usage("--reuse takes results from another time, which --against is there to avoid: leave one of them out")
	case !req.Rerun.empty():
		return nil, usage("--retry-errors, --only-failed and --rerun run trials of one job again: give them to rollout resume")
	}
	base, err := p.against(ctx, req.Job, req.Against)
	if err != nil {
		return nil, err
	}
	defer base.close()
	pair := &pair{head: p, base: base, shared: sharedAgents(p, base)}
	pair.name()
	pair.announce(req.Against)
	p.rerun = ""
	return pair.run(ctx, req, policy)
}

// name gives the baseline its name, by that of the job.
func (j *pair) name() {
	commit := j.base.commit
	j.base.Job.Name = j.head.Job.Name + againstSuffix(commit)
	j.base.beside = &result.Beside{Baseline: true, JobName: j.head.Job.Name, Commit: commit}
	j.head.beside = &result.Beside{JobName: j.base.Job.Name, Commit: commit}
	j.head.report.Baseline = j.base.dir()
}

// announce says what is run twice.
func (j *pair) announce(ref string) {
	out := j.head.host.Output
	own, twice := len(j.head.own()), 0
	for _, s := range j.base.own() {
		if !j.shared[s.Key.Agent] {
			twice++
		}
	}
	commit := ShortCommit(j.base.commit)
	switch {
	case twice == 0:
		linef(out, "note: nothing differs from %s (%s) for the agents of this job: each trial runs once, and counts for both", clean(ref), commit)
	case twice == own:
		linef(out, "note: %s (%s) runs beside this job: %s instead of %d, which costs twice as much; --task runs fewer tasks", clean(ref), commit, plural.Count(own+twice, "trial"), own)
	default:
		linef(out, "note: %s (%s) runs beside this job: %s instead of %d, as what is the same in both runs once", clean(ref), commit, plural.Count(own+twice, "trial"), own)
	}
	if names := missingAgents(j.head.Job.Agents, j.base.Job.Agents); len(names) > 0 {
		linef(out, "note: %s does not have these agents, which run without a baseline: %s", commit, joined(names))
	}
}

// side is one of the jobs of a pair when it is run.
type side struct {
	*planned
	opened *opened // nil: there is nothing to run
}

// run runs both jobs, and reports.
func (j *pair) run(ctx context.Context, req RunRequest, policy resume.RerunPolicy) (*Finished, error) {
	h := j.head.host
	sides := []*side{{planned: j.head}, {planned: j.base}}
	j.head.warn()
	var found [2]existing
	defer func() {
		for _, e := range found {
			_ = e.lock.Release() // only a file that means nothing is left
		}
	}()
	for i, s := range sides {
		if !req.Resume {
			continue
		}
		e, err := s.existing()
		if err != nil {
			return nil, err
		}
		found[i] = e
		if e.begun {
			s.into = s.dir()
		}
	}
	var parts [2]*continuation
	for i, s := range sides {
		if !found[i].begun {
			continue
		}
		c, err := s.continuation(found[i].stored, policy)
		if err == nil && c.left(ctx) {
			err = c.checkVariables()
			parts[i] = c
		} else if err == nil {
			err = c.finish()
		}
		if err != nil {
			return nil, err
		}
	}
	first, err := j.head.connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer first.Close()
	second, err := j.connectBase(ctx, first)
	if err != nil {
		return nil, err
	}
	if second != first {
		defer second.Close()
	}
	for i, provider := range []environment.Provider{first, second} {
		s := sides[i]
		switch {
		case parts[i] != nil:
			s.opened, err = parts[i].reopen(found[i].lock, provider)
		case !found[i].begun:
			if s.opened, err = s.open(provider, found[i].lock); err == nil && i == 0 {
				j.name() // the job may have got another name
			}
		}
		if err != nil {
			if i == 1 && sides[0].opened != nil {
				sides[0].opened.close(ctx)
			}
			return nil, err
		}
	}
	if o := sides[0].opened; o != nil && o.confirm == nil {
		o.confirm = j.head.confirmer(nil)
	}
	err = j.execute(ctx, sides)
	if shareErr := j.share(ctx, sides); err == nil {
		err = shareErr
	}
	for _, s := range sides {
		if s.opened != nil {
			s.opened.close(ctx)
		}
	}
	return j.report(ctx, h, sides, req, err)
}

// connectBase returns the provider of the baseline: the same one if it is the same in both jobs.
func (j *pair) connectBase(ctx context.Context, first environment.Provider) (environment.Provider, error) {
	a, b := j.head.Job.Environment, j.base.Job.Environment
	if a.Type != b.Type || !reflect.DeepEqual(a.ProviderConfig, b.ProviderConfig) {
		return j.base.connect(ctx, "")
	}
	return first, j.base.openAgentFiles(ctx)
}

// execute runs the trials of both jobs on the workers of one.
func (j *pair) execute(ctx context.Context, sides []*side) error {
	rank := map[result.Key]int{}
	for i, s := range j.head.specs {
		rank[s.Key] = i
	}
	rankOf := func(_ int, key result.Key) int {
		if at, ok := rank[key]; ok {
			return at
		}
		return len(rank) // a confirmation attempt
	}
	var running []*side
	var numbers []int
	for i, s := range sides {
		if s.opened == nil {
			continue
		}
		numbers = append(numbers, i)
		if i == 1 {
			s.opened.todo = slices.DeleteFunc(s.opened.todo, func(t trial.Spec) bool { return j.shared[t.Key.Agent] })
		}
		running = append(running, s)
	}
	if len(running) == 0 {
		return nil
	}
	turns := job.NewTurns(j.head.Job.NConcurrentTrials, numbers, rankOf)
	show, endView := running[0].opened.view()
	defer endView()
	both := &together{show: show, left: len(running)}
	spent := &job.Spending{} // both are paid from one budget
	var limits job.Budget
	for i, s := range running {
		b, err := s.opened.budget(s.opened.earlier)
		if err != nil {
			return err
		}
		if b.Spent != nil {
			spent.Add(b.Spent.Sum())
		}
		if i == 0 {
			limits = b
		}
	}
	limits.Spent = spent
	baseEnded := make(chan struct{})
	if sides[1].opened == nil {
		close(baseEnded)
	}
	if o := sides[0].opened; o != nil && o.confirm != nil {
		o.confirm.wait = baseEnded
	}
	errs := make([]error, len(running))
	var group sync.WaitGroup
	for i, s := range running {
		isBase := s == sides[1]
		label := ""
		if isBase {
			label = "@" + ShortCommit(j.base.commit)
		}
		group.Go(func() {
			if isBase {
				defer close(baseEnded)
			}
			at := numbers[i]
			defer turns.Leave(at)
			errs[i] = s.opened.trials(ctx, both.sink(label), limits, turns.Side(at))
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// share puts the trials that are the same in both jobs into the baseline, too.
func (j *pair) share(ctx context.Context, sides []*side) error {
	base := sides[1].opened
	if base == nil || len(j.shared) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // what has run is there, and it takes no time
	dir := j.head.dir()
	have := map[result.Key]bool{}
	for _, t := range base.earlier {
		have[t.Key] = t.Reused != nil
	}
	var keys []result.Key
	for _, s := range base.own() {
		if j.shared[s.Key.Agent] && !have[s.Key] {
			keys = append(keys, s.Key)
		}
	}
	found, err := reuse.Share(reuse.Source{Label: dir, Dir: base.host.Path(dir), Job: j.head.Job.Name}, keys)
	if err != nil {
		return err
	}
	if _, err := reuse.TakeOver(ctx, base.tree, found, job.Instructions(base.own(), redact.New(base.Secrets))); err != nil {
		return err
	}
	tree, err := result.ReadTree(base.tree.Dir)
	if err != nil {
		return fmt.Errorf("read the baseline: %w", err)
	}
	base.ended = result.Summarize(base.tree.Plan, tree.All())
	return base.tree.WriteJob(base.ended)
}

// report reports on the job, with the baseline that ran beside it.
func (j *pair) report(ctx context.Context, h *Host, sides []*side, req RunRequest, err error) (*Finished, error) {
	end := ending{ran: true, both: true}
	stopped, resumed := false, false
	for _, s := range sides {
		resumed = resumed || s.into != ""
		if s.opened == nil {
			continue
		}
		stopped = stopped || len(s.opened.ended.Stopped) > 0
	}
	if o := sides[0].opened; o != nil {
		if note := o.uncounted(o.ended); note != "" {
			end.notes = append(end.notes, note)
		}
	}
	end.cancelled = err == nil && (!resumed && !stopped || ctx.Err() != nil)
	finished, reportErr := finish(ctx, h, j.head.dir(), j.head.report, end)
	if finished != nil && (ctx.Err() != nil || stopped) && err == nil {
		finished.ResumeWith = j.resumption(req)
		if stopped {
			finished.ResumeWith += moreBudget(slices.Concat(endedOf(sides[0]).Stopped, endedOf(sides[1]).Stopped))
		}
	}
	if finished != nil && h.Finished != nil {
		h.Finished(finished)
	}
	return finished, cmp.Or(err, reportErr)
}

// addBeside adds what the baseline in the directory base lacks, which was run beside the job in dir, and why its trials were not started.
func (end *ending) addBeside(h *Host, dir, base string) error {
	tree, err := result.ReadTree(h.Path(base))
	if err != nil {
		return fmt.Errorf("read the baseline that ran beside %s: %w", clean(dir), err)
	}
	for _, sentence := range merge.Missing(h.Path(base)) {
		if sentence = "baseline: " + sentence; !slices.Contains(end.incomplete, sentence) {
			end.incomplete = append(end.incomplete, sentence)
		}
	}
	ended := result.Summarize(tree.Plan, tree.All())
	for _, sentence := range stopSentences(ended) {
		end.notes = append(end.notes, "baseline: "+sentence)
	}
	missing := ended.SkippedTrials + ended.Errors[result.Cancelled]
	if missing == 0 {
		return nil
	}
	end.incomplete = append(end.incomplete, fmt.Sprintf("the baseline that ran beside it is incomplete: %d of %s never ran or left no result", missing, plural.Count(ended.TotalTrials, "trial")))
	if !end.both {
		end.notes = append(end.notes, "To run what is left of the baseline: "+resumption(h.Paths, base, tree.Plan, ReportOptions{})+moreBudget(ended.Stopped),
			"Then, to report on the job: rollout report "+quotedPath(dir))
	}
	return nil
}

func endedOf(s *side) result.Job {
	if s.opened == nil {
		return result.Job{}
	}
	return s.opened.ended
}

// resumption returns the command that resumes both jobs: the one that began them, with the commit and the name that it meant then.
func (j *pair) resumption(req RunRequest) string {
	command := "rollout"
	if len(req.Arguments) == 0 {
		command += " run " + quotedPath(j.head.path)
	}
	for _, arg := range req.Arguments {
		command += " " + strings.Replace(quotedPath("x"+arg), "x", "", 1) // a flag stays one
	}
	command += " --against " + j.base.commit
	if j.head.Unnamed || j.head.NameAsWritten != "" {
		command += " --name " + quotedPath(j.head.Job.Name)
	}
	if !req.Resume {
		command += " --resume"
	}
	return command
}

// together shows two jobs as one.
type together struct {
	show event.Sink
	mu   sync.Mutex
	left int // jobs that have not started
	held []event.Event
	at   event.Event // JobStarted of both
}

// sink returns the sink of one job. label is put behind the names of its agents; "" marks the job whose end is shown.
func (t *together) sink(label string) event.Sink {
	return func(e event.Event) {
		t.mu.Lock()
		defer t.mu.Unlock()
		e = labelled(e, label)
		switch {
		case e.Kind == event.JobStarted:
			t.at.Total += e.Total
			t.at.Kind, t.at.Time = e.Kind, e.Time
			if e.Kept != nil {
				t.at.Kept = slices.Concat(t.at.Kept, e.Kept)
				if t.at.Kept == nil {
					t.at.Kept = []result.Trial{}
				}
			}
			if label == "" || t.at.Message == "" {
				t.at.Message = e.Message
			}
			if t.left--; t.left > 0 {
				return
			}
			t.show(t.at)
			for _, held := range t.held {
				t.show(held)
			}
			t.held = nil
		case e.Kind == event.JobEnded && label != "":
		case t.left > 0:
			t.held = append(t.held, e)
		default:
			t.show(e)
		}
	}
}

// labelled returns an event with another name for the agent.
func labelled(e event.Event, label string) event.Event {
	if label == "" {
		return e
	}
	if e.Key != nil {
		key := *e.Key
		key.Agent += label
		e.Key = &key
	}
	if e.Trial != nil {
		t := *e.Trial
		t.Agent += label
		e.Trial = &t
	}
	if e.Kept != nil {
		kept := slices.Clone(e.Kept)
		for i := range kept {
			kept[i].Agent += label
		}
		e.Kept = kept
	}
	return e
}

// shardSuffix returns the end of the name of a shard's directory, which follows the name of its job.
func shardSuffix(s result.Shard) string { return ".shard-" + ShardName(s) }
