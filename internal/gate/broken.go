package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
)

// broken is a check on broken tasks that waits for all tests to be known.
//
// A task that is passed in some of its attempts breaks by luck every now and then, and as often it is mended by luck: never passed before,
// and always now. Two runs of one thing could as well be the other way round, so that broken and mended tasks are like the
// falls and rises of a drop, and obey the same test. With confirmation attempts only those count as broken that never pass in these,
// either. That makes broken ones rarer than mended ones if nothing changed, and the test stricter than it has to be.
type broken struct {
	check   int // its place among the checks
	limit   int
	names   []result.Key // of the broken tasks; Attempt is 0
	mended  int
	crashed int // of the broken ones: have nothing but errors
	untried int // of the broken ones: have no confirmation attempt that says anything
	flaky   int // passed when they were tried again
	confirm int // Policy.Confirm.Attempts
	sample      // of tasks that broke (1) or were mended (-1)
	p       float64
	method  string
}

// maxBrokenTasks takes up the limit on broken tasks.
func (j *judge) maxBrokenTasks(s scope) {
	const name = "max_broken_tasks"
	if s.MaxBrokenTasks == nil || j.nothing(s, name, float64(*s.MaxBrokenTasks)) {
		return
	}
	if j.diff == nil {
		j.skip(s, name, float64(*s.MaxBrokenTasks), noBaseline)
		return
	}
	if len(s.comparable()) == 0 {
		j.skip(s, name, float64(*s.MaxBrokenTasks), noComparison)
		return
	}
	b := broken{limit: *s.MaxBrokenTasks, confirm: j.policy.Confirm.Attempts}
	var flips []result.TaskDiff
	for _, t := range s.tasks {
		untried := t
		untried.Confirmation = nil
		flip := unchanged
		switch {
		case broke(t):
			b.names = append(b.names, result.Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task})
			if len(t.Head.Rewards) == 0 {
				b.crashed++
			}
			if t.Confirmation == nil || len(t.Confirmation.Scores) == 0 {
				b.untried++
			}
			flip = down
		case broke(untried):
			b.flaky++
		case mended(t):
			b.mended++
			flip = up
		}
		if t.Comparable() {
			t.Base, t.Head = flip[0], flip[1]
			flips = append(flips, t)
		}
	}
	b.sample = sampleOf(flips, passes)
	if j.policy.Noise != NoiseIgnore {
		b.p, b.method = pValue(b.sample)
	}
	b.check = j.add(s, Check{Name: name, Value: float64(len(b.names)), Limit: float64(b.limit)})
	if j.policy.Noise != NoiseIgnore && len(flips) > 0 {
		j.tests = append(j.tests, b)
		return
	}
	c := &j.checks[b.check]
	c.Outcome = failIf(len(b.names) > b.limit)
	c.Message = b.sentence()
	if c.Outcome == Fail {
		c.Hint = b.helps(0, 1)
	}
}

// The two sides of a task that broke, was mended, or neither.
var (
	lost, won = &result.Attempts{Scores: []float64{0}}, &result.Attempts{Scores: []float64{1}}
	down      = [2]*result.Attempts{won, lost}
	up        = [2]*result.Attempts{lost, won}
	unchanged = [2]*result.Attempts{lost, lost}
)

// mended reports that a task was never passed in the baseline and is always now. Where one side has more attempts than the
// other, as many of them are looked at as the other has: a task is mended by luck at least as often as it breaks by luck
// only if both take equally many attempts.
func mended(t result.TaskDiff) bool {
	if !t.Comparable() {
		return false
	}
	n := min(len(t.Base.Scores), len(t.Head.Scores))
	passed := func(v float64) bool { return v == 1 }
	failed := func(v float64) bool { return v != 1 }
	return !slices.ContainsFunc(t.Base.Scores[:n], passed) && !slices.ContainsFunc(t.Head.Scores[:n], failed)
}

func (b broken) chance() float64 { return b.p }

func (b broken) sameAs(o test) bool {
	other, ok := o.(broken)
	return ok && other.mended == b.mended && len(other.tasks) == len(b.tasks) && slices.Equal(other.names, b.names)
}

func (b broken) decide(j *judge, adjusted, alpha float64, looks int) {
	c := &j.checks[b.check]
	real := j.real(adjusted)
	test := newTest(b.sample, b.method, b.p, adjusted, looks, alpha)
	low, high := interval(b.sample, alpha, real)
	n := float64(len(b.tasks))
	test.Low, test.High = low*n, high*n
	c.Test = &test
	c.Message = b.sentence()
	switch {
	case len(b.names) <= b.limit:
		c.Outcome = Pass
	case real:
		c.Outcome = Fail
		c.Message += "; " + byLuck(test)
	default:
		c.Outcome = Inconclusive
		c.Message += "; " + byLuck(test) + ", so this suite cannot tell it from luck"
	}
	if c.Outcome != Pass {
		c.Hint = b.helps(alpha, looks)
	}
}

func (b broken) sentence() string {
	text := fmt.Sprintf("%s broke (passed in every attempt of the baseline, and in none now)", plural.Count(len(b.names), "task"))
	if b.mended > 0 {
		text += fmt.Sprintf(" and %s mended", wereCounted(b.mended))
	}
	text += fmt.Sprintf(", at most %d may", b.limit)
	if b.crashed > 0 {
		text += fmt.Sprintf("; %d of them for errors alone", b.crashed)
	}
	if b.confirm > 0 && b.untried > 0 {
		text += fmt.Sprintf("; %d of them not confirmed", b.untried)
	}
	if b.flaky > 0 {
		text += fmt.Sprintf("; %s passed when tried again (flaky)", plural.Count(b.flaky, "more task"))
	}
	return text
}

func wereCounted(n int) string {
	if n == 1 {
		return "1 was"
	}
	return fmt.Sprintf("%d were", n)
}

// helps says what would make broken tasks clear; alpha is 0 where nothing is tested. looks is how many checks share the chance of a
// false alarm.
func (b broken) helps(alpha float64, looks int) string {
	var parts []string
	if alpha > 0 {
		least := b.mended + 1
		for atLeast(least+b.mended, least, 0.5)+atLeast(least+b.mended, least+1, 0.5) > 2*alpha {
			least++
		}
		text := fmt.Sprintf("it takes %d broken tasks to be more than luck", least)
		if b.mended > 0 {
			text += fmt.Sprintf(" when %s mended", wereCounted(b.mended))
		}
		if looks > 1 {
			text += fmt.Sprintf(" (%d checks share the chance of a false alarm)", looks)
		}
		parts = append(parts, text)
	}
	if b.confirm == 0 {
		parts = append(parts, "gate.confirm: {attempts: 4} tries such tasks again, and those that pass once do not count")
	}
	return strings.Join(parts, "; ")
}

// newTest is a test without its interval.
func newTest(s sample, method string, p, adjusted float64, looks int, alpha float64) Test {
	return Test{
		Method: method, Tasks: len(s.tasks), P: p, Adjusted: adjusted, Looks: looks,
		IntervalConfidence: math.Round((1-2*alpha)*1e9) / 1e9, // 0.9, not 0.8999999999999999
	}
}
