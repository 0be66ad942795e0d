package result

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/org/rollout-action/internal/lib/packing"
)

// USD is an amount of US dollars that may be unknown. The zero USD means that no amount was
// reported, and is null in files. It differs from a reported 0.
type USD struct { //nolint:recvcheck // Unpack sets it, as UnmarshalJSON does
	amount   float64
	reported bool
	bound    bool // a part is not known
}

// Dollars returns a reported amount.
func Dollars(amount float64) USD { return USD{amount: amount, reported: true} }

// Reported returns the amount. ok is false and the amount 0 if none was reported.
func (u USD) Reported() (amount float64, ok bool) { return u.amount, u.reported }

// LowerBound returns the amount marked as a lower bound. Sums with it are lower bounds, too, even
// if it is null. JSON has the number alone, so files have a separate field for the mark.
func (u USD) LowerBound() USD { return u.boundIf(true) }

func (u USD) boundIf(partial bool) USD {
	u.bound = u.bound || partial
	return u
}

// AtLeast reports whether the amount is reported and a lower bound.
func (u USD) AtLeast() bool { return u.reported && u.bound }

// Amount returns the amount, or 0 if none was reported.
func (u USD) Amount() float64 { return u.amount }

// Plus returns the sum of the reported amounts, or null if neither was reported. It is finite, so
// that JSON can represent it.
func (u USD) Plus(v USD) USD {
	return USD{amount: u.amount + v.amount, reported: u.reported || v.reported, bound: u.bound || v.bound}.Finite()
}

// Minus returns the difference of two reported amounts, or null if one of them is null.
func (u USD) Minus(v USD) USD {
	if !u.reported || !v.reported {
		return USD{}
	}
	return USD{amount: u.amount - v.amount, reported: true, bound: u.bound || v.bound}
}

// without returns the amount minus a part of it; null if nothing is left.
func (u USD) without(part USD) USD {
	if !u.reported || !part.reported {
		return u
	}
	if rest := u.amount - part.amount; rest > 0 {
		return USD{amount: rest, reported: true, bound: u.bound}
	}
	return USD{bound: u.bound}
}

// Finite returns the amount, or the nearest one that JSON can represent. NaN counts as not
// reported.
func (u USD) Finite() USD {
	if math.IsNaN(u.amount) {
		return USD{bound: u.bound}
	}
	u.amount = finite(u.amount)
	return u
}

// MarshalJSON encodes a number or null.
func (u USD) MarshalJSON() ([]byte, error) {
	if !u.reported {
		return []byte("null"), nil
	}
	return json.Marshal(u.amount)
}

// UnmarshalJSON decodes a number or null.
func (u *USD) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*u = USD{}
		return nil
	}
	if n, err := strconv.ParseFloat(string(data), 64); err == nil { // a result has several of them, and json.Unmarshal takes longer
		*u = Dollars(n)
		return nil
	}
	var amount *float64
	if err := json.Unmarshal(data, &amount); err != nil {
		return fmt.Errorf("an amount of US dollars: %w", err)
	}
	*u = USD{}
	if amount != nil {
		*u = Dollars(*amount)
	}
	return nil
}

// isOldUnknown reports whether these are unknown costs in a file of an earlier version, which wrote
// 0 for all parts. Since then at least one part is null if the others are 0, because no provider
// reports that an environment was free.
func (c Costs) isOldUnknown() bool { return c == Costs{Dollars(0), Dollars(0), Dollars(0)} }

// unlessZero returns the amount, or null instead of 0.
func unlessZero(u USD) USD {
	if u.amount == 0 {
		return USD{}
	}
	return u
}

// Exact reports whether the provider stated every count of the usage, and all of it has a price. A
// nil usage is exact.
func (u *Usage) Exact() bool { return u == nil || u.Unpriced <= 0 && u.Estimated <= 0 }

// SumCosts sets the cost of a trial from its parts.
func SumCosts(t *Trial) {
	t.Cost = t.Costs.Total()
	t.CostAtLeast = t.Cost.AtLeast()
}

// restoreBounds marks the costs that are lower bounds in a trial that was read.
func restoreBounds(t *Trial) {
	t.Costs.Model = t.Costs.Model.boundIf(!t.Usage.Exact())
	for i := range t.Agents {
		run := &t.Agents[i]
		if run.Cost = run.Cost.boundIf(!run.Usage.Exact()); run.Role == RoleJudge {
			t.Costs.Judges = t.Costs.Judges.boundIf(run.Cost.bound)
		}
	}
	t.Cost = t.Cost.boundIf(t.CostAtLeast || t.Costs.Total().bound)
	t.CostAtLeast = t.Cost.AtLeast()
}

// restoreBoundsOfJob marks the lower bounds in a job's result that was read.
func restoreBoundsOfJob(j *Job) {
	for name, s := range j.Agents {
		s.restoreBounds()
		j.Agents[name] = s
	}
	j.Summary.restoreBounds()
	for _, list := range []*Outcomes{&j.Results, &j.Confirmations} {
		list.changeCosts(func(o *Outcome) {
			if o.Usage != nil { // results of earlier versions have no CostAtLeast
				_, known := o.Usage.Cost.Reported()
				o.CostAtLeast = o.CostAtLeast || !known
			}
			o.Cost, o.JudgeCost = o.Cost.boundIf(o.CostAtLeast), o.JudgeCost.boundIf(o.JudgeCostAtLeast)
			o.CostAtLeast = o.Cost.AtLeast()
		})
	}
	for _, part := range j.CostsAtLeast {
		switch part {
		case "environment":
			j.Costs.Environment = j.Costs.Environment.LowerBound()
		case "model":
			j.Costs.Model = j.Costs.Model.LowerBound()
		case "judges":
			j.Costs.Judges = j.Costs.Judges.LowerBound()
		}
	}
}

func (s *Summary) restoreBounds() {
	s.TotalCost, s.ConfirmationCost = s.TotalCost.boundIf(s.TotalCostAtLeast), s.ConfirmationCost.boundIf(s.ConfirmationCostAtLeast)
}

// AtLeast returns the names of the parts that are lower bounds.
func (c Costs) AtLeast() []string {
	var names []string
	for _, part := range []struct {
		name string
		cost USD
	}{{"environment", c.Environment}, {"model", c.Model}, {"judges", c.Judges}} {
		if part.cost.AtLeast() {
			names = append(names, part.name)
		}
	}
	return names
}

// forgetUnsaid sets to null the costs that were never reported, in the result of an older version.
func forgetUnsaid(t *Trial) {
	if t.Costs.isOldUnknown() {
		t.Costs = Costs{}
		t.Cost = unlessZero(t.Cost)
	}
}

// forgetUnsaidOfJob does the same in a job's result.
func forgetUnsaidOfJob(j *Job) {
	if !j.Costs.isOldUnknown() {
		return
	}
	j.Costs = Costs{}
	j.TotalCost = unlessZero(j.TotalCost)
	for name, s := range j.Agents {
		s.TotalCost = unlessZero(s.TotalCost)
		j.Agents[name] = s
	}
	for _, list := range []*Outcomes{&j.Results, &j.Confirmations} {
		list.changeCosts(func(o *Outcome) { o.Cost = unlessZero(o.Cost) })
	}
}

// Pack and Unpack are the packed form.
func (u *USD) Pack(p *packing.Packer) {
	marks := uint64(0)
	if u.reported {
		marks |= 1
	}
	if u.bound {
		marks |= 2
	}
	p.Number(marks)
	p.Float(u.amount)
}

// Unpack is the opposite of Pack.
func (u *USD) Unpack(r *packing.Reader) {
	marks := r.Number()
	*u = USD{amount: r.Float(), reported: marks&1 > 0, bound: marks&2 > 0}
}
