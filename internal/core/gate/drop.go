package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// metric is a quantity that may drop, and its format in messages.
type metric struct {
	name   string
	values func(*result.Attempts) []float64
	level  func(float64) string // formats a value
	amount func(float64) string // formats a change, with its sign
	unit   string               // follows an amount
}

var passRates = metric{
	name: "pass rate", values: paired.Passes, level: percent, unit: " points",
	amount: func(v float64) string { return signed(positiveZero(fmt.Sprintf("%.1f", v*100))) },
}

var meanRewards = metric{
	name: "mean reward", values: paired.Rewards, level: number,
	amount: func(v float64) string { return signed(number(v)) },
}

func positiveZero(text string) string {
	if text == "-0.0" {
		return "0.0"
	}
	return text
}

// drop is the comparison for max_pass_rate_drop or max_mean_reward_drop.
type drop struct {
	check int // index of its check
	scope scope
	what  metric
	limit float64
	paired.Sample
	base, head float64 // the metric before and now
	tasks      []float64
	counts     fmt.Stringer // the parts of the compared tasks that do not count, to append to a sentence
	p          float64
	method     string
}

// size returns how far the metric fell. A rise is negative.
func (d drop) size() float64 {
	if math.Abs(d.base/2-d.head/2) <= 1e-12*max(math.Abs(d.base), math.Abs(d.head)) {
		return 0 // the same numbers, added in another order
	}
	return finite(d.base - d.head)
}

// counts is the number of trials of compared tasks without a reward, in the baseline and in the
// job.
type counts struct{ lost, leftOut [2]int }

// missingRewards counts the trials without a reward.
func missingRewards(tasks []result.TaskDiff) counts {
	var c counts
	for _, t := range tasks {
		for i, side := range []*result.Attempts{t.Base, t.Head} {
			c.lost[i] += int(side.Lost)
			c.leftOut[i] += side.LeftOut()
		}
	}
	return c
}

// String returns the counts in parentheses, to append to a sentence; "" if every trial has a
// reward.
func (c counts) String() string {
	var parts []string
	for _, one := range []struct {
		n    [2]int
		what string
	}{
		{c.lost, "that the agent, the verifier or a judge ended without a reward, counted as 0"},
		{c.leftOut, "that other errors ended, left out"},
	} {
		switch {
		case one.n == [2]int{}:
		case one.n[0] == 0:
			parts = append(parts, plural.Count(one.n[1], "trial")+" "+one.what)
		default:
			parts = append(parts, fmt.Sprintf("%s (and %d of the baseline) %s", plural.Count(one.n[1], "trial"), one.n[0], one.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (with " + strings.Join(parts, ", and ") + ")"
}

// drop checks a threshold on a drop, or adds a comparison to decide it.
func (k *checker) drop(s scope, name string, limit *float64, what metric) {
	if limit == nil || k.nothingToCheck(s, name, *limit) {
		return
	}
	if k.diff == nil {
		k.lack(s, name, *limit, noBaseline)
		return
	}
	tasks := s.comparable()
	if len(tasks) == 0 {
		k.incomparable(s, name, *limit)
		return
	}
	k.dropOn(s, name, *limit, what, tasks, missingRewards(tasks))
}

// dropOn checks a threshold on a drop on tasks that have values on both sides, or adds a comparison
// to decide it.
func (k *checker) dropOn(s scope, name string, limit float64, what metric, tasks []result.TaskDiff, left fmt.Stringer) {
	d := drop{scope: s, what: what, limit: limit, Sample: paired.SampleOf(tasks, what.values), counts: left}
	var base, head []float64
	for _, t := range tasks {
		base = append(base, result.Mean(what.values(t.Base)))
		head = append(head, result.Mean(what.values(t.Head)))
	}
	d.base, d.head = result.Mean(base), result.Mean(head)
	d.tasks = d.Drops()
	d.check = k.add(s, Check{Name: name, Value: d.size(), Limit: limit})
	if k.policy.Noise != NoiseIgnore {
		d.p, d.method = paired.PValue(d.Sample)
		k.tests = append(k.tests, d)
		return
	}
	c := &k.checks[d.check]
	c.Outcome = failIf(above(d.size(), d.limit))
	c.Message = d.message("") + d.limitText(c.Outcome)
}

// comparison is a significance test whose outcome depends on how many others there are: of a drop
// or of broken tasks.
type comparison interface {
	pValue() float64
	index() int               // of its check
	Values() paired.Sample    // the values that are tested
	sameAs(o comparison) bool // reports whether both test the same numbers, and so count as one test
	// decide completes the check. adjusted is the p-value corrected for so many tests, alpha the
	// level that it was tested at.
	decide(k *checker, adjusted, alpha float64, tests int)
}

// decideAll decides all comparisons together. A drop fails the job if it is larger than its
// threshold and significant; if it is only larger than its threshold, it is inconclusive.
//
// The null hypothesis is "nothing changed", not "the drop is at most the threshold": the question
// is whether the observed drop is real, and a real one counts as it was observed. A suite that did
// not change therefore fails in at most a share 1 - confidence of runs, whatever the thresholds,
// also with a threshold of 0. This holds for the verdict as a whole: with several drops each is
// tested at a lower level (see adjust). Thresholds on the same numbers (pass rate and mean reward
// if every reward is 0 or 1) count as one test.
//
// The tests of a job that runs in rounds have their p-values from the looks after the rounds.
func (k *checker) decideAll(head result.Job, now time.Time) {
	if adjusted := k.overRounds(head, now); adjusted != nil {
		for i, t := range k.tests {
			t.decide(k, adjusted[i], 1-k.policy.Confidence, len(k.tests))
		}
		return
	}
	var different []comparison
	at := make([]int, len(k.tests))
	for i, t := range k.tests {
		at[i] = slices.IndexFunc(different, t.sameAs)
		if at[i] < 0 {
			at[i] = len(different)
			different = append(different, t)
		}
	}
	adjusted, levels := adjust(different, 1-k.policy.Confidence)
	for i, t := range k.tests {
		t.decide(k, adjusted[at[i]], levels[at[i]], len(different))
	}
}

// significant reports whether an adjusted p-value is at most 1 - confidence, but for rounding:
// confidence is given in decimals.
func (k *checker) significant(adjusted float64) bool {
	return adjusted <= (1-k.policy.Confidence)*(1+1e-9)
}

func (d drop) pValue() float64 { return d.p }

func (d drop) index() int { return d.check }

// sameAs reports whether other tests the same tasks with the same drops.
func (d drop) sameAs(other comparison) bool {
	o, ok := other.(drop)
	return ok && d.Scale == o.Scale && d.Units == o.Units && slices.Equal(d.tasks, o.tasks) && d.MatchedPairs() == o.MatchedPairs() && d.p == o.p
}

func (d drop) decide(k *checker, adjusted, alpha float64, tests int) {
	c := &k.checks[d.check]
	significant := k.significant(adjusted)
	test := k.newTest(d.Sample, d.method, d.p, adjusted, tests, alpha)
	low, high := paired.Interval(d.Sample, alpha, significant)
	test.Low, test.High = finite(low*d.Scale), finite(high*d.Scale)
	if smallest, ok := paired.Detectable(d.Sample, alpha); ok {
		if least := d.beyondLimit(smallest); least <= d.Span() {
			test.Detectable = new(finite(least * d.Scale))
		}
	}
	if tasks, smallest, ok := paired.DetectableBroken(d.Sample, alpha); ok {
		each := smallest / float64(tasks)
		tasks = max(tasks, int(math.Ceil(d.beyondLimit(smallest)/each-rounding)))
		smallest = float64(tasks) * each
		_, most := d.GoodLevel()
		if tasks <= most {
			test.DetectableTasks, test.DetectableBroken = tasks, new(finite(smallest*d.Scale))
		}
	}
	asked := 2 * d.limit // a suite that shows this one measures it above the limit in four of five runs, too
	if asked == 0 {
		asked = d.size()
	}
	test.NeededAttempts = paired.NeededAttempts(d.Sample, asked/d.Scale, alpha)
	c.Test = &test
	c.Message = d.message(fmt.Sprintf(", %s interval %s to %s", share(test.IntervalConfidence), d.what.amount(-test.High), d.what.amount(-test.Low)))
	switch {
	case !above(d.size(), d.limit):
		c.Outcome = Pass
		c.Message += d.limitText(Pass)
	case significant:
		c.Outcome = Fail
		c.Message += "; " + byChance(test) + d.limitText(Fail)
		c.Hint = d.detectableText(test)
	default:
		c.Outcome = Inconclusive
		c.Message += "; " + byChance(test) + ", so this suite cannot tell it from chance"
		c.Hint = d.hint(test, asked, alpha)
	}
	k.noteTooSmall(d, test, alpha)
}

// beyondLimit returns the smallest true drop of at least smallest that is also above the limit in
// four of five runs: a drop counts only if it is significant and was measured above the limit, and
// one that is equal to the limit is measured above it in half of the runs.
func (d drop) beyondLimit(smallest float64) float64 {
	if d.limit <= 0 {
		return smallest
	}
	reach := paired.NormalQuantile(paired.Power) * math.Sqrt(d.VarianceAt(smallest, nil)/float64(len(d.Sample.Tasks)))
	return max(smallest, d.limit/d.Scale+reach)
}

// message describes the drop: "pass rate fell from 62.0% to 54.0% (-8.0 points, 90% interval …) on
// 100 tasks".
func (d drop) message(interval string) string {
	tasks := plural.Count(len(d.Sample.Tasks), "task") + d.counts.String()
	if before, after := d.what.level(d.base), d.what.level(d.head); d.size() != 0 {
		verb := "rose"
		if d.size() > 0 {
			verb = "fell"
		}
		return fmt.Sprintf("%s %s from %s to %s (%s%s%s) on %s", d.what.name, verb, before, after, d.what.amount(-d.size()), d.what.unit, interval, tasks)
	}
	return fmt.Sprintf("%s stayed at %s (0%s%s) on %s", d.what.name, d.what.level(d.head), d.what.unit, interval, tasks)
}

// limitText compares the drop with the threshold, as a text to append to a sentence.
func (d drop) limitText(o Outcome) string {
	switch {
	case o == Fail && d.limit == 0:
		return ""
	case o == Fail:
		return ", and the limit is " + d.unsigned(d.limit)
	case d.size() > 0:
		return ", within the limit of " + d.unsigned(d.limit)
	}
	return ""
}

// unsigned formats an amount without its sign.
func (d drop) unsigned(v float64) string {
	text := d.what.amount(v)
	if text[0] == '+' || text[0] == '-' {
		text = text[1:]
	}
	return text + d.what.unit
}

// byChance returns the sentence about the p-value.
func byChance(t Test) string {
	text := "chance alone does that in " + formatP(t.P) + " of runs"
	if formatP(t.Adjusted) != formatP(t.P) && t.Rounds > 0 {
		return text + fmt.Sprintf(" (%s over the looks until round %d)", formatP(t.Adjusted), t.Rounds)
	}
	if formatP(t.Adjusted) != formatP(t.P) {
		text += fmt.Sprintf(" (%s when %d checks are tested)", formatP(t.Adjusted), t.Tests)
	}
	return text
}

// equalToLimit is a suffix for drops that a suite detects in four of five runs.
const equalToLimit = "; one equal to the limit is red in half of them at best"

// detectableText returns the smallest drops that the suite detects; "" if there are none.
func (d drop) detectableText(t Test) string {
	var shapes []string
	if t.Detectable != nil {
		shapes = append(shapes, d.unsigned(*t.Detectable)+" if many tasks share it")
	}
	if t.DetectableBroken != nil {
		shapes = append(shapes, fmt.Sprintf("%s if %s broke", d.unsigned(*t.DetectableBroken), plural.Count(t.DetectableTasks, "task")))
	}
	if len(shapes) == 0 {
		return ""
	}
	text := "the smallest drop that this suite shows in four of five runs is " + strings.Join(shapes, ", and ")
	if d.limit > 0 {
		text += equalToLimit
	}
	return text
}

// hint returns advice that would make an inconclusive drop clear.
func (d drop) hint(t Test, asked, alpha float64) string {
	if d.TooFew(t.Tasks, alpha) {
		return d.tooFewTasks(t, alpha)
	}
	text := d.detectableText(t)
	if text == "" {
		text = "this suite shows no drop in four of five runs"
	}
	switch {
	case t.NeededAttempts > 0:
		// More attempts do not help if few tasks make up the drop: they fall in every attempt, and
		// chance can do the same to few tasks.
		text += fmt.Sprintf("; n_attempts: %d in both jobs would show one of %s that many tasks share", t.NeededAttempts, d.unsigned(asked))
	case t.Detectable == nil || *t.Detectable > asked*(1+rounding):
		text += fmt.Sprintf("; to show one of %s it needs more tasks", d.unsigned(asked))
		if n := paired.NeededTasks(d.Sample, asked/d.Scale, alpha); n > 0 {
			text += fmt.Sprintf(", about %d like these", n)
		}
	}
	return text
}

func (d drop) tooFewTasks(t Test, alpha float64) string {
	return fmt.Sprintf("%s can show no drop, however large: chance can do the same to all of them. It takes %d or more; with fewer, noise: ignore counts every drop",
		plural.Count(t.Tasks, "task"), d.LeastTasks(alpha))
}

// noteTooSmall adds a note if a suite is too small to show anything. It does so even without a
// drop: a green check would hide it.
func (k *checker) noteTooSmall(d drop, t Test, alpha float64) {
	if t.Detectable != nil || t.DetectableBroken != nil || d.Span() == 0 {
		return
	}
	note := d.scope.prefix() + d.what.name + ": "
	if d.TooFew(t.Tasks, alpha) {
		note += d.tooFewTasks(t, alpha)
	} else {
		note += "this suite is too small to show any drop reliably. More attempts (n_attempts) or more tasks help"
	}
	if !slices.Contains(k.notes, note) {
		k.notes = append(k.notes, note)
	}
}

// noteComparison adds notes about tasks that thresholds on drops and broken tasks did not compare.
func (k *checker) noteComparison() {
	asked := false
	for _, c := range k.checks {
		asked = asked || c.Name == "max_pass_rate_drop" || c.Name == "max_mean_reward_drop" || c.Name == "max_broken_tasks" || c.Name == "max_cost_increase" || isScoreDrop(c.Name)
	}
	if !asked || k.diff == nil { // without a baseline, each check says so
		return
	}
	if n := k.all.equal; n > 0 && !k.all.unchanged {
		k.notes = append(k.notes, fmt.Sprintf("%s the same as in the baseline, from which trials were taken over: not part of any drop", plural.Count(n, "task")+" "+plural.Are(n)))
	}
	for _, left := range []struct {
		change result.Change
		why    string
	}{
		{result.Changed, "whose files changed"},
		{result.New, "that the baseline does not have"},
		{result.Removed, "of the baseline that this job does not have"},
		{result.Errored, "that now have only errors of the infrastructure or the task"},
		{result.Unknown, "without a result on one side"},
	} {
		n := 0
		for _, t := range k.diff.Tasks {
			if t.Change == left.change && !t.Comparable() {
				n++
			}
		}
		if n > 0 {
			k.notes = append(k.notes, fmt.Sprintf("%s %s: not part of any drop", plural.Count(n, "task"), left.why))
		}
	}
}
