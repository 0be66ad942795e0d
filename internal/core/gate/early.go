package gate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/signflip"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Decision is what a look at a job that runs in rounds decides.
type Decision string

// The decisions. More: the next round runs. Red: a limit is exceeded by more than chance explains.
// Green: no further attempts could reasonably show that.
const (
	More  Decision = "more"
	Red   Decision = "red"
	Green Decision = "green"
)

// Look is the result of a look.
type Look struct {
	Decision Decision
	// Round is the number of rounds after which the tests decided, or of those so far.
	Round int
	// End is the reason for the decision, and Reason the same as a sentence without its full stop.
	// End is "" if Decision is More.
	End    result.EndReason
	Reason string
	// Tasks are the tasks that need another attempt, by agent and without Attempt, if Decision is
	// More; nil if all of them do.
	Tasks []result.Key
}

// earlyBounds are the looks at jobs of 2, 3 and 5 attempts, at a confidence of 0.95. They were
// searched on Brownian motion for few trials at a loss of less than three points of power;
// docs/internals/early-ends.md has the figures.
var earlyBounds = map[int]signflip.Bounds{
	2: {Alpha: []float64{0.005, 0.05}, Futility: []float64{0.4}},
	3: {Alpha: []float64{0.001, 0.01, 0.05}, Futility: []float64{0, 0.6}},
	5: {Alpha: []float64{0.0005, 0.003, 0.01, 0.025, 0.05}, Futility: []float64{-0.8, -0.14, 0.37, 0.8}},
}

// StopsEarly reports whether the attempts of a job are made in rounds, so that it can end early.
func (p Policy) StopsEarly(attempts int) bool { return p.Stop == StopEarly && attempts > 1 }

// LooksAtAllTasks reports whether a look is about all tasks together. Without such a look, a task's
// attempts depend on that task alone, so each shard of a job can decide about its own.
func (p Policy) LooksAtAllTasks() bool { return !p.onlyBrokenTasks() }

// ForLooks returns the part of the policy on which the looks of a job depend (Stop). The first look
// sets how the chance of a false alarm is spent, so all looks and the verdict need the same.
func (p Policy) ForLooks() Policy {
	p.Mode, p.Until, p.OnInconclusive, p.OnNoBaseline, p.Stop, p.Confirm = "", "", "", "", "", Confirm{}
	p.Thresholds = p.forLooks()
	p.Groups = slices.Clone(p.Groups)
	for i, g := range p.Groups {
		p.Groups[i].Thresholds = g.forLooks()
	}
	return p
}

// forLooks returns the limits without those that are checked at the end, on what ran.
func (t Thresholds) forLooks() Thresholds {
	t.MaxFailedTrials, t.MaxCostUSD, t.MaxJudgeCostUSD, t.MaxDurationSec = nil, nil, nil, nil
	return t
}

// Lookable reports whether a stored baseline has results of all rounds of a job of so many
// attempts: it has as many attempts, and did not end early itself. Else the looks would be of fewer
// attempts than the test at the end, or of ones that were made because of their outcome.
func Lookable(base result.Job, attempts int) bool {
	most := 0
	for _, o := range base.Results.All() {
		most = max(most, o.Attempt)
	}
	return most >= attempts && (base.Rounds == nil || len(base.Rounds.NotNeeded) == 0)
}

// LookRounds returns the numbers of rounds after which a job of so many attempts is looked at. With
// 2, 3 and 5 attempts it is each round, with others three times: after a third and two thirds of
// the attempts, rounded up, and at the end. One attempt has no early look.
func LookRounds(attempts int) []int {
	if attempts < 2 {
		return nil
	}
	looks := 3
	if bounds, ok := earlyBounds[attempts]; ok {
		looks = len(bounds.Alpha)
	}
	rounds := make([]int, looks)
	for i := range rounds {
		rounds[i] = (attempts*(i+1) + looks - 1) / looks
	}
	return rounds
}

// Look decides, after some rounds of a job of so many attempts, whether the limits on drops and
// broken tasks need further ones. A round is one attempt at each task, of the same number in the
// baseline and in the job. The baseline runs in the same rounds, or has all of its attempts
// already. The jobs may have attempts of later rounds: they are not looked at. now decides which
// quarantines apply.
//
// The tests are those of Check, on the attempts that both jobs have, with the chance of a false
// alarm spent over the looks (signflip.Look). A limit that is exceeded by more than chance explains
// makes the job red. It is green if all tests are futile. If a drop is significant but within its
// limit, the other tests go on without it, and so do the rounds, because it may grow.
//
// Costs and scores are tested at the end only: they do not keep a job running, and their share of
// the chance of a false alarm, one part for each test, is kept for them.
//
// A policy that limits nothing but broken tasks is not looked at by chance: a task that can no
// longer break nor be fixed needs no further attempt, and the verdict is the same as with all
// attempts. Then a job is decided when no task is left.
func (p Policy) Look(base, head result.Job, attempts, rounds int, now time.Time) Look {
	if p.onlyBrokenTasks() {
		return p.lookAtBrokenTasks(base, head, attempts, rounds, now)
	}
	l := p.lookAtTests(base, head, attempts, rounds, now)
	if l.Decision == Red {
		return l
	}
	if rounds >= attempts {
		if l.Decision == More {
			l = Look{Decision: Green, End: result.EndWhole, Round: attempts, Reason: "all attempts were made"}
		}
		return l
	}
	missed, open := p.plainLimits(base, head, now)
	switch {
	case missed != "":
		return Look{Decision: Red, End: result.EndMissed, Round: rounds, Reason: missed + " can no longer be reached"}
	case l.Decision == Green && open != "":
		return Look{Decision: More, Round: rounds, Reason: "further attempts may change " + open}
	}
	return l
}

// lookAtTests returns the look at those limits that are tested.
func (p Policy) lookAtTests(base, head result.Job, attempts, rounds int, now time.Time) Look {
	l := Look{Decision: More, Round: rounds, Reason: "no limit can be decided before the end"}
	tests, late := p.lookedAt(base, head, attempts, rounds, now)
	if len(tests) == 0 || len(tests[0].drops) == 0 {
		return l
	}
	names, seed := taskNames(base, head)
	steps := stepDown(tests, p.bounds(attempts, len(tests), late), names, seed)
	for i, t := range tests {
		if steps.proven[i] && above(t.check.Value, t.check.Limit) {
			l.Decision, l.End, l.Round = Red, result.EndProven, LookRounds(attempts)[steps.look[i]]
			l.Reason = "after " + plural.Count(l.Round, "attempt") + " at each task, " + t.check.Name + " is exceeded by more than chance explains"
			return l
		}
	}
	significant := slices.Contains(steps.proven, true) // a drop within its limit
	switch {
	case steps.futile && !significant:
		l.Decision, l.End, l.Round = Green, result.EndFutile, LookRounds(attempts)[steps.last]
		l.Reason = "no further attempts could reasonably show a drop"
	case significant:
		l.Reason = "a drop is more than chance explains, but within its limit"
	default:
		l.Reason = "further attempts may show a drop"
	}
	return l
}

// steps are the results of the looks at several tests, each with those that are left when the
// proven ones have gone.
type steps struct {
	proven []bool
	p      []float64 // adjusted for the number of tests and of looks
	look   []int     // of each test: the look that decided it, or the last one so far
	last   int       // the look that decided the remaining tests, or the last one so far
	futile bool      // the remaining tests are futile
}

// stepDown looks at the tests, and again at those that are not proven when others are.
func stepDown(tests []lookedTest, bounds signflip.Bounds, names map[paired.TaskName]int, seed uint64) steps {
	out := steps{proven: make([]bool, len(tests)), p: make([]float64, len(tests)), look: make([]int, len(tests))}
	worst := 0.0
	for {
		var left []int
		var seen []signflip.Rounds
		for i, t := range tests {
			if !out.proven[i] {
				left, seen = append(left, i), append(seen, t.rounds(names))
			}
		}
		if len(left) == 0 {
			return out
		}
		s := signflip.Look(seen, bounds, len(names), seed)
		some := false
		for j, i := range left {
			out.p[i], out.look[i] = max(worst, s.P[j]), s.Look
			out.proven[i] = s.Decision == signflip.Proven && s.P[j] <= bounds.Alpha[s.Look]*(1+rounding)
			some = some || out.proven[i]
		}
		out.last, out.futile = s.Look, s.Decision == signflip.Futile
		if !some {
			return out
		}
		for _, i := range left {
			if out.proven[i] {
				worst = max(worst, out.p[i])
			}
		}
	}
}

// plainLimits returns the name of a limit without a test that the job can no longer meet, and of
// one that the missing attempts may still decide; "" if there is none. What ran is enough for the
// others.
func (p Policy) plainLimits(base, head result.Job, now time.Time) (missed, open string) {
	diff := result.Compare(base, head)
	k, active := gather(p, head, &diff, now)
	for _, g := range append([]Group{{Thresholds: k.policy.Thresholds}}, p.Groups...) {
		m, o := g.scope(head, &diff, active).plainLimits()
		missed, open = cmp.Or(missed, m), cmp.Or(open, o)
	}
	return missed, open
}

func (s scope) plainLimits() (missed, open string) {
	left := s.counted
	for _, o := range s.gated.All() {
		if s.evaluated[o.Agent] {
			left--
		}
	}
	if left <= 0 {
		return "", ""
	}
	_, passed, trials := tallies(s.rewarded())
	rate := func(name string, limit *float64, of int) {
		switch {
		case limit == nil:
		case below(float64(passed+left)/float64(of), *limit):
			missed = cmp.Or(missed, name)
		case below(float64(passed)/float64(of), *limit):
			open = cmp.Or(open, name)
		}
	}
	rate("min_pass_rate", s.MinPassRate, trials+left)
	rate("min_pass_rate_all", s.MinPassRateAll, s.counted)
	if s.MinMeanReward != nil { // rewards have no bounds
		open = cmp.Or(open, "min_mean_reward")
	}
	for _, name := range sortedKeys(s.Scores) {
		if s.Scores[name].Min != nil {
			open = cmp.Or(open, scorePrefix+name+minSuffix)
		}
	}
	return missed, open
}

// overRounds returns the p-values of the tests of a job that was looked at after each round,
// adjusted for their number and for the looks; nil if there were no looks.
//
// Tests of costs and scores are made at the end only. When that is depends on the other tests. A
// p-value times the number of ends that there can be is valid whatever that dependence is, because
// it is so at each of them.
func (k *checker) overRounds(head result.Job, now time.Time) []float64 {
	r := head.Rounds
	if r == nil || k.diff == nil || k.policy.onlyBrokenTasks() || k.policy.Noise == NoiseIgnore {
		return nil
	}
	made := r.Made
	if made == 0 { // the job was cut short
		for _, o := range head.Results.All() {
			made = max(made, min(o.Attempt, r.Attempts))
		}
	}
	base := k.diff.Base
	tests, late := k.policy.lookedAt(base, head, r.Attempts, made, now)
	if len(tests) == 0 || len(tests[0].drops) == 0 {
		return nil
	}
	names, seed := taskNames(base, head)
	all := len(tests) + late
	share := float64(len(tests)) / float64(all)
	steps := stepDown(tests, k.policy.bounds(r.Attempts, len(tests), late), names, seed)
	adjusted := make([]float64, len(k.tests))
	for i, t := range k.tests {
		c := k.checks[t.index()]
		adjusted[i] = 1
		if isLate(t, c) {
			adjusted[i] = min(1, t.pValue()*float64(all*len(LookRounds(r.Attempts))))
			continue
		}
		for j, looked := range tests {
			if looked.check.Name == c.Name && looked.check.Agent == c.Agent && looked.check.Dataset == c.Dataset {
				adjusted[i] = min(1, steps.p[j]/share)
			}
		}
	}
	k.rounds = made
	return adjusted
}

// isLate reports whether a test is made at the end only.
func isLate(t comparison, c Check) bool {
	_, cost := t.(costIncrease)
	return cost || isScoreDrop(c.Name)
}

// bounds returns the bounds of the looks for the policy's confidence. Of looked+late tests, the
// looked ones have their share.
func (p Policy) bounds(attempts, looked, late int) signflip.Bounds {
	bounds, ok := earlyBounds[attempts]
	if !ok {
		bounds = earlyBounds[3]
	}
	confidence := p.Confidence
	if confidence <= 0 || confidence >= 1 {
		confidence = DefaultConfidence
	}
	alphas := slices.Clone(bounds.Alpha)
	for i := range alphas {
		alphas[i] *= (1 - confidence) / (1 - DefaultConfidence) * float64(looked) / float64(looked+late)
	}
	bounds.Alpha = alphas
	return bounds
}

// lookedTest is a test of a limit after each look so far.
type lookedTest struct {
	check Check                         // after the last one
	drops []map[paired.TaskName]float64 // by look
	ties  float64
}

// lookedAt returns the tests that are looked at, and how many are made at the end only.
func (p Policy) lookedAt(base, head result.Job, attempts, rounds int, now time.Time) (tests []lookedTest, late int) {
	type limit struct{ name, agent, dataset string }
	at := map[limit]int{}
	for look, round := range LookRounds(attempts) {
		if round > rounds {
			break
		}
		before, after := pairsOf(base, head, round)
		diff := result.Compare(before, after)
		k, _ := gather(p, after, &diff, now)
		late = 0
		for _, t := range k.tests {
			c := k.checks[t.index()]
			if isLate(t, c) {
				late++
				continue
			}
			of := limit{c.Name, c.Agent, c.Dataset}
			i, ok := at[of]
			if !ok {
				i = len(tests)
				at[of] = i
				tests = append(tests, lookedTest{ties: 0.5})
			}
			s := t.Values()
			drops := map[paired.TaskName]float64{}
			for j, d := range s.Drops() {
				drops[s.Names[j]] = d
			}
			for len(tests[i].drops) < look { // no task was comparable then
				tests[i].drops = append(tests[i].drops, nil)
			}
			tests[i].drops, tests[i].check = append(tests[i].drops, drops), c
			if s.AllDiffer() {
				tests[i].ties = 1
			}
		}
	}
	looks := 0
	for _, t := range tests {
		looks = max(looks, len(t.drops))
	}
	for i := range tests {
		for len(tests[i].drops) < looks {
			tests[i].drops = append(tests[i].drops, nil)
		}
	}
	return tests, late
}

// rounds returns the test's drops by the numbers of all tasks.
func (t lookedTest) rounds(names map[paired.TaskName]int) signflip.Rounds {
	r := signflip.Rounds{Ties: t.ties}
	for _, drops := range t.drops {
		numbered := make([]float64, len(names))
		for name, d := range drops {
			numbered[names[name]] = d
		}
		r.Drops = append(r.Drops, numbered)
	}
	return r
}

// taskNames numbers all tasks of two jobs, and returns a seed that depends on their names alone:
// the flips of a look must be the same at later ones.
func taskNames(jobs ...result.Job) (names map[paired.TaskName]int, seed uint64) {
	var all []paired.TaskName
	for _, j := range jobs {
		for _, o := range j.Results.All() {
			all = append(all, paired.TaskName{Dataset: o.Dataset, Task: o.Task})
		}
		for _, k := range j.Skipped {
			all = append(all, paired.TaskName{Dataset: k.Dataset, Task: k.Task})
		}
	}
	slices.SortFunc(all, paired.TaskName.Compare)
	all = slices.Compact(all)
	names = make(map[paired.TaskName]int, len(all))
	hash := fnv.New64a()
	for i, n := range all {
		names[n] = i
		hash.Write([]byte(strconv.Quote(n.Dataset) + strconv.Quote(n.Task)))
	}
	return names, hash.Sum64()
}

// pairsOf returns the jobs with the attempts of the first rounds only, and of these only what both
// jobs have: an attempt whose counterpart the infrastructure ended would make a task's sides
// unequal. Confirmation attempts are no part of a round.
func pairsOf(base, head result.Job, rounds int) (before, after result.Job) {
	counts := func(j result.Job) map[result.Key]bool {
		keys := map[result.Key]bool{}
		for _, o := range j.Results.All() {
			if o.Attempt <= rounds && (o.Completed() || o.Failed() && o.Error.Fault().Loses()) {
				keys[o.Key] = true
			}
		}
		return keys
	}
	inBase, inHead := counts(base), counts(head)
	cut := func(j result.Job) result.Job {
		j.Results = j.Results.Without(func(o result.Outcome) bool { return !inBase[o.Key] || !inHead[o.Key] })
		j.Skipped, j.Confirmations, j.ConfirmsBoth, j.Rounds = nil, result.Outcomes{}, false, nil
		return j
	}
	return cut(base), cut(head)
}

// onlyBrokenTasks reports whether no limit but those on broken tasks needs all attempts of all
// tasks. Costs, time and failed trials are limits on what ran, whatever that was.
func (p Policy) onlyBrokenTasks() bool {
	broken := false
	only := func(t Thresholds) bool {
		broken = broken || t.MaxBrokenTasks != nil
		t.MaxBrokenTasks, t.MaxFailedTrials, t.MaxCostUSD, t.MaxJudgeCostUSD, t.MaxDurationSec = nil, nil, nil, nil, nil
		return t.None()
	}
	others := !only(p.Thresholds)
	for _, g := range p.Groups {
		others = !only(g.Thresholds) || others
	}
	return broken && !others
}

// lookAtBrokenTasks returns the Look of a policy that limits only broken tasks.
func (p Policy) lookAtBrokenTasks(base, head result.Job, attempts, rounds int, now time.Time) Look {
	diff := result.Compare(base, head)
	k, active := gather(p, head, &diff, now)
	l := Look{Decision: More, Round: rounds}
	if rounds < attempts {
		for _, g := range append([]Group{{Thresholds: k.policy.Thresholds}}, p.Groups...) {
			if g.MaxBrokenTasks == nil {
				continue
			}
			for _, t := range g.scope(head, &diff, active).tasks {
				if mayBreakOrBeFixed(t) {
					l.Tasks = append(l.Tasks, result.Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task})
				}
			}
		}
		slices.SortFunc(l.Tasks, result.Key.Compare)
		if l.Tasks = slices.Compact(l.Tasks); len(l.Tasks) > 0 {
			l.Reason = mayBreak(l.Tasks)
			return l
		}
	}
	l.Decision, l.Reason, l.End, l.Tasks = Green, "no further task can break or be fixed", result.EndSettled, nil
	k.decideAll(head, now)
	for _, c := range k.checks {
		if c.Name == "max_broken_tasks" && c.Outcome == Fail {
			l.Decision = Red
		}
	}
	return l
}

// The bounds of names in a reason.
const (
	namedTasks = 5
	longName   = 60 // bytes
)

// mayBreak names the first tasks that may still break or be fixed, each once.
func mayBreak(tasks []result.Key) string {
	var names []string
	for _, k := range tasks {
		if name := untrusted.Cut(untrusted.Line(k.Task), longName); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	shown := strings.Join(names[:min(len(names), namedTasks)], ", ")
	if more := len(names) - namedTasks; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return "tasks that may still break or be fixed: " + shown
}

// mayBreakOrBeFixed reports whether further attempts of the job, or of both jobs, could make the
// task one that broke or was fixed: it looks like it so far, or a side has no result yet. If it
// does not look like it, further attempts cannot change that.
func mayBreakOrBeFixed(t result.TaskDiff) bool {
	if t.Change == result.Changed || t.Base == nil || t.Head == nil {
		return false
	}
	return len(t.Base.Scores()) == 0 || len(t.Head.Scores()) == 0 || looksBroken(t) || t.LooksFixed()
}
