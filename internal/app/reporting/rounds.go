package reporting

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job/merge"
	"github.com/org/rollout-action/internal/run/job/resume"
)

// MakesAll begins the note about a job whose gate wants rounds, but cannot look at them.
const MakesAll = "all attempts are made, and none is left out (gate.stop): "

// NotLookable returns why a job of so many attempts cannot be compared with the baseline after each
// round; "" if it can.
func (b *FoundBaseline) NotLookable(attempts int) string {
	switch {
	case b.Err != nil:
		return host.Clean(b.Err.Error())
	case b.Job == nil:
		return b.Sentence
	case !gate.Lookable(*b.Job, attempts):
		return tooFew(*b.Job, attempts)
	}
	return ""
}

// tooFew returns which attempts a baseline lacks for looks at a job of so many: ones that it left
// out because it ended early, with the first task of them, or the last ones of all tasks.
func tooFew(base result.Job, attempts int) string {
	if rounds := base.Rounds; rounds != nil && len(rounds.NotNeeded) > 0 {
		first := rounds.NotNeeded[0]
		return fmt.Sprintf("the baseline ended early itself, and left out %s, first attempt %d at %s",
			plural.Count(len(rounds.NotNeeded), "trial"), first.Attempt, host.Clean(first.Task))
	}
	most := 0
	for _, o := range base.Results.All() {
		most = max(most, o.Attempt)
	}
	return fmt.Sprintf("the baseline has at most %s at each task, and the job makes %d", plural.Count(most, "attempt"), attempts)
}

// Decide returns which trials the next round of a job has, or how its rounds end and which trials
// they needed. It depends only on the results, so a job that was killed continues with the same
// rounds. has reports whether one of the trials is still to be run. note tells people about the
// last look.
func Decide(policy gate.Policy, now time.Time, base result.Job, plan result.Plan, trials []result.Trial, has func(func(result.Key) bool) bool) (which func(result.Key) bool, end *result.Rounds, note string) {
	rounds := *plan.Rounds
	head := result.Summarize(plan, trials)
	all, last := 1, map[result.Key]int{} // the last needed attempt of all tasks, and of single ones
	needed := func(k result.Key) bool { return k.Attempt <= max(all, last[k.Unnumbered()]) }
	for round := 1; ; round++ {
		wanted := func(k result.Key) bool { return k.Attempt <= round && needed(k) }
		if has(wanted) {
			return wanted, nil, note
		}
		before := base
		if plan.Beside != nil { // it runs in the same rounds
			before = until(base, round)
		}
		look := policy.Look(before, until(head, round), rounds.Attempts, round, now)
		if look.Decision != gate.More {
			rounds.Made, rounds.Reason, rounds.Why = round, look.End, look.Reason
			rounds.NotNeeded = slices.DeleteFunc(slices.Clone(head.Skipped), needed)
			return needed, &rounds, rounds.Sentence(0)
		}
		note = fmt.Sprintf("after %d of %s: %s", round, plural.Count(rounds.Attempts, "round"), look.Reason)
		if look.Tasks == nil {
			all = round + 1
		}
		for _, k := range look.Tasks {
			last[k] = round + 1
		}
	}
}

// until returns the job as it was after some rounds.
func until(j result.Job, rounds int) result.Job {
	later := func(o result.Outcome) bool { return o.Attempt > rounds }
	j.Skipped = slices.Clone(j.Skipped)
	for _, o := range j.Results.All() {
		if later(o) {
			j.Skipped = append(j.Skipped, o.Key)
		}
	}
	j.Results = j.Results.Without(later)
	return j
}

// Looked is the decision after a round of attempts, from the results of all shards.
type Looked struct {
	// Rounds are those of the whole job. If a round follows, or lacks results, Upto is its number.
	Rounds *result.Rounds
	// Next is the round that the shards make next; 0: none follows.
	Next int
	// Missing are the trials that the shards were told to make and have not made. With any, the
	// last round is not complete, and Next is 0.
	Missing []result.Key
	Note    string // a sentence for the user; may be ""
	// Source is the baseline of the look, if --baseline can name it for the later ones
	// (github:BRANCH:RUN); else "".
	Source string
}

// LookAt decides, from the results of all shards alone, how the rounds of a job go on. Merge
// decides the same from the same results.
func LookAt(policy gate.Policy, now time.Time, base *FoundBaseline, made merge.Made) Looked {
	plan, before := made.Plan, *made.Plan.Rounds
	plan.Rounds = &result.Rounds{Attempts: before.Attempts}
	ended := map[result.Key]bool{}
	for _, t := range made.Trials {
		ended[t.Key] = t.Error == nil || t.Error.Type != result.Cancelled
	}
	left := func(wanted func(result.Key) bool) []result.Key {
		return plan.Trials.Where(func(_ int, k result.Key) bool { return !ended[k] && wanted(k) }).Slice()
	}
	if why := base.NotLookable(before.Attempts); why != "" {
		all := func(result.Key) bool { return true }
		out := Looked{Next: before.Attempts, Note: MakesAll + why}
		if out.Missing = left(func(k result.Key) bool { return k.Attempt <= before.Upto }); len(out.Missing) > 0 || len(left(all)) == 0 {
			out.Next = 0
		}
		return out
	}
	which, end, note := Decide(policy, now, *base.Job, plan, made.Trials, func(wanted func(result.Key) bool) bool { return len(left(wanted)) > 0 })
	if end != nil {
		return Looked{Rounds: end, Note: note}
	}
	out := Looked{Note: note}
	missing := left(which)
	last := slices.MaxFunc(missing, func(a, b result.Key) int { return a.Attempt - b.Attempt }).Attempt
	if last > before.Upto {
		out.Next = last
	} else {
		out.Missing = left(func(k result.Key) bool { return k.Attempt <= before.Upto })
	}
	out.Rounds = &result.Rounds{Attempts: before.Attempts, Upto: max(before.Upto, last)}
	return out
}

// Look looks at the results of all shards of a job. made is nil if the job makes no rounds with
// looks between its shards.
func Look(ctx context.Context, h *host.Host, req MergeRequest) (_ *merge.Made, looked Looked, err error) {
	made, ok, err := merge.Look(ctx, merge.Options{Paths: req.Paths, Name: req.Name, Base: h.Dir, Brief: true})
	for _, note := range made.Notes {
		host.Linef(h.Output, "note: %s", host.Clean(note))
	}
	if err = asUsage(err); err != nil || !ok {
		return nil, looked, err
	}
	looked, _, err = look(ctx, h, "", req.Report, made)
	return &made, looked, err
}

// look finds the baseline of a job, and looks. dir is the job's directory; "": it has none.
func look(ctx context.Context, h *host.Host, dir string, opts ReportOptions, made merge.Made) (Looked, *FoundBaseline, error) {
	policy, err := config.Policy(filepath.Join(dir, result.ConfigFile), made.Config, opts.Gate)
	if err != nil {
		return Looked{}, nil, fmt.Errorf("read the job's gate: %w", err)
	}
	if err := checkGates(policy, made.Configs); err != nil {
		return Looked{}, nil, err
	}
	base := FinderOf(h).Find(ctx, dir, EvaluatedIn(made.Plan), opts)
	if base.Err != nil {
		return Looked{}, nil, base.Err
	}
	if err := base.SameAs(made.Baseline); err != nil {
		return Looked{}, nil, err
	}
	looked := LookAt(policy, h.Now(), &base, made)
	looked.Source = base.Source
	return looked, &base, nil
}

// checkGates returns an error if a shard made its rounds with another gate than that of a look.
func checkGates(policy gate.Policy, shards []merge.ShardConfig) error {
	for _, s := range shards {
		own, err := config.Policy("shard "+s.Shard+": "+result.ConfigFile, s.Text, nil)
		if err != nil {
			return fmt.Errorf("read the gate of shard %s: %w", s.Shard, err)
		}
		changes, err := resume.OtherGate(own, policy)
		if err != nil {
			return err
		}
		if changes != "" {
			return host.Usagef("shard %s made its rounds with another gate than the one of this look (%s): the first look has set how the chance of a false alarm is spent (gate.stop). Give all commands the same limits, or run the shards again as a new job",
				s.Shard, host.Clean(changes))
		}
	}
	return nil
}

// LookedAt identifies the baseline; nil: there is none.
func (b *FoundBaseline) LookedAt() *result.LookedAt {
	if b.Job == nil {
		return nil
	}
	return &result.LookedAt{Digest: result.ResultsDigest(*b.Job), JobName: b.Job.JobName, Commit: b.Job.Commit, Source: b.Source}
}

// SameAs returns an error if earlier looks at a job compared it with another baseline. earlier is
// nil if there were none.
func (b *FoundBaseline) SameAs(earlier *result.LookedAt) error {
	now := b.LookedAt()
	if earlier == nil || now != nil && now.Digest == earlier.Digest {
		return nil
	}
	found := "there is none now: " + b.Sentence
	if now != nil {
		found = "now there is " + now.String()
	}
	again := "give the baseline of the first look"
	if earlier.Source != "" {
		again = "give --baseline " + earlier.Source
	}
	return host.Usagef("the looks before this round compared the job with %s, and %s: looks at different baselines give no verdict (gate.stop). %s, or run the job again from its first round",
		host.Clean(earlier.String()), host.Clean(found), host.Clean(strings.ToUpper(again[:1])+again[1:]))
}
