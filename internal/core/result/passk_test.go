package result

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
)

// TestPassKIsTheShareOfAllChoices compares with a count of all choices of k attempts.
func TestPassKIsTheShareOfAllChoices(t *testing.T) {
	for n := 1; n <= 10; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				choices, one, all := 0, 0, 0
				for set := range uint(1) << n {
					if bits.OnesCount(set) != k {
						continue
					}
					choices++
					passed := bits.OnesCount(set & (1<<c - 1)) // the first c attempts pass
					if passed > 0 {
						one++
					}
					if passed == k {
						all++
					}
				}
				if got, want := PassAt(n, c, k), float64(one)/float64(choices); math.Abs(got-want) > 1e-12 {
					t.Errorf("pass@%d of %d/%d is %g, want %g", k, c, n, got, want)
				}
				if got, want := PassHat(n, c, k), float64(all)/float64(choices); math.Abs(got-want) > 1e-12 {
					t.Errorf("pass^%d of %d/%d is %g, want %g", k, c, n, got, want)
				}
			}
		}
	}
}

func TestPassKStaysFiniteForManyAttempts(t *testing.T) {
	const n = 100_000
	for _, c := range []int{0, 1, n / 2, n - 1, n} {
		for _, k := range []int{1, 100, n / 2, n} {
			at, hat := PassAt(n, c, k), PassHat(n, c, k)
			if !(at >= 0 && at <= 1 && hat >= 0 && hat <= 1) {
				t.Errorf("n=%d c=%d k=%d: %g and %g", n, c, k, at, hat)
			}
		}
	}
	// If one of n passes, it is among any k of them with the chance k/n.
	if got := PassAt(n, 1, 100); math.Abs(got-0.001) > 1e-9 {
		t.Errorf("pass@100 of 1/%d is %g, want 0.001", n, got)
	}
	// The example of HumanEval's evaluation: estimate_pass_at_k(200, 20, 10) is 1 -
	// C(180,10)/C(200,10).
	if got := PassAt(200, 20, 10); math.Abs(got-0.6602) > 5e-5 {
		t.Errorf("pass@10 of 20/200 is %g", got)
	}
}

// passJob returns a plan and trials of one agent. tasks has for each task the rewards of its
// attempts; NaN is an error.
func passJob(tasks ...[]float64) (Plan, []Trial) {
	plan := Plan{JobName: "j"}
	var trials []Trial
	for i, rewards := range tasks {
		for n, r := range rewards {
			key := Key{Agent: "a", Dataset: "d", Task: fmt.Sprint("t", i), Attempt: n + 1}
			plan.Trials.Append(key)
			trial := Trial{Key: key, Reward: &r}
			if math.IsNaN(r) {
				trial.Reward, trial.Error = nil, &Error{Type: EnvironmentLost}
			}
			trials = append(trials, trial)
		}
	}
	return plan, trials
}

func TestPassKOfAJob(t *testing.T) {
	failed := math.NaN()
	plan, trials := passJob([]float64{1, 0, 1}, []float64{0, 0.5, failed}, []float64{1, 1, 1})
	job := Summarize(plan, trials)
	want := []PassK{
		{K: 1, Tasks: 3, PassAt: (2.0/3 + 0 + 1) / 3, PassHat: (2.0/3 + 0 + 1) / 3, PassAtAll: (2.0/3 + 0 + 1) / 3, PassHatAll: (2.0/3 + 0 + 1) / 3},
		{K: 2, Tasks: 3, PassAt: 2.0 / 3, PassHat: (1.0/3 + 0 + 1) / 3, PassAtAll: 2.0 / 3, PassHatAll: (1.0/3 + 0 + 1) / 3},
		{K: 3, Tasks: 2, PassAt: 1, PassHat: 0.5, PassAtAll: 2.0 / 3, PassHatAll: 1.0 / 3}, // the second task has two rewards
	}
	check := func(where string, got []PassK) {
		t.Helper()
		close := func(a, b PassK) bool {
			near := func(x, y float64) bool { return math.Abs(x-y) < 1e-12 }
			return a.K == b.K && a.Tasks == b.Tasks && near(a.PassAt, b.PassAt) && near(a.PassHat, b.PassHat) &&
				near(a.PassAtAll, b.PassAtAll) && near(a.PassHatAll, b.PassHatAll)
		}
		if !slices.EqualFunc(got, want, close) {
			t.Errorf("%s: got %+v, want %+v", where, got, want)
		}
	}
	check("all", job.PassK)
	check("agent", job.Agents["a"].PassK)
	check("group", Groups(plan, trials)[0].PassK)
}

func TestPassKIsPerAgentAndDataset(t *testing.T) {
	var plan Plan
	var trials []Trial
	for _, g := range []struct {
		agent, dataset string
		rewards        []float64
	}{{"a", "x", []float64{1, 1}}, {"a", "y", []float64{0, 1}}, {"b", "x", []float64{0, 0}}} {
		for n, r := range g.rewards {
			key := Key{Agent: g.agent, Dataset: g.dataset, Task: "t", Attempt: n + 1}
			plan.Trials.Append(key)
			trials = append(trials, Trial{Key: key, Reward: &r})
		}
	}
	job := Summarize(plan, trials)
	at2 := func(s Summary) float64 { return s.PassK[1].PassAt }
	if at2(job.Agents["a"]) != 1 || at2(job.Agents["b"]) != 0 || math.Abs(at2(job.Summary)-2.0/3) > 1e-12 {
		t.Errorf("agents: %+v", job.Agents)
	}
	hat := map[string]float64{}
	for _, g := range Groups(plan, trials) {
		hat[g.Agent+g.Dataset] = g.PassK[1].PassHat
	}
	if hat["ax"] != 1 || hat["ay"] != 0 || hat["bx"] != 0 || len(hat) != 3 {
		t.Errorf("groups: %v", hat)
	}
}

func TestOneAttemptHasNoPassK(t *testing.T) {
	plan, trials := passJob([]float64{1}, []float64{0})
	if job := Summarize(plan, trials); job.PassK != nil || job.Agents["a"].PassK != nil {
		t.Errorf("got %+v", job.PassK)
	}
}

func TestKsAreBounded(t *testing.T) {
	for most, want := range map[int][]int{2: {1, 2}, 5: {1, 2, 3, 4, 5}} {
		if got := ksUpTo(most); !slices.Equal(got, want) {
			t.Errorf("up to %d: %v", most, got)
		}
	}
	got := ksUpTo(1000)
	if tail := got[EveryK-2:]; !slices.Equal(tail, []int{99, 100, 128, 256, 512, 1000}) {
		t.Errorf("up to 1000 it ends with %v", tail)
	}
	if n := len(ksUpTo(100_000)); n > 120 {
		t.Errorf("%d values of k for 100,000 attempts", n)
	}
}

func TestAdvantages(t *testing.T) {
	for _, c := range []struct {
		name    string
		rewards []float64
		want    []Advantage
	}{
		{"one passes", []float64{1, 0, 0, 0}, []Advantage{{0.75, math.Sqrt(3)}, {-0.25, -1 / math.Sqrt(3)}, {-0.25, -1 / math.Sqrt(3)}, {-0.25, -1 / math.Sqrt(3)}}},
		{"all equal", []float64{0.1, 0.1, 0.1}, make([]Advantage, 3)},
		{"one alone", []float64{5}, make([]Advantage, 1)},
		{"none", nil, nil},
		{"huge", []float64{math.MaxFloat64, -math.MaxFloat64}, []Advantage{{math.MaxFloat64, 1}, {-math.MaxFloat64, -1}}},
		{"tiny", []float64{3e-300, 1e-300}, []Advantage{{1e-300, 1}, {-1e-300, -1}}},
	} {
		got := Advantages(c.rewards)
		if len(got) != len(c.want) {
			t.Fatalf("%s: got %v", c.name, got)
		}
		for i := range got {
			if !near(got[i].Plain, c.want[i].Plain) || !near(got[i].Normalized, c.want[i].Normalized) {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
		}
	}
}

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b))
}

func TestShownPassK(t *testing.T) {
	for most, want := range map[int][]int{2: {1, 2}, 5: {1, 5}, 8: {1, 5, 8}, 300: {1, 5, 10, 100, 300}} {
		var all []PassK
		for _, k := range append(ksUpTo(most), most+1) {
			all = append(all, PassK{K: k, Tasks: max(0, most+1-k)})
		}
		var got []int
		for _, p := range ShownPassK(all) {
			got = append(got, p.K)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d: %v, want %v", most, got, want)
		}
	}
}
