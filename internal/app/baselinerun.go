package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/merge"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
)

// pair is a job and the baseline that runs at the same time.
type pair struct {
	head, base *planned
	shared     map[string]bool // the agents whose trials are the same in both, which only head runs
	// onlyConfirms: the job is compared with another baseline, and this one only makes confirmation
	// attempts (--confirm-against).
	onlyConfirms bool
	rounds       *rounds // of confirmation attempts; nil: there are none
}

// flag returns the flag that requested the pair.
func (j *pair) flag() string {
	if j.onlyConfirms {
		return "--confirm-against"
	}
	return "--against"
}

// besides reports whether the request asks for a baseline that runs with the job.
func (req RunRequest) besides() bool { return req.Against != "" || req.ConfirmAgainst != "" }

// checkBeside refuses what cannot be combined with a baseline that runs with the job.
func (p *planned) checkBeside(req RunRequest, sources []reuse.Source) error {
	policy := p.Job.Gate
	flag := "--against"
	if req.Against == "" {
		flag = "--confirm-against"
	}
	switch {
	case req.Against != "" && req.ConfirmAgainst != "":
		return usage("--against runs all trials with a commit, and --confirm-against only those of tasks that look broken or fixed: leave one of them out")
	case req.Against != "" && req.Report.compares():
		return usage("--against runs the baseline, so that --baseline has no use: leave one of them out, or try only tasks that look broken or fixed with --confirm-against")
	case req.ConfirmAgainst != "" && !req.Report.compares():
		return usage("--confirm-against tries tasks again that look broken or fixed beside a stored baseline: give that one with --baseline")
	case req.ConfirmAgainst != "" && (policy.Confirm.Attempts <= 0 || !policy.LimitsBrokenTasks()):
		return usage("--confirm-against makes the attempts that gate.confirm asks for, at tasks that max_broken_tasks counts: add both, as in --max-broken-tasks 0 --confirm 4")
	case req.FailFast:
		return usage("--fail-fast would leave out trials of the job that is compared: leave out %s or --fail-fast", flag)
	case len(sources) > 0:
		return usage("--reuse takes results from another time, which %s is there to avoid: leave one of them out", flag)
	case !req.Rerun.empty():
		return usage("--retry-errors, --only-failed and --rerun run trials of one job again: give them to rollout resume")
	}
	return nil
}

// runBeside runs the job and the job of an earlier commit on the same workers, then reports on the
// job with the other one as its baseline.
func (p *planned) runBeside(ctx context.Context, req RunRequest, policy resume.RerunPolicy, sources []reuse.Source) (*Finished, error) {
	if err := p.checkBeside(req, sources); err != nil {
		return nil, err
	}
	pair := &pair{head: p, onlyConfirms: req.ConfirmAgainst != ""}
	ref := cmp.Or(req.Against, req.ConfirmAgainst)
	base, err := p.against(ctx, req.Job, pair.flag(), ref)
	if err != nil {
		return nil, err
	}
	defer base.close()
	pair.base = base
	if !pair.onlyConfirms {
		pair.shared = sharedAgents(p, base)
	}
	pair.name()
	pair.announce(ref)
	p.rerun = ""
	return pair.run(ctx, req, policy)
}

// name names the baseline after the job.
func (j *pair) name() {
	commit := j.base.commit
	j.base.Job.Name = j.head.Job.Name + againstSuffix(commit)
	j.base.beside = &result.Beside{Baseline: true, JobName: j.head.Job.Name, Commit: commit, OnlyConfirms: j.onlyConfirms}
	j.head.beside = &result.Beside{JobName: j.base.Job.Name, Commit: commit, OnlyConfirms: j.onlyConfirms}
	if !j.onlyConfirms {
		j.head.report.Baseline = j.base.dir()
	}
}

// announce reports the trials that run twice.
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
	case j.onlyConfirms:
		c, kinds := j.head.Job.Gate.Confirm, "broken or fixed"
		if j.head.Job.Gate.Noise == gate.NoiseIgnore {
			kinds = "broken"
		}
		linef(out, "note: tasks that look %s are tried again with %s (%s), too: up to %s of both at each", kinds, clean(ref), commit, plural.Count(c.Attempts, "attempt"))
	case twice == 0:
		linef(out, "note: nothing differs from %s (%s) for the agents of this job: each trial runs once, and counts for both", clean(ref), commit)
	case twice == own:
		linef(out, "note: %s (%s) runs beside this job: %s instead of %d, which costs twice as much; --task runs fewer tasks, and --confirm-against only those that look broken or fixed beside a stored baseline",
			clean(ref), commit, plural.Count(own+twice, "trial"), own)
	default:
		linef(out, "note: %s (%s) runs beside this job: %s instead of %d, because trials that are the same in both run once", clean(ref), commit, plural.Count(own+twice, "trial"), own)
	}
	if names := missingAgents(j.head.Job.Agents, j.base.Job.Agents); len(names) > 0 {
		linef(out, "note: %s does not have these agents, which run without a baseline: %s", commit, joined(names))
	}
}

// side is one job of a running pair.
type side struct {
	*planned
	found  existing      // its existing directory, if it is resumed
	left   *continuation // the rest to run; nil: it begins, or there is nothing to run
	opened *opened       // nil: nothing to run
}

// again returns the confirmation attempts of an earlier run that showed nothing.
func (s *side) again() map[result.Key]bool {
	if s.left == nil {
		return nil
	}
	return maps.Clone(s.left.pending.Confirmations)
}

// run runs both jobs, and reports.
func (j *pair) run(ctx context.Context, req RunRequest, policy resume.RerunPolicy) (*Finished, error) {
	sides := []*side{{planned: j.head}, {planned: j.base}}
	j.head.warn()
	if req.Resume {
		defer func() {
			for _, s := range sides {
				_ = s.found.lock.Release() // only the lock file is left, which has no meaning by itself
			}
		}()
		if err := j.resume(ctx, sides, policy); err != nil {
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
	if err := j.open(ctx, sides, []environment.Provider{first, second}); err != nil {
		return nil, err
	}
	ended := func(error) {}
	if o := sides[0].opened; o != nil {
		ended = o.announced(ctx)
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
	finished, err := j.report(ctx, j.head.host, sides, req, err)
	ended(err)
	return finished, err
}

// resume finds the rest of existing jobs. For a job with nothing left to run it writes the files.
func (j *pair) resume(ctx context.Context, sides []*side, policy resume.RerunPolicy) (err error) {
	begun, left := 0, false
	for _, s := range sides {
		if s.found, err = s.existing(); err != nil {
			return err
		}
		if !s.found.begun {
			continue
		}
		begun++
		if was := s.found.stored.Plan.Beside; was == nil || *was != *s.beside {
			return usage("%s was begun with another baseline beside it, or with none: give the --against or --confirm-against that it began with", clean(s.dir()))
		}
		s.into = s.dir()
		if s.left, err = s.continuation(ctx, s.found.stored, policy); err != nil {
			return err
		}
		left = s.left.left(ctx) || left
	}
	left = left || begun < len(sides)
	confirms := j.head.Job.Gate.Confirm.Attempts > 0
	left = left || confirms && j.leftToConfirm(ctx, sides)
	for _, s := range sides {
		switch {
		case s.left == nil:
		case left && (confirms || s.left.left(ctx)): // more results may require more attempts of both
			err = s.left.checkVariables()
		default:
			err = s.left.finish()
			s.left = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leftToConfirm reports whether confirmation attempts of existing jobs can be made.
func (j *pair) leftToConfirm(ctx context.Context, sides []*side) bool {
	r := j.newRounds(sides)
	if r == nil {
		return false
	}
	var waiting [2]*arrival
	for i, s := range sides {
		waiting[i] = &arrival{plan: s.left.stored.Plan, trials: s.left.pending.Earlier}
		r.sides[i].arrived = waiting[i]
	}
	return !r.decide(ctx)[0].over
}

// newRounds returns the rounds of confirmation attempts of both jobs, or nil if the gate asks for
// none.
func (j *pair) newRounds(sides []*side) *rounds {
	confirm := j.head.confirmer(nil)
	if confirm == nil {
		return nil
	}
	r := &rounds{head: confirm, ran: !j.onlyConfirms}
	for i, s := range sides {
		r.sides[i] = &roundsOf{p: s.planned, again: s.again()}
	}
	return r
}

// open makes both jobs ready to run.
func (j *pair) open(ctx context.Context, sides []*side, on []environment.Provider) (err error) {
	for i, s := range sides {
		switch {
		case s.left != nil:
			s.opened, err = s.left.reopen(s.found.lock, on[i])
		case !s.found.begun:
			if s.opened, err = s.open(ctx, on[i], s.found.lock); err == nil && i == 0 {
				j.name() // the job may have got another name
			}
		}
		if err != nil {
			if i == 1 && sides[0].opened != nil {
				sides[0].opened.close(ctx)
			}
			return err
		}
	}
	if o := sides[1].opened; o != nil {
		o.todo = slices.DeleteFunc(o.todo, func(t trial.Spec) bool { return j.onlyConfirms || j.shared[t.Key.Agent] })
	}
	return nil
}

// connectBase returns the provider of the baseline: that of the job if both use the same one.
func (j *pair) connectBase(ctx context.Context, first environment.Provider) (environment.Provider, error) {
	a, b := j.head.Job.Environment, j.base.Job.Environment
	if a.Type != b.Type || !reflect.DeepEqual(a.ProviderConfig, b.ProviderConfig) {
		return j.base.connect(ctx, "")
	}
	return first, j.base.openAgentFiles(ctx)
}

// execute runs the trials of both jobs on the workers of one.
func (j *pair) execute(ctx context.Context, sides []*side) error {
	var running []*side
	var first []int // those with trials that run side by side from the beginning
	for i, s := range sides {
		if s.opened == nil {
			continue
		}
		if len(s.opened.todo) > 0 {
			first = append(first, i)
		}
		running = append(running, s)
	}
	if len(running) == 0 {
		return nil
	}
	turns := job.NewTurns(j.head.Job.NConcurrentTrials, first, j.rank())
	show, endView := running[0].opened.view()
	defer endView()
	both := &together{show: show, left: len(running)}
	limits, err := sharedBudget(running)
	if err != nil {
		return err
	}
	if len(running) == len(sides) {
		j.rounds = j.newRounds(sides)
	}
	if j.rounds != nil {
		j.rounds.turns = turns
	}
	errs := make([]error, len(sides))
	var group sync.WaitGroup
	for i, s := range sides {
		if s.opened == nil {
			continue
		}
		label := ""
		if i == 1 {
			label = "@" + ShortCommit(j.base.commit)
		}
		if j.rounds != nil {
			s.opened.rounds = j.rounds.next(i)
		}
		group.Go(func() {
			defer turns.Leave(i)
			if j.rounds != nil {
				defer j.rounds.leave()
			}
			errs[i] = s.opened.trials(ctx, both.sink(label), limits, turns.Side(i))
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// rank returns the order of the trials of both jobs: that of the plan, then the confirmation
// attempts round by round.
func (j *pair) rank() func(side int, key result.Key) int {
	ranks := map[result.Key]int{}
	for i, s := range j.head.specs {
		ranks[s.Key] = i
	}
	round := len(j.head.specs) | 1 // odd, so that each job is the first in every second round
	return func(_ int, key result.Key) int {
		at, ok := ranks[key]
		if !ok {
			n := key.Attempt
			key.Attempt = 1
			at = ranks[key] + round*n
		}
		return at
	}
}

// sharedBudget returns the budget of the first job, which pays for all.
func sharedBudget(running []*side) (limits job.Budget, err error) {
	spent := &job.Spending{}
	for i, s := range running {
		b, err := s.opened.budget(s.opened.earlier, s.opened.tree.Plan.ConfirmationKeys())
		if err != nil {
			return limits, err
		}
		if b.Spent != nil {
			spent.AddCost(b.Spent.Cost())
		}
		if i == 0 {
			limits = b
		}
	}
	limits.Spent = spent
	return limits, nil
}

// share copies the trials that are the same in both jobs to the baseline.
func (j *pair) share(ctx context.Context, sides []*side) error {
	base := sides[1].opened
	if base == nil || len(j.shared) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the trials exist, and copying takes no time
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

// report reports on the job, with the baseline that ran with it.
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
	if j.onlyConfirms && j.rounds != nil {
		end.baseline = j.rounds.head.found()
	}
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

// findBeside returns the baseline that ran with the job in dir, or nil. Unless the job is compared
// with another one, it becomes the baseline of opts, and the job is incomplete if it is.
func (end *ending) findBeside(h *Host, dir string, plan result.Plan, opts *ReportOptions) (*result.Tree, error) {
	base := besideDir(h.Paths, dir, plan)
	if base == "" {
		return nil, nil
	}
	if opts.Baseline == "" && !plan.Beside.OnlyConfirms {
		opts.Baseline = base
	}
	tree, err := result.ReadTree(h.Path(base))
	if err != nil {
		return nil, fmt.Errorf("read the baseline that ran beside %s: %w", clean(dir), err)
	}
	if plan.Beside.OnlyConfirms || filepath.Clean(h.Path(opts.Baseline)) == filepath.Clean(h.Path(base)) {
		end.addBeside(h, dir, base, tree)
	}
	return &tree, nil
}

// besideResumption returns the command that continues a job and its baseline. plan is the plan of
// either.
func besideResumption(plan result.Plan, opts ReportOptions) string {
	flag, other := "--against", ""
	if plan.Beside.OnlyConfirms {
		flag, other = "--confirm-against", opts.flags(plan.Compared)
	}
	name := plan.JobName
	if plan.Beside.Baseline {
		name = plan.Beside.JobName
	}
	if plan.Shard != nil {
		other += " --shard " + plan.Shard.String()
	}
	return "rollout run JOB_FILE --name " + quotedPath(name) + " " + flag + " " + plan.Beside.Commit + " --resume" + other
}

// addBeside adds the missing results of the baseline in the directory base, which ran with the job
// in dir, and why its trials were not started.
func (end *ending) addBeside(h *Host, dir, base string, tree result.Tree) {
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
		return
	}
	end.incomplete = append(end.incomplete, fmt.Sprintf("the baseline that ran beside it is incomplete: %d of %s never ran or left no result", missing, plural.Count(ended.TotalTrials, "trial")))
	stored := resume.Job{Dir: h.Path(base), Plan: tree.Plan}
	from, err := stored.PathsFrom()
	switch {
	case end.both:
	case err != nil || !isDir(from): // the files of its commit were not kept
		end.notes = append(end.notes, "To run what is left of both: "+besideResumption(tree.Plan, ReportOptions{})+moreBudget(ended.Stopped))
	default:
		end.notes = append(end.notes, "To run what is left of the baseline: "+resumption(h.Paths, base, tree.Plan, ReportOptions{})+moreBudget(ended.Stopped),
			"Then, to report on the job: rollout report "+quotedPath(dir))
	}
}

func endedOf(s *side) result.Job {
	if s.opened == nil {
		return result.Job{}
	}
	return s.opened.ended
}

// resumption returns the command that resumes both jobs: the original one, with the commit and name
// it resolved to then.
func (j *pair) resumption(req RunRequest) string {
	command := "rollout"
	if len(req.Arguments) == 0 {
		command += " run " + quotedPath(j.head.path)
	}
	secrets := j.head.host.secretsOf(slices.Concat(j.head.Secrets, j.base.Secrets))
	for _, arg := range publicArguments(req.Arguments, secrets) {
		command += " " + strings.Replace(quotedPath("x"+arg), "x", "", 1) // a flag stays one
	}
	command += " " + j.flag() + " " + j.base.commit
	if j.head.Unnamed || j.head.NameAsWritten != "" {
		command += " --name " + quotedPath(j.head.Job.Name)
	}
	if !req.Resume {
		command += " --resume"
	}
	return command
}

// together merges the events of two jobs into one view.
type together struct {
	show event.Sink
	mu   sync.Mutex
	left int // jobs that have not started
	held []event.Event
	at   event.Event // JobStarted of both
}

// sink returns the sink of one job. label is appended to the names of its agents; "" marks the job
// whose end is shown.
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

// labelled returns an event with the label appended to the agent's name.
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

// shardSuffix returns the suffix that a shard's directory adds to the name of its job.
func shardSuffix(s result.Shard) string { return ".shard-" + ShardName(s) }
