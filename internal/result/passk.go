package result

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// PassK is what k attempts at a task come to, as the mean over tasks (of each agent), each of which counts once. It
// is worked out without chance from all n attempts that there are, c of which passed (a reward of exactly 1).
//
// The plain forms know completed attempts only, as pass_rate does: n is how many of a task's attempts have a reward, and
// tasks with fewer than k of them are left out; Tasks is how many are not. The *All forms are over every planned attempt,
// where one without a reward did not pass; no task is left out, but those that were planned with fewer than k attempts.
// Source: M. Chen et al., Evaluating Large Language Models Trained on Code, 2021, equation 1 (pass@k); S. Yao et al.,
// τ-bench, 2024 (pass^k).
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

// EveryK is up to where pass@k is worked out for every k. Beyond it only powers of two and the largest k are, because a job
// may have 100,000 attempts.
const EveryK = 100

// TellingK are the few of them that people are shown: k of 1, 5, 10 and 100, and the largest that there is something to say of.
func TellingK(all []PassK) []PassK {
	all = slices.DeleteFunc(slices.Clone(all), func(p PassK) bool { return p.Tasks == 0 })
	if len(all) == 0 {
		return nil
	}
	most := all[len(all)-1].K
	return slices.DeleteFunc(all, func(p PassK) bool { return !slices.Contains([]int{1, 5, 10, 100, most}, p.K) })
}

// PassAt is the unbiased estimate of pass@k from n attempts of which c passed: the share of all choices of k attempts with one
// that passed. 0 < k ≤ n and 0 ≤ c ≤ n.
func PassAt(n, c, k int) float64 { return 1 - drawn(n, n-c, k) }

// PassHat is the unbiased estimate of pass^k from n attempts of which c passed: the share of all choices of k attempts that
// all passed. 0 < k ≤ n and 0 ≤ c ≤ n.
func PassHat(n, c, k int) float64 { return drawn(n, c, k) }

// drawn is C(m,k)/C(n,k), the chance that k of n that are drawn without putting back are all of certain m. It is a product of
// numbers up to 1: factorials of a hundred attempts would not fit.
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

// goes counts one agent's attempts at one task.
type goes struct {
	key                        Key // Attempt is 0
	planned, completed, passed int
}

// goesOf counts the attempts at each task, sorted by agent, dataset and task. It is empty where no task has a second
// attempt: then there is nothing to say beyond the pass rate.
func goesOf(keys []Key, byKey map[Key]*Trial) []goes {
	if !slices.ContainsFunc(keys, func(k Key) bool { return k.Attempt > 1 }) {
		return nil
	}
	index := map[Key]int{}
	var all []goes
	for _, key := range keys {
		t := byKey[key]
		key.Attempt = 0
		i, ok := index[key]
		if !ok {
			i = len(all)
			index[key] = i
			all = append(all, goes{key: key})
		}
		all[i].planned++
		if t != nil && t.Completed() {
			all[i].completed++
		}
		if t != nil && t.Passed() {
			all[i].passed++
		}
	}
	slices.SortFunc(all, func(a, b goes) int { return a.key.Compare(b.key) })
	return all
}

// within is the part of sorted counts that is one agent's, on one dataset if that is not nil.
func within(all []goes, agent string, dataset *string) []goes {
	order := func(t goes, k Key) int {
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

// passK is every k that the attempts of some task allow; nothing where no task has two.
func passK(all []goes) []PassK {
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

// ksUpTo is every k up to EveryK, then powers of two, and the most.
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

// Advantage is how much better or worse an attempt did than the others of its group: the same agent's attempts at the same
// task. Source: Z. Shao et al., DeepSeekMath, 2024 (GRPO).
type Advantage struct {
	Plain float64 // the reward minus the group's mean
	// Normalized is Plain divided by the group's standard deviation (of the group itself: the sum of squares is divided by
	// n), and 0 where all rewards are equal.
	Normalized float64
}

// Advantages are those of a whole group, in the order of its rewards, which are finite.
func Advantages(rewards []float64) []Advantage {
	out := make([]Advantage, len(rewards))
	if len(rewards) == 0 {
		return out
	}
	scale := largest(rewards) // huge rewards have squares that are not finite
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
