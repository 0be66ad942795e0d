package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// costIncrease is the comparison for max_cost_increase.
//
// The increase is that of a typical trial: of the geometric mean, in which each task counts once.
// Costs of agents differ by orders of magnitude between tasks, and a trial now and then costs many
// times as much as another of the same task. In plain means, the most expensive tasks and a single
// outlier would decide; messages print them, too. The test is that of drops, on the logarithms of
// costs. If nothing changed, the two runs are exchangeable, so it keeps its level on any function
// of the costs.
type costIncrease struct {
	check         int // index of its check
	limit         float64
	paired.Sample // minus the logarithms of costs
	base, head    float64
	counts        costCounts
	p             float64
	method        string
}

// costCounts counts the trials of compared tasks, in the baseline and in the job.
type costCounts struct{ trials, unknown [2]int }

// most reports whether the cost of most trials is unknown, in the baseline or in the job.
func (c costCounts) most() bool {
	return 2*c.unknown[0] > c.trials[0] || 2*c.unknown[1] > c.trials[1]
}

// String returns the counts in parentheses, to append to a sentence; "" if all costs are known.
func (c costCounts) String() string {
	switch {
	case c.unknown == [2]int{}:
		return ""
	case c.unknown[0] == 0:
		return fmt.Sprintf(" (without %s whose cost is not known)", plural.Count(c.unknown[1], "trial"))
	}
	return fmt.Sprintf(" (without %s, and %d of the baseline, whose cost is not known)", plural.Count(c.unknown[1], "trial"), c.unknown[0])
}

// freeShare is the share of the mean cost that is added to each cost before its logarithm is taken:
// 0 has no logarithm, and without it trials that ended at once would dominate the test.
const freeShare = 0.01

// knownCosts returns the costs of the scored attempts that are known.
func knownCosts(a *result.Attempts) []float64 {
	var costs []float64
	for o := range a.Scored() {
		if cost, ok := o.KnownCost().Reported(); ok && cost >= 0 {
			costs = append(costs, cost)
		}
	}
	return costs
}

// maxCostIncrease checks the limit on the increase of costs, or adds a comparison to decide it.
func (k *checker) maxCostIncrease(s scope) {
	const name = "max_cost_increase"
	if s.MaxCostIncrease == nil || k.nothingToCheck(s, name, *s.MaxCostIncrease) {
		return
	}
	if k.diff == nil {
		k.lack(s, name, *s.MaxCostIncrease, noBaseline)
		return
	}
	all := s.comparable()
	if len(all) == 0 {
		k.incomparable(s, name, *s.MaxCostIncrease)
		return
	}
	d := costIncrease{limit: *s.MaxCostIncrease}
	var tasks []result.TaskDiff
	var base, head []float64
	for _, t := range all {
		costs := [2][]float64{knownCosts(t.Base), knownCosts(t.Head)}
		for i, side := range []*result.Attempts{t.Base, t.Head} {
			d.counts.trials[i] += len(side.Scores())
			d.counts.unknown[i] += len(side.Scores()) - len(costs[i])
		}
		if len(costs[0]) > 0 && len(costs[1]) > 0 {
			tasks = append(tasks, t)
			base, head = append(base, result.Mean(costs[0])), append(head, result.Mean(costs[1]))
		}
	}
	if len(tasks) == 0 || d.counts.most() {
		k.add(s, Check{
			Name: name, Limit: *s.MaxCostIncrease, Outcome: Inconclusive,
			Message: fmt.Sprintf("the costs cannot be compared: %s", d.counts.unknownText()),
			Hint:    "set the prices of models (models.NAME.price), or let agents without a gateway report their cost; a baseline needs known costs, too",
		})
		return
	}
	d.base, d.head = result.Mean(base), result.Mean(head)
	free := freeShare * (d.base/2 + d.head/2)
	if free <= 0 {
		free = 1 // all costs are 0
	}
	d.Sample = paired.SampleOf(tasks, func(a *result.Attempts) []float64 {
		costs := knownCosts(a)
		for i, c := range costs {
			costs[i] = -math.Log(c/free + 1)
		}
		return costs
	})
	d.check = k.add(s, Check{Name: name, Value: d.typical(), Limit: d.limit})
	k.noteOtherModels(tasks)
	if k.policy.Noise != NoiseIgnore {
		d.p, d.method = paired.PValue(d.Sample)
		k.tests = append(k.tests, d)
		return
	}
	c := &k.checks[d.check]
	c.Outcome = failIf(above(d.typical(), d.limit))
	c.Message = d.message("") + d.limitText(c.Outcome)
}

// unknownText tells whose costs are unknown.
func (c costCounts) unknownText() string {
	var parts []string
	for i, of := range []string{" of the baseline", " of this job"} {
		if c.unknown[i] > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s%s", c.unknown[i], plural.Count(c.trials[i], "trial"), of))
		}
	}
	return "the cost is not known of " + strings.Join(parts, " and of ")
}

// noteOtherModels adds a note if the agents of the two jobs used different models.
func (k *checker) noteOtherModels(tasks []result.TaskDiff) {
	models := func(side func(result.TaskDiff) *result.Attempts) []string {
		var names []string
		for _, t := range tasks {
			for o := range side(t).Scored() {
				if o.Usage != nil && o.Usage.Model != "" && !slices.Contains(names, o.Usage.Model) && len(names) < maxNamedModels {
					names = append(names, o.Usage.Model)
				}
			}
		}
		slices.Sort(names)
		return names
	}
	before := models(func(t result.TaskDiff) *result.Attempts { return t.Base })
	now := models(func(t result.TaskDiff) *result.Attempts { return t.Head })
	if len(before) == 0 || len(now) == 0 || slices.Equal(before, now) {
		return
	}
	note := fmt.Sprintf("the costs are of different models: %s in the baseline, %s now", strings.Join(before, ", "), strings.Join(now, ", "))
	if !slices.Contains(k.notes, note) {
		k.notes = append(k.notes, note)
	}
}

// maxNamedModels bounds how many models a note names.
const maxNamedModels = 5

// increase returns the relative rise of the plain mean cost, for messages; a fall is negative. It
// is the largest number if the baseline cost nothing.
func (d costIncrease) increase() float64 {
	switch {
	case math.Abs(d.head-d.base) <= 1e-12*d.base:
		return 0 // the same costs, added in another order
	case d.base == 0:
		return math.MaxFloat64
	}
	return finite(d.head/d.base - 1)
}

func (d costIncrease) pValue() float64 { return d.p }

func (d costIncrease) index() int { return d.check }

// sameAs reports whether other tests the same costs, as groups do that select all trials.
func (d costIncrease) sameAs(other comparison) bool {
	o, ok := other.(costIncrease)
	return ok && d.base == o.base && d.head == o.head && d.Units == o.Units && slices.Equal(d.Drops(), o.Drops())
}

func (d costIncrease) decide(k *checker, adjusted, alpha float64, tests int) {
	c := &k.checks[d.check]
	significant := k.significant(adjusted)
	test := k.newTest(d.Sample, d.method, d.p, adjusted, tests, alpha)
	test.Low, test.High = d.interval(alpha, significant)
	if smallest, ok := d.detectable(alpha); ok {
		if d.limit > 0 { // measured above the limit in four of five runs
			smallest = max(smallest, (1+d.limit)*math.Exp(paired.NormalQuantile(paired.Power)*math.Sqrt(paired.Variance(d.Drops())/float64(len(d.Sample.Tasks))))-1)
		}
		test.Detectable = &smallest
	}
	c.Test = &test
	c.Message = d.message(fmt.Sprintf(", %s interval %s to %s", share(test.IntervalConfidence), change(test.Low), change(test.High)))
	switch {
	case !above(d.typical(), d.limit):
		c.Outcome = Pass
		c.Message += d.limitText(Pass)
	case significant:
		c.Outcome = Fail
		c.Message += "; " + byChance(test) + d.limitText(Fail)
	default:
		c.Outcome = Inconclusive
		c.Message += "; " + byChance(test) + ", so this suite cannot tell it from chance"
	}
	if c.Outcome != Pass {
		c.Hint = d.hint(test, alpha)
	}
}

// typical returns the increase of the geometric mean, which the limit and the test are about.
func (d costIncrease) typical() float64 { return finite(math.Expm1(result.Mean(d.Drops()) * d.Scale)) }

// interval returns a confidence interval of the increase of a typical trial.
func (d costIncrease) interval(alpha float64, significant bool) (low, high float64) {
	low, high = logInterval(d.Sample, alpha, significant)
	return finite(math.Expm1(low * d.Scale)), finite(math.Expm1(high * d.Scale))
}

// logInterval returns a confidence interval of the true drop of a sample of logarithms: Student's,
// over tasks. Each bound has the confidence 1 - alpha. It excludes 0 only if the drop is
// significant, see interval.
func logInterval(s paired.Sample, alpha float64, significant bool) (low, high float64) {
	drops := s.Drops()
	n := float64(len(drops))
	if n < 2 {
		return -math.MaxFloat64, math.MaxFloat64 // one task gives no estimate of the variance
	}
	centre, reach := result.Mean(drops), paired.StudentQuantile(1-alpha, n-1)*math.Sqrt(paired.Variance(drops)/n)
	low, high = centre-reach, centre+reach
	if significant {
		low = max(low, 0)
	} else {
		low = min(low, 0)
	}
	return low, max(high, low)
}

// detectable returns the smallest increase of every trial's cost that the test finds in 80 % of
// runs; false if it finds none below a hundredfold. It is a normal approximation; the formula is
// from R. J. Connor, Biometrics 43 (1987) 207.
func (d costIncrease) detectable(alpha float64) (float64, bool) {
	n, v := float64(len(d.Tasks)), paired.Variance(d.Drops())
	if d.TooFew(len(d.Sample.Tasks), alpha) {
		return 0, false
	}
	for by := 0.01; by <= math.Log(100); by += 0.01 {
		z := (by*math.Sqrt(n) - paired.NormalQuantile(1-alpha)*math.Sqrt(v+by*by/d.Against())) / math.Sqrt(v)
		if 0.5*math.Erfc(-z/math.Sqrt2) >= paired.Power {
			return math.Expm1(by), true
		}
	}
	return 0, false
}

// message describes the change: "mean cost of a trial rose from $0.40 to $0.61 (+52.5%; a typical
// trial +48.1%, 90% interval …) on 30 tasks".
func (d costIncrease) message(interval string) string {
	typical := "; a typical trial " + change(d.typical()) + interval
	tasks := plural.Count(len(d.Tasks), "task") + d.counts.String()
	if d.increase() == 0 {
		return fmt.Sprintf("mean cost of a trial stayed at %s (0%%%s) on %s", amount(d.head), typical, tasks)
	}
	verb := "rose"
	if d.increase() < 0 {
		verb = "fell"
	}
	by := change(d.increase())
	if d.base == 0 {
		by = "from nothing"
	}
	return fmt.Sprintf("mean cost of a trial %s from %s to %s (%s%s) on %s", verb, amount(d.base), amount(d.head), by, typical, tasks)
}

// limitText compares the typical increase with the threshold, as a text to append to a sentence.
func (d costIncrease) limitText(o Outcome) string {
	limit := strings.TrimPrefix(change(d.limit), "+")
	switch {
	case o == Fail && d.limit == 0:
		return ""
	case o == Fail:
		return ", and the limit for a typical trial is " + limit
	case d.typical() > 0:
		return ", within the limit of " + limit
	}
	return ""
}

// hint names the smallest increase that the suite detects.
func (d costIncrease) hint(t Test, alpha float64) string {
	switch {
	case d.TooFew(t.Tasks, alpha):
		return fmt.Sprintf("%s can show no increase, however large: chance can do the same to all of them. It takes %d or more; with fewer, noise: ignore counts every increase",
			plural.Count(t.Tasks, "task"), d.LeastTasks(alpha))
	case t.Detectable == nil:
		return "this suite shows no increase in four of five runs; more tasks or more attempts (n_attempts) in both jobs help"
	}
	text := fmt.Sprintf("the smallest increase that this suite shows in four of five runs is %s of every trial", strings.TrimPrefix(change(*t.Detectable), "+"))
	if d.limit > 0 {
		text += equalToLimit
	}
	return text
}

// change formats a relative change with its sign: +52.5%.
func change(v float64) string {
	if v > 1e6 {
		return "more than +1000000%"
	}
	return signed(positiveZero(fmt.Sprintf("%.1f", v*100))) + "%"
}

// amount formats the cost of a trial, which may be a fraction of a cent.
func amount(v float64) string {
	if v > 0 && v < 0.0995 {
		return fmt.Sprintf("$%.3g", v)
	}
	return dollars(v)
}
