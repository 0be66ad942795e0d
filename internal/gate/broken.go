package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
)

// brokenTasks is the comparison for max_broken_tasks.
//
// A task that passes in some of its attempts breaks by chance now and then, and is fixed by chance as often: it never passed
// before and always passes now. If nothing changed, the two runs are exchangeable, so broken and fixed tasks are like the falls
// and rises of a drop, and the same test applies. With confirmation attempts, a task counts as broken only if it never passes in
// these either, and, if the baseline makes some, too, only if it passes more than half of them. Then broken tasks are rarer than fixed ones if
// nothing changed, and the test is stricter than necessary.
type brokenTasks struct {
	check       int // index of its check
	limit       int
	names       []result.Key // of the broken tasks; Attempt is 0
	fixed       int
	crashed     int // broken tasks that have only errors
	unconfirmed int // broken tasks without a confirmation attempt that ended with a verdict
	flaky       int // tasks that passed when they were tried again
	both        int // tasks that the baseline did not pass either when they were tried again
	confirm     int // Policy.Confirm.Attempts
	sample          // tasks fell by 1 if they broke and rose by 1 if they were fixed
	p           float64
	method      string
}

// maxBrokenTasks checks the limit on broken tasks, or adds the comparison that will.
func (k *checker) maxBrokenTasks(s scope) {
	const name = "max_broken_tasks"
	if s.MaxBrokenTasks == nil || k.nothingToCheck(s, name, float64(*s.MaxBrokenTasks)) {
		return
	}
	if k.diff == nil {
		k.lack(s, name, float64(*s.MaxBrokenTasks), noBaseline)
		return
	}
	if len(s.comparable()) == 0 {
		k.lack(s, name, float64(*s.MaxBrokenTasks), noComparison)
		return
	}
	b := brokenTasks{limit: *s.MaxBrokenTasks, confirm: k.policy.Confirm.Attempts}
	var flips []result.TaskDiff
	for _, t := range s.tasks {
		untried := t
		untried.Confirmation, untried.BaseConfirmation = nil, nil
		flip := unchanged
		switch {
		case isBroken(t):
			b.names = append(b.names, result.Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task})
			if len(t.Head.Rewards) == 0 {
				b.crashed++
			}
			if t.Confirmation == nil || len(t.Confirmation.Scores) == 0 {
				b.unconfirmed++
			}
			flip = fell
		case isBroken(untried) && t.Confirmation != nil && t.Confirmation.Passed > 0:
			b.flaky++
		case isBroken(untried):
			b.both++
		case isFixed(t):
			b.fixed++
			flip = rose
		}
		if t.Comparable() {
			t.Base, t.Head = flip[0], flip[1]
			flips = append(flips, t)
		}
	}
	b.sample = sampleOf(flips, passes)
	if k.policy.Noise != NoiseIgnore {
		b.p, b.method = pValue(b.sample)
	}
	b.check = k.add(s, Check{Name: name, Value: float64(len(b.names)), Limit: float64(b.limit)})
	if k.policy.Noise != NoiseIgnore && len(flips) > 0 {
		k.tests = append(k.tests, b)
		return
	}
	c := &k.checks[b.check]
	c.Outcome = failIf(len(b.names) > b.limit)
	c.Message = b.message()
	if c.Outcome == Fail {
		c.Hint = b.hint(0, 1)
	}
}

// The baseline and the job of a task that broke, was fixed, or neither.
var (
	failed, passed = &result.Attempts{Scores: []float64{0}}, &result.Attempts{Scores: []float64{1}}
	fell           = [2]*result.Attempts{passed, failed}
	rose           = [2]*result.Attempts{failed, passed}
	unchanged      = [2]*result.Attempts{failed, failed}
)

// isFixed reports whether a task never passed in the baseline and always passes now. If one side has more attempts than the
// other, the surplus is ignored: only with equally many attempts is a task fixed by chance at least as often as it breaks by
// chance.
func isFixed(t result.TaskDiff) bool {
	if !t.Comparable() {
		return false
	}
	n := min(len(t.Base.Scores), len(t.Head.Scores))
	return !slices.Contains(t.Base.Scores[:n], 1) && !slices.ContainsFunc(t.Head.Scores[:n], func(v float64) bool { return v != 1 })
}

func (b brokenTasks) pValue() float64 { return b.p }

func (b brokenTasks) sameAs(o comparison) bool {
	other, ok := o.(brokenTasks)
	return ok && other.fixed == b.fixed && len(other.tasks) == len(b.tasks) && slices.Equal(other.names, b.names)
}

func (b brokenTasks) decide(k *checker, adjusted, alpha float64, tests int) {
	c := &k.checks[b.check]
	significant := k.significant(adjusted)
	test := newTest(b.sample, b.method, b.p, adjusted, tests, alpha)
	low, high := interval(b.sample, alpha, significant)
	n := float64(len(b.tasks))
	test.Low, test.High = low*n, high*n
	c.Test = &test
	c.Message = b.message()
	switch {
	case len(b.names) <= b.limit:
		c.Outcome = Pass
	case significant:
		c.Outcome = Fail
		c.Message += "; " + byChance(test)
	default:
		c.Outcome = Inconclusive
		c.Message += "; " + byChance(test) + ", so this suite cannot tell it from chance"
	}
	if c.Outcome != Pass {
		c.Hint = b.hint(alpha, tests)
	}
}

func (b brokenTasks) message() string {
	text := fmt.Sprintf("%s broke (passed in every attempt of the baseline, and in none now)", plural.Count(len(b.names), "task"))
	if b.fixed > 0 {
		text += fmt.Sprintf(" and %s fixed", wereCounted(b.fixed))
	}
	text += fmt.Sprintf(", at most %d may", b.limit)
	if b.crashed > 0 {
		text += fmt.Sprintf("; %d of them for errors alone", b.crashed)
	}
	if b.confirm > 0 && b.unconfirmed > 0 {
		text += fmt.Sprintf("; %d of them not confirmed", b.unconfirmed)
	}
	if b.flaky > 0 {
		text += fmt.Sprintf("; %s passed when tried again (flaky)", plural.Count(b.flaky, "more task"))
	}
	if b.both > 0 {
		text += fmt.Sprintf("; %s failed in the baseline, too, when tried again", plural.Count(b.both, "more task"))
	}
	return text
}

func wereCounted(n int) string {
	if n == 1 {
		return "1 was"
	}
	return fmt.Sprintf("%d were", n)
}

// hint returns what would make the outcome clearer. alpha is 0 if nothing was tested. tests is how many checks share the chance
// of a false alarm.
func (b brokenTasks) hint(alpha float64, tests int) string {
	var parts []string
	if alpha > 0 {
		least := b.fixed + 1
		for atLeast(least+b.fixed, least, 0.5)+atLeast(least+b.fixed, least+1, 0.5) > 2*alpha {
			least++
		}
		text := fmt.Sprintf("it takes %d broken tasks to be more than chance", least)
		if b.fixed > 0 {
			text += fmt.Sprintf(" when %s fixed", wereCounted(b.fixed))
		}
		if tests > 1 {
			text += fmt.Sprintf(" (%d checks share the chance of a false alarm)", tests)
		}
		parts = append(parts, text)
	}
	if b.confirm == 0 {
		parts = append(parts, "gate.confirm: {attempts: 4} tries such tasks again, and those that pass once do not count")
	}
	return strings.Join(parts, "; ")
}

// newTest returns a Test without an interval and without what the suite can detect.
func newTest(s sample, method string, p, adjusted float64, tests int, alpha float64) Test {
	return Test{
		Method: method, Tasks: len(s.tasks), P: p, Adjusted: adjusted, Tests: tests,
		IntervalConfidence: math.Round((1-2*alpha)*1e9) / 1e9, // 0.9, not 0.8999999999999999
	}
}
