package result_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// used returns a completed trial whose agent had a gateway. Without a cost, that of its calls is
// not known.
func used(agent, task string, attempt int, u result.Usage, cost result.USD) result.Trial {
	if u.Requested == "" {
		u.Requested = "small"
	}
	if _, ok := cost.Reported(); !ok {
		u.Unpriced = max(u.Unpriced, u.Calls)
	}
	costs := result.Costs{Model: cost}
	return result.Trial{
		Key: result.Key{Agent: agent, Dataset: "d", Task: task, Attempt: attempt}, Reward: new(1.0),
		Usage: &u, Costs: costs, Cost: costs.Total(), TaskDigest: "sha256:1",
	}
}

func planOf(trials ...result.Trial) result.Plan {
	var p result.Plan
	for _, t := range trials {
		if !t.Confirmation {
			p.Trials.Append(t.Key)
		}
	}
	return p
}

func TestSumsOfUsage(t *testing.T) {
	known := result.Usage{
		Turns: 3, Calls: 4, Failed: 1, Refused: 2, InputTokens: new(int64(100)), CachedTokens: new(int64(40)), CacheWriteTokens: new(int64(5)),
		OutputTokens: new(int64(20)), ReasoningTokens: new(int64(7)), ModelSec: 1.5, WaitingSec: 0.5,
	}
	half := result.Usage{Turns: 1, Calls: 1, InputTokens: new(int64(10)), ModelSec: 1}
	confirmation := used("a", "t1", 3, known, result.Dollars(0.25))
	confirmation.Confirmation = true
	reused := used("a", "t2", 1, known, result.Dollars(7))
	reused.Reused = &result.Reused{}
	trials := []result.Trial{
		used("a", "t1", 1, known, result.Dollars(0.5)),
		used("a", "t1", 2, half, result.USD{}),
		reused,
		used("b", "t1", 1, result.Usage{Turns: 1, Calls: 1, Requested: "large"}, result.USD{}),
		used("c", "t1", 1, result.Usage{}, result.USD{}), // it made no call
		{Key: result.Key{Agent: "d", Dataset: "d", Task: "t1", Attempt: 1}, Reward: new(1.0)},
		confirmation,
	}
	job := result.Summarize(planOf(trials...), trials)

	a := *job.Agents["a"].Usage
	cost, _ := a.Cost.Reported()
	if a.Trials != 3 || a.Turns != 7 || a.Calls != 9 || a.Failed != 2 || a.Refused != 4 || a.ModelSec != 4 || a.WaitingSec != 1 || cost != 0.75 {
		t.Errorf("a: %+v", a)
	}
	if *a.InputTokens != 210 || *a.CachedTokens != 80 || *a.CacheWriteTokens != 10 || *a.OutputTokens != 40 || *a.ReasoningTokens != 14 {
		t.Errorf("a: tokens of %+v", a)
	}
	if want := []string{"cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost"}; !slices.Equal(a.Partial, want) {
		t.Errorf("a: partial sums %v, want %v", a.Partial, want)
	}
	b := *job.Agents["b"].Usage
	if _, ok := b.Cost.Reported(); ok || b.InputTokens != nil || b.Partial != nil || !slices.Equal(b.Models, []string{"large"}) {
		t.Errorf("b: what nobody knows must be null: %+v", b)
	}
	if cost, ok := job.Agents["c"].Usage.Cost.Reported(); !ok || cost != 0 {
		t.Errorf("c: no call costs nothing, got %v, %v", cost, ok)
	}
	if job.Agents["d"].Usage != nil {
		t.Errorf("d has no gateway: %+v", job.Agents["d"].Usage)
	}
	if job.Usage.Trials != 5 || job.Usage.Turns != 8 || !slices.Equal(job.Usage.Models, []string{"large", "small"}) {
		t.Errorf("job: %+v", job.Usage)
	}
}

func TestJobsWithoutGatewaysHaveNoUsage(t *testing.T) {
	trial := result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: new(1.0), Cost: result.Dollars(1)}
	job := result.Summarize(planOf(trial), []result.Trial{trial})
	for _, v := range []any{job, result.Compare(job, job)} {
		text, err := json.Marshal(v)
		if err != nil || strings.Contains(string(text), `"usage"`) {
			t.Errorf("%s, %v", text, err)
		}
	}
}

// TestHostileUsages: files may contain any numbers, and the sums must still be numbers of JSON.
func TestHostileUsages(t *testing.T) {
	bad := result.Usage{Turns: math.MaxInt64, Calls: -5, InputTokens: new(int64(math.MaxInt64)), OutputTokens: new(int64(-1)), ModelSec: math.MaxFloat64}
	trials := []result.Trial{used("a", "t1", 1, bad, result.Dollars(math.MaxFloat64)), used("a", "t2", 1, bad, result.Dollars(math.MaxFloat64))}
	job := result.Summarize(planOf(trials...), trials)
	u := job.Agents["a"].Usage
	if u.Turns != math.MaxInt64 || u.Calls != 0 || *u.InputTokens != math.MaxInt64 || u.OutputTokens != nil {
		t.Errorf("%+v", u)
	}
	if _, err := json.Marshal(result.Compare(job, job)); err != nil {
		t.Error(err)
	}
}

func TestUsagesAreComparedOnTheSameTasks(t *testing.T) {
	turns := func(n int64) result.Usage {
		return result.Usage{Turns: n, Calls: n, InputTokens: new(100 * n), OutputTokens: new(10 * n), ModelSec: float64(n)}
	}
	job := func(trials ...result.Trial) result.Job { return result.Summarize(planOf(trials...), trials) }
	base := job(
		used("a", "t1", 1, turns(2), result.Dollars(1)), used("a", "t1", 2, turns(4), result.Dollars(3)),
		used("a", "t2", 1, turns(10), result.Dollars(10)),
		used("a", "only in the baseline", 1, turns(1000), result.Dollars(1000)),
	)
	t.Run("means are per trial, and each task counts once", func(t *testing.T) {
		head := job(
			used("a", "t1", 1, turns(6), result.Dollars(2)),
			used("a", "t2", 1, turns(10), result.Dollars(4)),
			used("a", "new", 1, turns(1000), result.Dollars(1000)),
		)
		u := result.Compare(base, head).Agents[0].Usage
		if *u.Base.Turns != 6.5 || *u.Head.Turns != 8 || *u.Base.InputTokens != 650 || *u.Head.OutputTokens != 80 || u.Base.Cost != result.Dollars(6) || u.Head.Cost != result.Dollars(3) {
			t.Errorf("%+v", u)
		}
		if u.OtherModels() || u.Base.Trials != 3 || u.Head.Trials != 2 {
			t.Errorf("%+v", u)
		}
	})
	t.Run("what one side does not know is compared on the other tasks", func(t *testing.T) {
		head := job(used("a", "t1", 1, turns(6), result.Dollars(2)), used("a", "t2", 1, turns(10), result.USD{}))
		u := result.Compare(base, head).Agents[0].Usage
		if u.Base.Cost != result.Dollars(2) || u.Head.Cost != result.Dollars(2) || u.Head.UnknownCosts != 1 || *u.Head.Turns != 8 {
			t.Errorf("%+v", u)
		}
	})
	t.Run("costs that one side does not know at all are null on both", func(t *testing.T) {
		head := job(used("a", "t1", 1, turns(6), result.USD{}), used("a", "t2", 1, turns(10), result.USD{}))
		u := result.Compare(base, head).Agents[0].Usage
		if u.Base.Cost != (result.USD{}) || u.Head.Cost != (result.USD{}) || u.Head.UnknownCosts != 2 {
			t.Errorf("%+v", u)
		}
	})
	t.Run("a side without a gateway", func(t *testing.T) {
		plain := result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: "t1", Attempt: 1}, Reward: new(1.0), Cost: result.Dollars(5), TaskDigest: "sha256:1"}
		u := result.Compare(base, job(plain)).Agents[0].Usage
		if u.Head.Turns != nil || u.Base.Turns != nil || u.Head.WithoutUsage != 1 || u.Head.Cost != result.Dollars(5) {
			t.Errorf("%+v", u)
		}
	})
	t.Run("another model", func(t *testing.T) {
		other := turns(2)
		other.Requested = "large"
		if u := result.Compare(base, job(used("a", "t1", 1, other, result.Dollars(2)))).Agents[0].Usage; !u.OtherModels() {
			t.Errorf("%+v", u)
		}
	})
	t.Run("an unchanged file reads as it was written", func(t *testing.T) {
		text, err := json.Marshal(base)
		if err != nil {
			t.Fatal(err)
		}
		var again result.Job
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if u := result.Compare(again, base).Agents[0].Usage; *u.Base.Turns != *u.Head.Turns || u.Base.Cost != u.Head.Cost || !slices.Equal(u.Base.Models, u.Head.Models) {
			t.Errorf("%+v", u)
		}
	})
}
