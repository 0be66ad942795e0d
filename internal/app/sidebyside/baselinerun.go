// Package sidebyside runs a job together with that of an earlier commit, as its baseline.
package sidebyside

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

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/job/spending"
	"github.com/org/rollout-action/internal/run/trial"
)

// pair is a job and the baseline that runs at the same time.
type pair struct {
	head, base *stages.Planned
	shared     map[string]bool // the agents whose trials are the same in both, which only head runs
	// onlyConfirms: the job is compared with another baseline, and this one only makes confirmation
	// attempts (--confirm-against).
	onlyConfirms bool
	rounds       *rounds        // of confirmation attempts; nil: there are none
	attempts     *attemptRounds // nil: all attempts are made at once
}

// flag returns the flag that requested the pair.
func (j *pair) flag() string {
	if j.onlyConfirms {
		return "--confirm-against"
	}
	return "--against"
}

// Besides reports whether the request asks for a baseline that runs with the job.
func Besides(req stages.RunRequest) bool { return req.Against != "" || req.ConfirmAgainst != "" }

// checkBeside refuses what cannot be combined with a baseline that runs with the job.
func checkBeside(p *stages.Planned, req stages.RunRequest, sources []reuse.Source) error {
	policy := p.Job.Gate
	flag := "--against"
	if req.Against == "" {
		flag = "--confirm-against"
	}
	switch {
	case req.Against != "" && req.ConfirmAgainst != "":
		return host.Usagef("--against runs all trials with a commit, and --confirm-against only those of tasks that look broken or fixed: leave one of them out")
	case req.Against != "" && req.Report.Compares():
		return host.Usagef("--against runs the baseline, so that --baseline has no use: leave one of them out, or try only tasks that look broken or fixed with --confirm-against")
	case req.ConfirmAgainst != "" && !req.Report.Compares():
		return host.Usagef("--confirm-against tries tasks again that look broken or fixed against a stored baseline: name that one with --baseline")
	case req.ConfirmAgainst != "" && (policy.Confirm.Attempts <= 0 || !policy.LimitsBrokenTasks()):
		return host.Usagef("--confirm-against makes the attempts that gate.confirm asks for, at tasks that max_broken_tasks counts: add both, as in --max-broken-tasks 0 --confirm 4")
	case req.ConfirmAgainst != "" && policy.Baseline.Pool > 1:
		return host.Usagef("--confirm-against runs one commit again, and gate.baseline.pool compares with several runs: leave one of them out")
	case req.FailFast:
		return host.Usagef("--fail-fast would leave out trials of the job that is compared: leave out %s or --fail-fast", flag)
	case len(sources) > 0:
		return host.Usagef("--reuse takes results from another time, which %s is there to avoid: leave one of them out", flag)
	case !req.Rerun.Empty():
		return host.Usagef("--retry-errors, --only-failed and --rerun run trials of one job again: give them to rollout resume")
	}
	return nil
}

// RunBeside runs the job and the job of an earlier commit on the same workers, then reports on the
// job with the other one as its baseline.
func RunBeside(ctx context.Context, p *stages.Planned, req stages.RunRequest, policy resume.RerunPolicy, sources []reuse.Source) (*host.Finished, error) {
	if err := checkBeside(p, req, sources); err != nil {
		return nil, err
	}
	pair := &pair{head: p, onlyConfirms: req.ConfirmAgainst != ""}
	ref := cmp.Or(req.Against, req.ConfirmAgainst)
	base, err := against(ctx, p, req.Job, pair.flag(), ref)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	pair.base = base
	if !pair.onlyConfirms {
		pair.shared = sharedAgents(p, base)
	}
	pair.name()
	pair.announce(ref)
	p.Rerun = ""
	return pair.run(ctx, req, policy)
}

// name names the baseline after the job.
func (j *pair) name() {
	commit := j.base.Commit
	j.base.Job.Name = j.head.Job.Name + reporting.AgainstSuffix(commit)
	j.base.Beside = &result.Beside{Baseline: true, JobName: j.head.Job.Name, Commit: commit, OnlyConfirms: j.onlyConfirms}
	j.head.Beside = &result.Beside{JobName: j.base.Job.Name, Commit: commit, OnlyConfirms: j.onlyConfirms}
	if !j.onlyConfirms {
		j.head.Report.Baseline = j.base.Dir()
		j.base.Rounds = j.head.Rounds
	}
}

// announce reports the trials that run twice.
func (j *pair) announce(ref string) {
	out := j.head.Host.Output
	own, twice := len(j.head.Own()), 0
	for _, s := range j.base.Own() {
		if !j.shared[s.Key.Agent] {
			twice++
		}
	}
	commit := host.ShortCommit(j.base.Commit)
	switch {
	case j.onlyConfirms:
		c, kinds := j.head.Job.Gate.Confirm, "broken or fixed"
		if j.head.Job.Gate.Noise == gate.NoiseIgnore {
			kinds = "broken"
		}
		host.Linef(out, "note: tasks that look %s are tried again with %s (%s), too: up to %s of both at each", kinds, host.Clean(ref), commit, plural.Count(c.Attempts, "attempt"))
	case twice == 0:
		host.Linef(out, "note: nothing differs from %s (%s) for the agents of this job: each trial runs once, and counts for both", host.Clean(ref), commit)
	case twice == own:
		host.Linef(out, "note: %s (%s) runs with this job: %s instead of %d, which costs twice as much; --task runs fewer tasks, and --confirm-against only those that look broken or fixed against a stored baseline",
			host.Clean(ref), commit, plural.Count(own+twice, "trial"), own)
	default:
		host.Linef(out, "note: %s (%s) runs with this job: %s instead of %d, because trials that are the same in both run once", host.Clean(ref), commit, plural.Count(own+twice, "trial"), own)
	}
	if names := missingAgents(j.head.Job.Agents, j.base.Job.Agents); len(names) > 0 {
		host.Linef(out, "note: %s does not have these agents, which run without a baseline: %s", commit, host.Joined(names))
	}
}

// side is one job of a running pair.
type side struct {
	*stages.Planned
	found  rerun.Existing      // its existing directory, if it is resumed
	left   *rerun.Continuation // the rest to run; nil: it begins, or there is nothing to run
	opened *stages.Opened      // nil: nothing to run
}

// again returns the confirmation attempts of an earlier run that showed nothing.
func (s *side) again() map[result.Key]bool {
	if s.left == nil {
		return nil
	}
	return maps.Clone(s.left.Pending.Confirmations)
}

// run runs both jobs, and reports.
func (j *pair) run(ctx context.Context, req stages.RunRequest, policy resume.RerunPolicy) (*host.Finished, error) {
	sides := []*side{{Planned: j.head}, {Planned: j.base}}
	j.head.Warn()
	if req.Resume {
		defer func() {
			for _, s := range sides {
				_ = s.found.Lock.Release() // only the lock file is left, which has no meaning by itself
			}
		}()
		if err := j.resume(ctx, sides, policy); err != nil {
			return nil, err
		}
	}
	first, err := j.head.Connect(ctx, "")
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
		ended = o.Announced(ctx)
	}
	err = j.execute(ctx, sides)
	if shareErr := j.share(ctx, sides); err == nil {
		err = shareErr
	}
	for _, s := range sides {
		if s.opened != nil {
			s.opened.Close(ctx)
		}
	}
	finished, err := j.report(ctx, j.head.Host, sides, req, err)
	ended(err)
	return finished, err
}

// resume finds the rest of existing jobs. For a job with nothing left to run it writes the files.
func (j *pair) resume(ctx context.Context, sides []*side, policy resume.RerunPolicy) (err error) {
	begun, left := 0, false
	for _, s := range sides {
		if s.found, err = rerun.OpenExisting(s.Planned); err != nil {
			return err
		}
	}
	if err := endTogether(sides); err != nil {
		return err
	}
	for _, s := range sides {
		if !s.found.Begun {
			continue
		}
		begun++
		if was := s.found.Stored.Plan.Beside; was == nil || *was != *s.Beside {
			return host.Usagef("%s began with another --against or --confirm-against, or with neither: repeat the flag and the commit that it began with", host.Clean(s.Dir()))
		}
		s.Into = s.Dir()
		if s.left, err = rerun.Continue(ctx, s.Planned, s.found.Stored, policy); err != nil {
			return err
		}
		left = s.left.Left(ctx) || left
	}
	left = left || begun < len(sides)
	confirms := j.head.Job.Gate.Confirm.Attempts > 0
	together := confirms || !j.head.Rounds.Ended()
	left = left || confirms && j.leftToConfirm(ctx, sides)
	for _, s := range sides {
		switch {
		case s.left == nil:
		case left && (together || s.left.Left(ctx)): // more results may require more attempts of both
			err = s.left.CheckVariables()
		default:
			err = s.left.Finish()
			s.left = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endTogether completes the plans of two jobs that were killed when only one had noted that their
// rounds have ended.
func endTogether(sides []*side) error {
	for i, s := range sides {
		ended, other := s.found.Stored.Plan.Rounds, &sides[1-i].found
		if !s.found.Begun || !other.Begun || ended == nil || !ended.Ended() || other.Stored.Plan.Rounds.Ended() {
			continue
		}
		other.Stored.Plan.Rounds = ended
		if err := result.WriteJSON(filepath.Join(other.Stored.Dir, result.PlanFile), other.Stored.Plan); err != nil {
			return fmt.Errorf("note in %s that the rounds have ended: %w", result.PlanFile, err)
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
		waiting[i] = &arrival{plan: s.left.Stored.Plan, trials: s.left.Pending.Earlier}
		r.sides[i].arrived = waiting[i]
	}
	return !r.decide(ctx)[0].over
}

// newRounds returns the rounds of confirmation attempts of both jobs, or nil if the gate asks for
// none.
func (j *pair) newRounds(sides []*side) *rounds {
	confirm := j.head.Confirmer(nil)
	if confirm == nil {
		return nil
	}
	r := &rounds{head: confirm, ran: !j.onlyConfirms}
	for i, s := range sides {
		r.sides[i] = &roundsOf{p: s.Planned, again: s.again()}
	}
	return r
}

// newAttempts returns the rounds of the attempts of both jobs.
func (j *pair) newAttempts(sides []*side, turns *job.Turns) *attemptRounds {
	r := &attemptRounds{pair: j, rounds: rounds{turns: turns}}
	r.looks = r.decide
	for i, s := range sides {
		r.sides[i], r.left[i] = &roundsOf{p: s.Planned}, stages.NewLooks(s.Planned, s.opened.Todo)
	}
	return r
}

// open makes both jobs ready to run.
func (j *pair) open(ctx context.Context, sides []*side, on []environment.Provider) (err error) {
	for i, s := range sides {
		switch {
		case s.left != nil:
			s.opened, err = s.left.Reopen(s.found.Lock, on[i])
		case !s.found.Begun:
			if s.opened, err = s.Open(ctx, on[i], s.found.Lock); err == nil && i == 0 {
				j.name() // the job may have got another name
			}
		}
		if err != nil {
			if i == 1 && sides[0].opened != nil {
				sides[0].opened.Close(ctx)
			}
			return err
		}
	}
	if o := sides[1].opened; o != nil {
		o.Todo = slices.DeleteFunc(o.Todo, func(t trial.Spec) bool { return j.onlyConfirms || j.shared[t.Key.Agent] })
	}
	return nil
}

// connectBase returns the provider of the baseline: that of the job if both use the same one.
func (j *pair) connectBase(ctx context.Context, first environment.Provider) (environment.Provider, error) {
	a, b := j.head.Job.Environment, j.base.Job.Environment
	if a.Type != b.Type || !reflect.DeepEqual(a.ProviderConfig, b.ProviderConfig) {
		return j.base.Connect(ctx, "")
	}
	return first, j.base.OpenAgentFiles(ctx)
}

// execute runs the trials of both jobs on the workers of one.
func (j *pair) execute(ctx context.Context, sides []*side) error {
	var running []*side
	var first []int // those with trials that run side by side from the beginning
	for i, s := range sides {
		if s.opened == nil {
			continue
		}
		if len(s.opened.Todo) > 0 {
			first = append(first, i)
		}
		running = append(running, s)
	}
	if len(running) == 0 {
		return nil
	}
	turns := job.NewTurns(j.head.Job.NConcurrentTrials, first, j.rank())
	show, endView := running[0].opened.View()
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
	if len(running) == len(sides) && !sides[0].opened.Tree.Plan.Rounds.Ended() {
		j.attempts = j.newAttempts(sides, turns)
	}
	errs := make([]error, len(sides))
	var group sync.WaitGroup
	for i, s := range sides {
		if s.opened == nil {
			continue
		}
		label := ""
		if i == 1 {
			label = "@" + host.ShortCommit(j.base.Commit)
		}
		if j.rounds != nil {
			s.opened.Rounds = j.rounds.next(i)
		}
		if j.attempts != nil {
			s.opened.NextRound = j.attempts.next(i)
		}
		group.Go(func() {
			defer turns.Leave(i)
			if j.rounds != nil {
				defer j.rounds.leave()
			}
			if j.attempts != nil {
				defer j.attempts.leave()
			}
			errs[i] = s.opened.Trials(ctx, both.sink(label), limits, turns.Side(i))
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// rank returns the order of the trials of both jobs: that of the plan, then the confirmation
// attempts round by round.
func (j *pair) rank() func(side int, key result.Key) int {
	ranks := map[result.Key]int{}
	for i, s := range j.head.Specs {
		ranks[s.Key] = i
	}
	round := len(j.head.Specs) | 1 // odd, so that each job is the first in every second round
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
func sharedBudget(running []*side) (limits spending.Budget, err error) {
	spent := &spending.Spending{}
	for i, s := range running {
		b, err := s.opened.Budget(s.opened.Earlier, s.opened.Tree.Plan.ConfirmationKeys())
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
	dir := j.head.Dir()
	have := map[result.Key]bool{}
	for _, t := range base.Earlier {
		have[t.Key] = t.Reused != nil
	}
	var keys []result.Key
	for _, s := range base.Own() {
		if j.shared[s.Key.Agent] && !have[s.Key] {
			keys = append(keys, s.Key)
		}
	}
	found, err := reuse.Share(reuse.Source{Label: dir, Dir: base.Host.Path(dir), Job: j.head.Job.Name}, keys)
	if err != nil {
		return err
	}
	if _, err := reuse.TakeOver(ctx, base.Tree, found, job.Instructions(base.Own(), redact.New(base.Secrets))); err != nil {
		return err
	}
	tree, err := result.ReadTree(base.Tree.Dir)
	if err != nil {
		return fmt.Errorf("read the baseline: %w", err)
	}
	base.Ended = result.Summarize(base.Tree.Plan, tree.All())
	return base.Tree.WriteJob(base.Ended)
}

// report reports on the job, with the baseline that ran with it.
func (j *pair) report(ctx context.Context, h *host.Host, sides []*side, req stages.RunRequest, err error) (*host.Finished, error) {
	end := reporting.Ending{Ran: true, Both: true}
	stopped, resumed := false, false
	for _, s := range sides {
		resumed = resumed || s.Into != ""
		if s.opened == nil {
			continue
		}
		stopped = stopped || len(s.opened.Ended.Stopped) > 0
	}
	if o := sides[0].opened; o != nil {
		if note := o.Uncounted(o.Ended); note != "" {
			end.Notes = append(end.Notes, note)
		}
	}
	end.Cancelled = err == nil && (!resumed && !stopped || ctx.Err() != nil)
	if j.onlyConfirms && j.rounds != nil {
		end.Baseline = j.rounds.head.Found()
	}
	finished, reportErr := reporting.Finish(ctx, h, j.head.Dir(), j.head.Report, end)
	if finished != nil && (ctx.Err() != nil || stopped) && err == nil {
		finished.ResumeWith = j.resumption(req)
		if stopped {
			finished.ResumeWith += reporting.MoreBudget(slices.Concat(endedOf(sides[0]).Stopped, endedOf(sides[1]).Stopped))
		}
	}
	if finished != nil && h.Finished != nil {
		h.Finished(finished)
	}
	return finished, cmp.Or(err, reportErr)
}

func endedOf(s *side) result.Job {
	if s.opened == nil {
		return result.Job{}
	}
	return s.opened.Ended
}

// resumption returns the command that resumes both jobs: the original one, with the commit and name
// it resolved to then.
func (j *pair) resumption(req stages.RunRequest) string {
	command := "rollout"
	if len(req.Arguments) == 0 {
		command += " run " + host.QuotedPath(j.head.Path)
	}
	secrets := j.head.Host.SecretsOf(slices.Concat(j.head.Secrets, j.base.Secrets))
	replaced, named := []string{j.flag()}, j.head.Unnamed || j.head.NameAsWritten != ""
	if named {
		replaced = append(replaced, "--name")
	}
	for _, arg := range withoutFlags(host.PublicArguments(req.Arguments, secrets), replaced) {
		command += " " + host.QuotedArgument(arg)
	}
	command += " " + j.flag() + " " + j.base.Commit
	if named {
		command += " --name " + host.QuotedPath(j.head.Job.Name)
	}
	if !req.Resume {
		command += " --resume"
	}
	return command
}

// withoutFlags returns arguments without these flags and their values.
func withoutFlags(args, names []string) (out []string) {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		switch {
		case args[i] == "--":
			return append(out, args[i:]...)
		case !slices.Contains(names, name):
			out = append(out, args[i])
		case !joined:
			i++ // its value
		}
	}
	return out
}
