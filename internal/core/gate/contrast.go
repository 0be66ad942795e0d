package gate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// Measure names a number by which two agents are compared.
type Measure string

// The measures, in the order of reports. Of the last three the test is about a typical trial: the
// geometric mean, because such numbers differ by orders of magnitude between tasks.
const (
	MeasurePassRate Measure = "pass_rate"
	MeasureReward   Measure = "mean_reward"
	MeasureCost     Measure = "cost"     // in US dollars
	MeasureTurns    Measure = "turns"    // requests to a model
	MeasureTime     Measure = "time_sec" // without the wait for the image
)

// Direction classifies the difference between two agents.
type Direction string

// The directions. Chance: the difference is none, or one that chance explains.
const (
	Higher  Direction = "higher"
	Lower   Direction = "lower"
	Chance  Direction = "chance"
	Unknown Direction = "unknown" // there are no values, or most of one agent's are not known
)

// Contrast compares an agent A with an agent B by one measure, paired by task. Numbers are nil if
// the direction is Unknown.
type Contrast struct {
	Measure Measure `json:"measure"`
	Tasks   int     `json:"tasks"` // that have values of both
	// A and B are the levels on these tasks, of which each counts once. Missing counts the scored
	// trials of A and B without a value.
	A       *float64 `json:"a"`
	B       *float64 `json:"b"`
	Missing [2]int   `json:"missing_trials"`
	// Difference is A - B: from -1 to 1 for pass_rate. Of cost, turns and time_sec it is relative
	// to B: 0.25 if a typical trial of A has a quarter more.
	Difference *float64  `json:"difference"`
	Interval   *Interval `json:"interval"`
	// P is two-sided: how likely so large a difference in either direction is if A and B are alike.
	// Adjusted is P corrected for the number of pairs (Holm).
	P        *float64  `json:"p"`
	Adjusted *float64  `json:"p_adjusted"`
	Method   string    `json:"method,omitempty"`
	Outcome  Direction `json:"outcome"`
}

// Relative reports whether the difference is relative to B.
func (m Measure) Relative() bool { return m == MeasureCost || m == MeasureTurns || m == MeasureTime }

// Contrasts compares two agents in each of pairs, by every measure. An element of a pair has the
// attempts of A as Base and those of B as Head, sorted by dataset and task; those that are not
// Comparable are left out, and those with trials that a job took over from the other one. The tests
// are those of the gate, two-sided: if the agents of all pairs are alike, a measure has a
// difference in any of the pairs in at most a share 1 - confidence of jobs. The measures are
// questions of their own, without a correction for their number.
//
// mean_reward is left out if every reward is 0 or 1: pass_rate says the same.
func Contrasts(pairs [][]result.TaskDiff, confidence float64) [][]Contrast {
	out := make([][]Contrast, len(pairs))
	pairs = slices.Clone(pairs)
	binary := true
	for i, pair := range pairs {
		pairs[i] = slices.DeleteFunc(slices.Clone(pair), func(t result.TaskDiff) bool { return !t.Comparable() || t.TakenOver })
		binary = binary && paired.SampleOf(pairs[i], paired.Rewards).Binary
	}
	for _, m := range []Measure{MeasurePassRate, MeasureReward, MeasureCost, MeasureTurns, MeasureTime} {
		if m == MeasureReward && binary {
			continue
		}
		tests := make([]contrast, len(pairs))
		var tested []int
		var ps []float64
		for i, pair := range pairs {
			tests[i] = newContrast(m, pair)
			if tests[i].Outcome != Unknown {
				tested, ps = append(tested, i), append(ps, *tests[i].P)
			}
		}
		adjusted, levels := paired.Holm(ps, 1-confidence)
		for i, at := range tested {
			tests[at].decide(adjusted[i], levels[i], confidence)
		}
		for i := range pairs {
			out[i] = append(out[i], tests[i].Contrast)
		}
	}
	return out
}

// contrast is a Contrast with its values.
type contrast struct {
	Contrast
	sample paired.Sample // A is the base and B the head
	mirror paired.Sample // the sides exchanged
	free   float64       // what was added to the values of a relative measure
}

// newContrast compares a pair by a measure. Its outcome is Chance until it is decided, or Unknown.
func newContrast(m Measure, pair []result.TaskDiff) contrast {
	c := contrast{Contrast: Contrast{Measure: m, Outcome: Unknown}}
	values := m.values()
	var scored [2]int
	known := func(t result.TaskDiff) bool {
		missing := false
		for i, side := range []*result.Attempts{t.Base, t.Head} {
			n := len(values(side))
			scored[i] += len(side.Scores())
			c.Missing[i] += len(side.Scores()) - n
			missing = missing || n == 0
		}
		return !missing
	}
	pair = slices.DeleteFunc(slices.Clone(pair), func(t result.TaskDiff) bool { return !known(t) })
	c.Tasks = len(pair)
	if len(pair) == 0 || 2*c.Missing[0] > scored[0] || 2*c.Missing[1] > scored[1] {
		return c
	}
	if m.Relative() {
		c.free = freeOf(pair, values)
		plain := values
		values = func(a *result.Attempts) []float64 {
			logs := plain(a)
			for i, v := range logs {
				logs[i] = math.Log(v/c.free + 1)
			}
			return logs
		}
	}
	c.sample = paired.SampleOf(pair, values)
	exchanged := slices.Clone(pair)
	for i, t := range pair {
		exchanged[i].Base, exchanged[i].Head = t.Head, t.Base
	}
	c.mirror = paired.SampleOf(exchanged, values)
	c.levels()
	p, method := paired.PValue(c.sample)
	other, _ := paired.PValue(c.mirror)
	c.P, c.Method, c.Outcome = new(min(1, 2*min(p, other))), method, Chance
	return c
}

// values returns a function that returns the values of a measure, of the scored attempts that have
// one. The caller may change those of a relative one.
func (m Measure) values() func(*result.Attempts) []float64 {
	switch m {
	case MeasurePassRate:
		return paired.Passes
	case MeasureReward:
		return paired.Rewards
	case MeasureCost:
		return knownCosts
	case MeasureTurns:
		return func(a *result.Attempts) []float64 { return result.MeansOf(a.Scored()).Turns }
	}
	return func(a *result.Attempts) []float64 { return result.MeansOf(a.Scored()).Seconds }
}

// freeOf returns what is added to each value before its logarithm is taken; see freeShare.
func freeOf(pair []result.TaskDiff, values func(*result.Attempts) []float64) float64 {
	var means []float64
	for _, t := range pair {
		means = append(means, result.Mean(values(t.Base)), result.Mean(values(t.Head)))
	}
	if free := freeShare * result.Mean(means); free > 0 {
		return free
	}
	return 1 // all values are 0
}

// levels sets A, B and Difference.
func (c *contrast) levels() {
	var a, b []float64
	for _, t := range c.sample.Tasks {
		for _, u := range t {
			a, b = append(a, result.Mean(u.Base)*c.sample.Scale), append(b, result.Mean(u.Head)*c.sample.Scale)
		}
	}
	levelA, levelB := result.Mean(a), result.Mean(b)
	if c.Measure.Relative() {
		levelA, levelB = math.Expm1(levelA)*c.free, math.Expm1(levelB)*c.free
	}
	c.A, c.B = new(finite(levelA)), new(finite(levelB))
	c.Difference = new(c.amount(result.Mean(c.sample.Drops())))
}

// amount returns a drop of the sample as a Difference.
func (c *contrast) amount(drop float64) float64 {
	switch {
	case !c.Measure.Relative():
		return finite(drop * c.sample.Scale)
	case drop == 0:
		return 0
	case *c.B == 0:
		return finite(math.Inf(int(math.Copysign(1, drop))))
	}
	// e^drop is the ratio of A and B, after free was added to each.
	return finite(max(-1, math.Expm1(drop*c.sample.Scale)*(1 + c.free / *c.B)))
}

// decide sets the outcome and the interval, by the adjusted p-value and the level that p was
// compared with.
func (c *contrast) decide(adjusted, level, confidence float64) {
	c.Adjusted = &adjusted
	if adjusted <= (1-confidence)*(1+1e-9) {
		c.Outcome = Higher
		if result.Mean(c.sample.Drops()) < 0 {
			c.Outcome = Lower
		}
	}
	bound := func(s paired.Sample, significant bool) float64 {
		if c.Measure.Relative() {
			low, _ := logInterval(s, level/2, significant)
			return low
		}
		low, _ := paired.Interval(s, level/2, significant)
		return low
	}
	low, high := bound(c.sample, c.Outcome == Higher), -bound(c.mirror, c.Outcome == Lower)
	c.Interval = &Interval{Low: c.amount(low), High: c.amount(high), Confidence: 1 - level}
}

// Versus compares the agent A with the agent B.
type Versus struct {
	A         string     `json:"a"`
	B         string     `json:"b"`
	Contrasts []Contrast `json:"contrasts"`
}

// ContrastAgents compares each of the agents of a job with each one after it; see Contrasts. Agents
// that the job does not have are left out.
func ContrastAgents(job result.Job, agents []string, confidence float64) []Versus {
	attempts := map[string][]result.TaskAttempts{}
	for _, t := range result.AttemptsOf(job) {
		attempts[t.Key.Agent] = append(attempts[t.Key.Agent], t)
	}
	var out []Versus
	var pairs [][]result.TaskDiff
	for i, a := range agents {
		for _, b := range agents[i+1:] {
			if attempts[a] == nil || attempts[b] == nil {
				continue
			}
			at := map[[2]string]*result.Attempts{}
			for j, t := range attempts[b] {
				at[[2]string{t.Key.Dataset, t.Key.Task}] = &attempts[b][j].Attempts
			}
			var pair []result.TaskDiff
			for j, t := range attempts[a] {
				pair = append(pair, PairOf(t.Key.Dataset, t.Key.Task, &attempts[a][j].Attempts, at[[2]string{t.Key.Dataset, t.Key.Task}]))
			}
			out, pairs = append(out, Versus{A: a, B: b}), append(pairs, pair)
		}
	}
	for i, contrasts := range Contrasts(pairs, confidence) {
		out[i].Contrasts = contrasts
	}
	return out
}

// PairOf returns an element of a pair for Contrasts: the attempts of two agents at a task, nil if
// one has none. It is not Comparable if they have other files of the task. It is TakenOver if a
// trial of both is one that a job took over from the other one, or both from a third.
func PairOf(dataset, task string, a, b *result.Attempts) result.TaskDiff {
	t := result.TaskDiff{Dataset: dataset, Task: task, Base: a, Head: b}
	if a != nil && b != nil && a.Digest() != "" && b.Digest() != "" && a.Digest() != b.Digest() {
		t.Change = result.Changed
	}
	t.TakenOver = a != nil && b != nil && shareTrial(a, b)
	return t
}

// shareTrial reports whether a trial of both sides is the same, which one of their jobs took over.
func shareTrial(a, b *result.Attempts) bool {
	if !anyReused(a) && !anyReused(b) {
		return false
	}
	type began struct {
		result.Key
		at time.Time
	}
	reused := map[began]bool{}
	for o := range a.Scored() {
		if !o.StartedAt.IsZero() {
			trial := began{o.Key, o.StartedAt.UTC()}
			reused[trial] = reused[trial] || o.Reused
		}
	}
	for o := range b.Scored() {
		if was, ok := reused[began{o.Key, o.StartedAt.UTC()}]; ok && (was || o.Reused) {
			return true
		}
	}
	return false
}

func anyReused(a *result.Attempts) bool {
	for o := range a.Scored() {
		if o.Reused {
			return true
		}
	}
	return false
}

// UnknownCell stands for what is unknown in Contrast.Cells.
const UnknownCell = "–"

// Cells returns what a table shows of a contrast: the measure, the levels of A and B, the
// difference, its interval, how often chance makes such a difference, and what follows. UnknownCell
// stands for what is unknown.
func (c Contrast) Cells() []string {
	const unknown = UnknownCell
	name, level := string(c.Measure), number
	switch c.Measure {
	case MeasurePassRate:
		name, level = passRates.name, passRates.level
	case MeasureReward:
		name = meanRewards.name
	case MeasureCost:
		name, level = "cost of a typical trial", amount
	case MeasureTurns:
		name = "turns of a typical trial"
	case MeasureTime:
		name, level = "time of a typical trial", func(v float64) string { return seconds(v) + " s" }
	}
	if c.Outcome == Unknown {
		return []string{name, unknown, unknown, unknown, unknown, unknown, c.unknownText()}
	}
	difference, unit := change, ""
	switch c.Measure {
	case MeasurePassRate:
		difference, unit = passRates.amount, passRates.unit
	case MeasureReward:
		difference = meanRewards.amount
	}
	text := map[Direction]string{Higher: "higher", Lower: "lower", Chance: "may be chance"}[c.Outcome]
	if c.Outcome == Chance && *c.Difference == 0 {
		text = "no difference seen" // not "equal": the interval says how large it may be
	}
	if missing := c.Missing[0] + c.Missing[1]; missing > 0 {
		text += fmt.Sprintf(", without %s whose value is not known", plural.Count(missing, "trial"))
	}
	confidence := min(math.Round(c.Interval.Confidence*1000)/1000, 0.999) // none is certain
	return []string{
		name, level(*c.A), level(*c.B), difference(*c.Difference) + unit,
		difference(c.Interval.Low) + " to " + difference(c.Interval.High) + unit + " (" + share(confidence) + ")", formatP(*c.Adjusted), text,
	}
}

// unknownText returns why a contrast has no numbers.
func (c Contrast) unknownText() string {
	if missing := c.Missing[0] + c.Missing[1]; missing > 0 {
		return fmt.Sprintf("the values of %s are not known", plural.Count(missing, "trial"))
	}
	return "no task has values of both"
}

// CellNames are the names of the columns of Contrast.Cells; those of A and B are their names.
func (v Versus) CellNames() []string {
	return []string{"", v.A, v.B, "DIFFERENCE", "INTERVAL", "CHANCE", "RESULT"}
}

// Sentence says what the rows of a table of contrasts are about.
func (v Versus) Sentence(confidence float64) string {
	tasks, corrected := 0, ""
	for _, c := range v.Contrasts {
		tasks = max(tasks, c.Tasks)
		if c.P != nil && *c.P != *c.Adjusted {
			corrected = ", corrected for the number of pairs"
		}
	}
	return fmt.Sprintf("%s, paired. CHANCE: how often two equal agents differ as much, in either direction%s; at most %s is more than chance.",
		plural.Count(tasks, "task"), corrected, share(1-confidence))
}
