package result

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// PassK holds the chances of k attempts at a task, as means over the tasks of each agent; each task
// counts once. They are computed exactly, without sampling, from all n attempts at a task, of which
// c passed (a reward of exactly 1).
//
// The plain forms are over completed attempts, as pass_rate is: n is the number of a task's
// attempts with a reward, and tasks with fewer than k are left out. Tasks is the number of the
// others. The *All forms are over every planned attempt, and one without a reward did not pass;
// only tasks with fewer than k planned attempts are left out.
// Source: M. Chen et al., Evaluating Large Language Models Trained on Code, 2021, equation 1
// (pass@k); S. Yao et al., τ-bench, 2024 (pass^k).
type PassK struct {
	K int `json:"k"`
	// PassAt is the chance that one of k attempts passes, pass@k: 1 − C(n−c,k)/C(n,k).
	PassAt float64 `json:"pass_at_k"`
	// PassHat is the chance that all of k attempts pass, pass^k: C(c,k)/C(n,k).
	PassHat    float64 `json:"pass_hat_k"`
	Tasks      int     `json:"tasks"`
	PassAtAll  float64 `json:"pass_at_k_all"`
	PassHatAll float64 `json:"pass_hat_k_all"`
}

// EveryK is the largest number up to which pass@k is computed for every k. Beyond it, it is
// computed for powers of two and the largest k, because a job may have 100,000 attempts.
const EveryK = 100

// ShownPassK returns the entries that reports show: those for k of 1, 5, 10 and 100, and for the
// largest k that a task has enough attempts for.
func ShownPassK(all []PassK) []PassK {
	all = slices.DeleteFunc(slices.Clone(all), func(p PassK) bool { return p.Tasks == 0 })
	if len(all) == 0 {
		return nil
	}
	most := all[len(all)-1].K
	return slices.DeleteFunc(all, func(p PassK) bool { return !slices.Contains([]int{1, 5, 10, 100, most}, p.K) })
}

// PassAt returns the unbiased estimate of pass@k from n attempts of which c passed: the share of
// all choices of k attempts with at least one that passed. 0 < k ≤ n and 0 ≤ c ≤ n.
func PassAt(n, c, k int) float64 { return 1 - drawn(n, n-c, k) }

// PassHat returns the unbiased estimate of pass^k from n attempts of which c passed: the share of
// all choices of k attempts that all passed. 0 < k ≤ n and 0 ≤ c ≤ n.
func PassHat(n, c, k int) float64 { return drawn(n, c, k) }

// drawn returns C(m,k)/C(n,k): the chance that k items, drawn from n without replacement, are all
// among m of them. It is computed as a product of numbers up to 1, because factorials of a hundred
// attempts would overflow.
func drawn(n, m, k int) float64 {
	if m < k {
		return 0
	}
	p := 1.0
	for i := range k {
		p *= float64(m-i) / float64(n-i)
	}
	return p
}

// attemptCounts counts one agent's attempts at one task.
type attemptCounts struct {
	key                        Key // Attempt is 0
	planned, completed, passed int
}

// attemptCounter counts the attempts at each task. The zero attemptCounter is ready to use.
type attemptCounter struct {
	index    map[Key]int
	all      []attemptCounts
	repeated bool // a task has a second attempt
}

// add counts a planned attempt; t is nil if it has no result.
func (c *attemptCounter) add(key Key, t *Trial) {
	c.repeated = c.repeated || key.Attempt > 1
	key.Attempt = 0
	last := len(c.all) - 1
	if last < 0 || c.all[last].key != key { // attempts at a task usually follow each other
		if c.index == nil {
			c.index = map[Key]int{}
		}
		known, ok := c.index[key]
		if last = known; !ok {
			last = len(c.all)
			c.index[key] = last
			c.all = append(c.all, attemptCounts{key: key})
		}
	}
	c.all[last].planned++
	if t != nil && t.Completed() {
		c.all[last].completed++
	}
	if t != nil && t.Passed() {
		c.all[last].passed++
	}
}

// sorted returns the counts by agent, dataset and task. It returns nil if no task has a second
// attempt, because pass@1 is the pass rate.
func (c *attemptCounter) sorted() []attemptCounts {
	if !c.repeated {
		return nil
	}
	slices.SortFunc(c.all, func(a, b attemptCounts) int { return a.key.Compare(b.key) })
	return c.all
}

// within returns the part of sorted counts that is one agent's, on one dataset if that is not nil.
func within(all []attemptCounts, agent string, dataset *string) []attemptCounts {
	order := func(t attemptCounts, k Key) int {
		c := cmp.Compare(t.key.Agent, k.Agent)
		if dataset != nil {
			c = cmp.Or(c, cmp.Compare(t.key.Dataset, k.Dataset))
		}
		return c
	}
	key := Key{Agent: agent}
	if dataset != nil {
		key.Dataset = *dataset
	}
	first, _ := slices.BinarySearchFunc(all, key, order)
	last := first
	for last < len(all) && order(all[last], key) == 0 {
		last++
	}
	return all[first:last]
}

// passK returns an entry for every k that the attempts of some task allow, or nil if no task has
// two.
func passK(all []attemptCounts) []PassK {
	most := 0
	for _, t := range all {
		most = max(most, t.planned)
	}
	if most < 2 {
		return nil
	}
	ks := ksUpTo(most)
	sums := make([]PassK, len(ks))
	planned := make([]int, len(ks))
	for _, t := range all {
		for i, k := range ks {
			if k <= t.completed {
				sums[i].Tasks++
				sums[i].PassAt += PassAt(t.completed, t.passed, k)
				sums[i].PassHat += PassHat(t.completed, t.passed, k)
			}
			if k <= t.planned {
				planned[i]++
				sums[i].PassAtAll += PassAt(t.planned, t.passed, k)
				sums[i].PassHatAll += PassHat(t.planned, t.passed, k)
			}
		}
	}
	var out []PassK
	for i, s := range sums {
		out = append(out, PassK{
			K: ks[i], Tasks: s.Tasks, PassAt: ratio(s.PassAt, s.Tasks), PassHat: ratio(s.PassHat, s.Tasks),
			PassAtAll: ratio(s.PassAtAll, planned[i]), PassHatAll: ratio(s.PassHatAll, planned[i]),
		})
	}
	return out
}

// ksUpTo returns every k up to EveryK, then powers of two, and most.
func ksUpTo(most int) []int {
	var ks []int
	for k := 1; k < most; k++ {
		if k > EveryK {
			k = 1 << bits.Len(uint(k-1)) // the next power of two, or k if it is one
		}
		if k < most {
			ks = append(ks, k)
		}
	}
	return append(ks, most)
}

// Advantage measures how much better or worse an attempt was than its group: the same agent's
// attempts at the same task. Source: Z. Shao et al., DeepSeekMath, 2024 (GRPO).
type Advantage struct {
	Plain float64 // the reward minus the group's mean
	// Normalized is Plain divided by the group's standard deviation (of the population: the sum of
	// squares is divided by n), or 0 if all rewards are equal.
	Normalized float64
}

// Advantages returns the advantages of a whole group, in the order of its rewards, which must be
// finite.
func Advantages(rewards []float64) []Advantage {
	out := make([]Advantage, len(rewards))
	if len(rewards) == 0 {
		return out
	}
	scale := largest(rewards) // squares of huge rewards are not finite
	if scale == 0 || equal(rewards) {
		return out
	}
	mean, squares := 0.0, 0.0
	for _, r := range rewards {
		mean += r / scale / float64(len(rewards))
	}
	for _, r := range rewards {
		d := r/scale - mean
		squares += d * d / float64(len(rewards))
	}
	deviation := math.Sqrt(squares)
	for i, r := range rewards {
		d := r/scale - mean
		out[i].Plain = finite(d * scale)
		if deviation > 0 {
			out[i].Normalized = d / deviation
		}
	}
	return out
}

func equal(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] })
}
