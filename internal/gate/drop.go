package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
)

// quantity is what may drop, and how people are told of it.
type quantity struct {
	name   string
	values func(*result.Attempts) []float64
	level  func(float64) string // where it stands
	amount func(float64) string // by how much it changed, with its sign
	unit   string               // after an amount
}

var passRates = quantity{
	name: "pass rate", values: passes, level: percent, unit: " points",
	amount: func(v float64) string { return signed(positiveZero(fmt.Sprintf("%.1f", v*100))) },
}

var meanRewards = quantity{
	name: "mean reward", values: rewards, level: number,
	amount: func(v float64) string { return signed(number(v)) },
}

func positiveZero(text string) string {
	if text == "-0.0" {
		return "0.0"
	}
	return text
}

// drop is a check on a drop that waits for all others to be known.
type drop struct {
	check int // its place among the checks
	scope scope
	what  quantity
	limit float64
	sample
	base, head float64 // where the quantity stood, and stands
	tasks      []float64
	counts     counts
	p          float64
	method     string
}

func (d drop) size() float64 {
	if math.Abs(d.base/2-d.head/2) <= 1e-12*max(math.Abs(d.base), math.Abs(d.head)) {
		return 0 // the same numbers, added up in another order
	}
	return finite(d.base - d.head)
}

// counts is how many trials of compared tasks have no reward, in the baseline and in the job.
type counts struct{ lost, leftOut [2]int }

func countsOf(tasks []result.TaskDiff) counts {
	var c counts
	for _, t := range tasks {
		for i, side := range []*result.Attempts{t.Base, t.Head} {
			c.lost[i] += side.Lost
			c.leftOut[i] += side.LeftOut()
		}
	}
	return c
}

// String is how a sentence goes on about them; "" if every trial has a reward.
func (c counts) String() string {
	var parts []string
	for _, one := range []struct {
		n    [2]int
		what string
	}{
		{c.lost, "that the agent or the verifier ended without a reward, counted as 0"},
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

// drop takes up a threshold on a drop.
func (j *judge) drop(s scope, name string, limit *float64, what quantity) {
	if limit == nil || j.nothing(s, name, *limit) {
		return
	}
	if j.diff == nil {
		j.skip(s, name, *limit, noBaseline)
		return
	}
	tasks := s.comparable()
	if len(tasks) == 0 {
		j.skip(s, name, *limit, noComparison)
		return
	}
	d := drop{scope: s, what: what, limit: *limit, sample: sampleOf(tasks, what.values)}
	var base, head []float64
	for _, t := range tasks {
		base = append(base, result.Mean(what.values(t.Base)))
		head = append(head, result.Mean(what.values(t.Head)))
	}
	d.base, d.head = result.Mean(base), result.Mean(head)
	d.tasks = d.drops()
	d.counts = countsOf(tasks)
	d.check = j.add(s, Check{Name: name, Value: d.size(), Limit: *limit})
	if j.policy.Noise != NoiseIgnore {
		d.p, d.method = pValue(d.sample)
		j.tests = append(j.tests, d)
		return
	}
	c := &j.checks[d.check]
	c.Outcome = failIf(above(d.size(), d.limit))
	c.Message = d.sentence("") + d.within(c.Outcome)
}

// test is a check that waits for all others: a drop, or broken tasks.
type test interface {
	chance() float64    // p
	sameAs(o test) bool // they are the same numbers, and so one look
	decide(j *judge, adjusted, alpha float64, looks int)
}

// runTests decides about all drops and broken tasks together. A drop fails the job if it is larger than its threshold and
// larger than luck; if it is only larger than its threshold, it is inconclusive.
//
// "Larger than luck" is tested against "nothing changed", not against "it fell by the threshold at most": the question is
// whether the drop that was seen is real, and one that is counts as it was seen. A suite that did not change therefore
// fails in at most a share 1 - confidence of runs, whatever the thresholds, also with a threshold of 0. That holds
// for the verdict as a whole: with several drops each is held against a smaller share (see holm). Thresholds on
// the same numbers (pass rate and mean reward where every reward is 0 or 1) are one.
func (j *judge) runTests() {
	var different []test
	at := make([]int, len(j.tests))
	for i, t := range j.tests {
		at[i] = slices.IndexFunc(different, t.sameAs)
		if at[i] < 0 {
			at[i] = len(different)
			different = append(different, t)
		}
	}
	ps := make([]float64, len(different))
	for i, t := range different {
		ps[i] = t.chance()
	}
	adjusted, levels := holm(ps, 1-j.policy.Confidence)
	for i, t := range j.tests {
		t.decide(j, adjusted[at[i]], levels[at[i]], len(different))
	}
}

// real reports that a test found more than luck. The bound is generous by rounding only: confidence is given in decimals.
func (j *judge) real(adjusted float64) bool { return adjusted <= (1-j.policy.Confidence)*(1+1e-9) }

func (d drop) chance() float64 { return d.p }

// sameAs: the same tasks with the same drops.
func (d drop) sameAs(other test) bool {
	o, ok := other.(drop)
	return ok && d.scale == o.scale && d.units == o.units && slices.Equal(d.tasks, o.tasks) && d.single() == o.single() && d.p == o.p
}

func (d drop) decide(j *judge, adjusted, alpha float64, looks int) {
	c := &j.checks[d.check]
	real := j.real(adjusted)
	test := newTest(d.sample, d.method, d.p, adjusted, looks, alpha)
	low, high := interval(d.sample, alpha, real)
	test.Low, test.High = finite(low*d.scale), finite(high*d.scale)
	if smallest, ok := detectable(d.sample, alpha); ok {
		test.Detectable = new(finite(smallest * d.scale))
	}
	if tasks, smallest, ok := detectableBroken(d.sample, alpha); ok {
		test.DetectableTasks, test.DetectableBroken = tasks, new(finite(smallest*d.scale))
	}
	asked := d.limit
	if asked == 0 {
		asked = d.size()
	}
	test.NeededAttempts = needed(d.sample, asked/d.scale, alpha)
	c.Test = &test
	c.Message = d.sentence(fmt.Sprintf(", %s interval %s to %s", share(test.IntervalConfidence), d.what.amount(-test.High), d.what.amount(-test.Low)))
	switch {
	case !above(d.size(), d.limit):
		c.Outcome = Pass
		c.Message += d.within(Pass)
	case real:
		c.Outcome = Fail
		c.Message += "; " + byLuck(test) + d.within(Fail)
		c.Hint = d.shown(test)
	default:
		c.Outcome = Inconclusive
		c.Message += "; " + byLuck(test) + ", so this suite cannot tell it from luck"
		c.Hint = d.helps(test, asked, alpha)
	}
	j.noteSmall(d, test, alpha)
}

// sentence says what happened: "pass rate fell from 62.0% to 54.0% (-8.0 points, 90% interval …) on 100 tasks".
func (d drop) sentence(interval string) string {
	tasks := plural.Count(len(d.sample.tasks), "task") + d.counts.String()
	if before, after := d.what.level(d.base), d.what.level(d.head); d.size() != 0 {
		verb := "rose"
		if d.size() > 0 {
			verb = "fell"
		}
		return fmt.Sprintf("%s %s from %s to %s (%s%s%s) on %s", d.what.name, verb, before, after, d.what.amount(-d.size()), d.what.unit, interval, tasks)
	}
	return fmt.Sprintf("%s stayed at %s (0%s%s) on %s", d.what.name, d.what.level(d.head), d.what.unit, interval, tasks)
}

// within compares with the threshold.
func (d drop) within(o Outcome) string {
	switch {
	case o == Fail && d.limit == 0:
		return ""
	case o == Fail:
		return ", and the limit is " + d.absolute(d.limit)
	case d.size() > 0:
		return ", within the limit of " + d.absolute(d.limit)
	}
	return ""
}

// absolute is an amount without a sign.
func (d drop) absolute(v float64) string {
	text := d.what.amount(v)
	if text[0] == '+' || text[0] == '-' {
		text = text[1:]
	}
	return text + d.what.unit
}

// byLuck says how often there is as much without any change; of what is exactly as much, half counts (mid-p).
func byLuck(t Test) string {
	text := "luck alone does that in " + chance(t.P) + " of runs"
	if chance(t.Adjusted) != chance(t.P) {
		text += fmt.Sprintf(" (%s when %d checks are tested)", chance(t.Adjusted), t.Looks)
	}
	return text
}

// shown says what the suite could have shown.
func (d drop) shown(t Test) string {
	var shapes []string
	if t.Detectable != nil {
		shapes = append(shapes, d.absolute(*t.Detectable)+" if many tasks share it")
	}
	if t.DetectableBroken != nil {
		shapes = append(shapes, fmt.Sprintf("%s if %s broke", d.absolute(*t.DetectableBroken), plural.Count(t.DetectableTasks, "task")))
	}
	if len(shapes) == 0 {
		return ""
	}
	return "the smallest drop that this suite shows in four of five runs is " + strings.Join(shapes, ", and ")
}

// helps says what would make an inconclusive drop clear.
func (d drop) helps(t Test, asked, alpha float64) string {
	if tooFew(t.Tasks, alpha) {
		return d.tooFewTasks(t, alpha)
	}
	text := d.shown(t)
	if text == "" {
		text = "this suite shows no drop in four of five runs"
	}
	switch {
	case t.NeededAttempts > 0:
		// More attempts do not help where few tasks make up all of it: they fall every time, and luck can do the same to few.
		text += fmt.Sprintf("; n_attempts: %d in both jobs would show one of %s that many tasks share", t.NeededAttempts, d.absolute(asked))
	case t.Detectable == nil || *t.Detectable > asked*(1+rounding):
		text += fmt.Sprintf("; to show one of %s it needs more tasks", d.absolute(asked))
		if n := neededTasks(d.sample, asked/d.scale, alpha); n > 0 {
			text += fmt.Sprintf(", about %d like these", n)
		}
	}
	return text
}

func (d drop) tooFewTasks(t Test, alpha float64) string {
	return fmt.Sprintf("%s can show no drop, however large: luck can do the same to all of them. It takes %d or more; with fewer, noise: ignore counts every drop",
		plural.Count(t.Tasks, "task"), leastTasks(alpha))
}

// noteSmall tells that a suite is too small to show anything, also if nothing was seen: then nobody would know.
func (j *judge) noteSmall(d drop, t Test, alpha float64) {
	if t.Detectable != nil || t.DetectableBroken != nil || d.span() == 0 {
		return
	}
	note := d.scope.name() + d.what.name + ": "
	if tooFew(t.Tasks, alpha) {
		note += d.tooFewTasks(t, alpha)
	} else {
		note += "this suite is too small to show any drop reliably. More attempts (n_attempts) or more tasks help"
	}
	if !slices.Contains(j.notes, note) {
		j.notes = append(j.notes, note)
	}
}

// noteComparison says what thresholds on drops did not look at.
func (j *judge) noteComparison() {
	asked := false
	for _, c := range j.checks {
		asked = asked || c.Name == "max_pass_rate_drop" || c.Name == "max_mean_reward_drop" || c.Name == "max_broken_tasks"
	}
	switch {
	case !asked:
	case j.diff == nil:
		j.notes = append(j.notes, "thresholds on drops and broken tasks were not checked: "+noBaseline)
	default:
		for _, left := range []struct {
			change result.Change
			why    string
		}{
			{result.Changed, "whose files changed"},
			{result.New, "that the baseline does not have"},
			{result.Removed, "of the baseline that this job does not have"},
			{result.Errored, "that now have only errors of the infrastructure"},
			{result.Unknown, "without a result on one side"},
		} {
			n := 0
			for _, t := range j.diff.Tasks {
				if t.Change == left.change && !t.Comparable() {
					n++
				}
			}
			if n > 0 {
				j.notes = append(j.notes, fmt.Sprintf("%s %s: not part of any drop", plural.Count(n, "task"), left.why))
			}
		}
	}
}
