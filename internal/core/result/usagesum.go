package result

import (
	"math"
	"slices"
)

// UsageSum sums up the usage of trials whose agents had a gateway. A sum is null if the number is
// known for no trial. It is a lower bound if it is unknown for some; Partial then has its name.
type UsageSum struct {
	Trials int `json:"trials"` // that have a usage
	// SelfReported counts those of Trials whose usage was reported by the agents themselves
	// (Usage.ReportedBy).
	SelfReported int   `json:"self_reported,omitempty"`
	Turns        int64 `json:"turns"`
	Calls        int64 `json:"calls"`
	Failed       int64 `json:"failed_calls"`
	Refused      int64 `json:"refused_calls"`

	InputTokens      *int64 `json:"input_tokens"`
	CachedTokens     *int64 `json:"cached_tokens"`
	CacheWriteTokens *int64 `json:"cache_write_tokens"`
	OutputTokens     *int64 `json:"output_tokens"`
	ReasoningTokens  *int64 `json:"reasoning_tokens"`

	Cost       USD     `json:"cost"`        // of the models, in US dollars; a lower bound if Partial has its name
	ModelSec   float64 `json:"model_sec"`   // at least one call of a trial was with the provider
	WaitingSec float64 `json:"waiting_sec"` // for rate limits and free places

	Models  []string `json:"models"`            // that were requested, sorted
	Partial []string `json:"partial,omitempty"` // names of the sums that leave out some trials or calls: "cost", "input_tokens", …
}

// IsPartial reports whether a sum is a lower bound.
func (u *UsageSum) IsPartial(name string) bool { return slices.Contains(u.Partial, name) }

// usageTally adds up usages. The zero usageTally is ready to use.
type usageTally struct {
	total   UsageSum
	tokens  [5]tokenTally
	unknown bool // the cost of a trial, or of a part of its calls
}

// tokenTally sums up one kind of tokens.
type tokenTally struct {
	sum            int64
	known, unknown bool
}

func (t *tokenTally) add(n *int64) {
	if n == nil || *n < 0 {
		t.unknown = true
		return
	}
	t.known = true
	t.sum = plus(t.sum, *n)
}

// plus adds two counts. Files may contain anything, so the sum stays the largest number instead of
// overflowing.
func plus(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// tokens returns the counts of tokens in the order of tokenNames.
func (u *Usage) tokens() [5]*int64 {
	return [5]*int64{u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens}
}

// tokenNames are the names of the sums of tokens in files.
var tokenNames = [5]string{"input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"}

// add adds the usage of a trial of this job. Results that were reused or only verified again used
// nothing.
func (t *usageTally) add(trial Trial) {
	u := trial.Usage
	if u == nil || trial.Reused != nil || trial.Reverified != nil {
		return
	}
	s := &t.total
	s.Trials++
	if u.ReportedBy != "" {
		s.SelfReported++
	}
	s.Turns, s.Calls = plus(s.Turns, u.Turns), plus(s.Calls, u.Calls)
	s.Failed, s.Refused = plus(s.Failed, u.Failed), plus(s.Refused, u.Refused)
	s.ModelSec, s.WaitingSec = finite(s.ModelSec+u.ModelSec), finite(s.WaitingSec+u.WaitingSec)
	for i, n := range u.tokens() {
		t.tokens[i].add(n)
		t.tokens[i].unknown = t.tokens[i].unknown || u.Estimated > 0
	}
	if _, ok := outcomeUsage(trial).Cost.Reported(); !ok {
		t.unknown = true
		s.Cost = s.Cost.Plus(trial.Costs.Model)
	} else {
		s.Cost = s.Cost.Plus(Dollars(trial.Costs.Model.Amount()))
	}
	if u.Requested != "" && !slices.Contains(s.Models, u.Requested) && len(s.Models) < maxModels {
		s.Models = append(s.Models, u.Requested)
	}
}

// maxModels bounds the number of model names that are listed.
const maxModels = 100

// sum returns the sum of the added usages, or nil if there are none.
func (t *usageTally) sum() *UsageSum {
	if t.total.Trials == 0 {
		return nil
	}
	s := t.total
	s.Models = slices.Sorted(slices.Values(s.Models))
	s.Partial = nil
	for i, to := range []**int64{&s.InputTokens, &s.CachedTokens, &s.CacheWriteTokens, &s.OutputTokens, &s.ReasoningTokens} {
		if n := t.tokens[i]; n.known {
			*to = new(n.sum)
			if n.unknown {
				s.Partial = append(s.Partial, tokenNames[i])
			}
		}
	}
	if _, ok := s.Cost.Reported(); ok && t.unknown {
		s.Partial = append(s.Partial, "cost")
	}
	if s.SelfReported > 0 {
		s.Partial = append(s.Partial, "model_sec")
	}
	return &s
}

// OutcomeUsage is the part of a trial's usage that a comparison of jobs needs.
type OutcomeUsage struct {
	Model string `json:"requested_model"`
	// Answered are the names that answers stated, in the order of the first ones; nil if that is
	// Model alone, or if none is known.
	Answered     []string `json:"answered_models,omitempty"`
	Turns        int64    `json:"turns"`
	InputTokens  *int64   `json:"input_tokens"`
	OutputTokens *int64   `json:"output_tokens"`
	ModelSec     float64  `json:"model_sec"`
	Cost         USD      `json:"cost"` // of the model; null unless the cost of every call is known
	SelfReported bool     `json:"self_reported,omitempty"`
}

// outcomeUsage returns the usage of a trial for its outcome; nil without one.
func outcomeUsage(t Trial) *OutcomeUsage {
	u := t.Usage
	if u == nil {
		return nil
	}
	o := &OutcomeUsage{Model: u.Requested, Turns: u.Turns, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ModelSec: u.ModelSec, SelfReported: u.ReportedBy != ""}
	if len(u.Answered) != 1 || u.Answered[0] != u.Requested {
		o.Answered = u.Answered
	}
	if _, ok := t.Costs.Model.Reported(); u.Unpriced == 0 && u.Estimated == 0 && (ok || u.Turns == 0 && !o.SelfReported) { // a trial without a turn at the gateway cost nothing
		o.Cost = Dollars(t.Costs.Model.Amount())
	}
	return o
}

// KnownCost returns the cost of the trial; null if none was reported or if the cost of a call of
// its model is not known.
func (o Outcome) KnownCost() USD {
	if o.Usage == nil {
		return o.Cost
	}
	if _, ok := o.Usage.Cost.Reported(); !ok {
		return USD{}
	}
	return Dollars(o.Cost.Amount())
}

// UsageDiff compares the model usage of agents on comparable tasks. Each number is a mean over
// tasks of the mean over a task's scored trials, in US dollars, seconds or counts per trial. It is
// over those tasks for which both sides know it, and null on both sides if there are none.
type UsageDiff struct {
	Base UsageMeans `json:"base"`
	Head UsageMeans `json:"head"`
}

// UsageMeans holds the mean usage of one side.
type UsageMeans struct {
	Turns        *float64 `json:"turns"`
	InputTokens  *float64 `json:"input_tokens"`
	OutputTokens *float64 `json:"output_tokens"`
	ModelSec     *float64 `json:"model_sec"`
	Cost         USD      `json:"cost"`                    // of whole trials, as KnownCost
	Trials       int      `json:"trials"`                  // scored ones at comparable tasks
	UnknownCosts int      `json:"unknown_costs"`           // those of Trials whose cost is not known
	WithoutUsage int      `json:"without_usage"`           // those of Trials whose agents had no gateway
	SelfReported int      `json:"self_reported,omitempty"` // those of Trials whose usage was reported by the agents themselves
	Models       []string `json:"models"`                  // that were requested, sorted
}

// OtherModels reports whether the two sides are known to have used different models.
func (d UsageDiff) OtherModels() bool {
	return len(d.Base.Models) > 0 && len(d.Head.Models) > 0 && !slices.Equal(d.Base.Models, d.Head.Models)
}

// CostsComparable reports whether the costs of the two sides are of the same trials: it is false if
// agents have models and the cost of a trial is not known.
func (g GroupDiff) CostsComparable() bool {
	return g.Usage == nil || g.Usage.Base.UnknownCosts == 0 && g.Usage.Head.UnknownCosts == 0
}

// usageDiff compares tasks; base and head have the same ones. It returns nil if no trial has a
// usage.
func usageDiff(base, head []*Attempts) *UsageDiff {
	d := UsageDiff{Base: countUsages(base), Head: countUsages(head)}
	if d.Base.Trials == d.Base.WithoutUsage && d.Head.Trials == d.Head.WithoutUsage {
		return nil
	}
	both := func(of func(*Outcome) (float64, bool)) (b, h *float64) {
		var before, after []float64
		for i := range base {
			x, okX := meanOf(base[i], of)
			y, okY := meanOf(head[i], of)
			if okX && okY {
				before, after = append(before, x), append(after, y)
			}
		}
		if len(before) == 0 {
			return nil, nil
		}
		return new(Mean(before)), new(Mean(after))
	}
	used := func(of func(*OutcomeUsage) (float64, bool)) func(*Outcome) (float64, bool) {
		return func(o *Outcome) (float64, bool) {
			if o.Usage == nil {
				return 0, false
			}
			return of(o.Usage)
		}
	}
	tokens := func(n *int64) (float64, bool) {
		if n == nil {
			return 0, false
		}
		return float64(*n), true
	}
	d.Base.Turns, d.Head.Turns = both(used(func(u *OutcomeUsage) (float64, bool) { return float64(u.Turns), true }))
	d.Base.InputTokens, d.Head.InputTokens = both(used(func(u *OutcomeUsage) (float64, bool) { return tokens(u.InputTokens) }))
	d.Base.OutputTokens, d.Head.OutputTokens = both(used(func(u *OutcomeUsage) (float64, bool) { return tokens(u.OutputTokens) }))
	d.Base.ModelSec, d.Head.ModelSec = both(used(func(u *OutcomeUsage) (float64, bool) { return u.ModelSec, !u.SelfReported }))
	if b, h := both(func(o *Outcome) (float64, bool) { return o.KnownCost().Reported() }); b != nil {
		d.Base.Cost, d.Head.Cost = Dollars(*b).Finite(), Dollars(*h).Finite()
	}
	return &d
}

// UsageOf returns the means of tasks that have scores, as in UsageDiff but of one side: each number
// is over the tasks for which it is known. It returns nil if no trial has a usage.
func UsageOf(tasks []*Attempts) *UsageMeans {
	d := usageDiff(tasks, tasks)
	if d == nil {
		return nil
	}
	return &d.Head
}

// countUsages returns the counts and the models of one side.
func countUsages(tasks []*Attempts) UsageMeans {
	m := UsageMeans{Models: []string{}}
	for _, t := range tasks {
		for o := range t.Scored() {
			m.Trials++
			if _, ok := o.KnownCost().Reported(); !ok {
				m.UnknownCosts++
			}
			if o.Usage != nil && o.Usage.SelfReported {
				m.SelfReported++
			}
			switch {
			case o.Usage == nil:
				m.WithoutUsage++
			case o.Usage.Model != "" && !slices.Contains(m.Models, o.Usage.Model) && len(m.Models) < maxModels:
				m.Models = append(m.Models, o.Usage.Model)
			}
		}
	}
	slices.Sort(m.Models)
	return m
}

// meanOf returns the mean of the numbers of scored attempts that are known; ok is false if none is.
func meanOf(a *Attempts, of func(*Outcome) (float64, bool)) (mean float64, ok bool) {
	var few [fewAttempts]float64
	values := few[:0]
	for o := range a.Scored() {
		if v, ok := of(&o); ok {
			values = append(values, v)
		}
	}
	return Mean(values), len(values) > 0
}
