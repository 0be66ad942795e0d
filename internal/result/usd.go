package result

import (
	"encoding/json"
	"fmt"
	"math"
)

// USD is an amount of US dollars, or that nobody has reported one: the zero USD, which is null in files. A reported 0 is another one.
type USD struct {
	amount   float64
	reported bool
}

// Dollars is a reported amount.
func Dollars(amount float64) USD { return USD{amount: amount, reported: true} }

// Reported returns the amount; ok is false, and the amount 0, if nobody has reported one.
func (u USD) Reported() (amount float64, ok bool) { return u.amount, u.reported }

// Amount is the amount; 0 if nobody has reported one.
func (u USD) Amount() float64 { return u.amount }

// Plus is the sum of what was reported: null if neither was. It is finite, so that JSON can hold it.
func (u USD) Plus(v USD) USD {
	if !u.reported || !v.reported {
		return USD{amount: u.amount + v.amount, reported: u.reported || v.reported}.Finite()
	}
	return Dollars(u.amount + v.amount).Finite()
}

// Minus is the difference of two reported amounts: null if one of them is.
func (u USD) Minus(v USD) USD {
	if !u.reported || !v.reported {
		return USD{}
	}
	return Dollars(u.amount - v.amount)
}

// Finite is the amount that JSON can hold that is nearest to this one; what is no number counts as not reported.
func (u USD) Finite() USD {
	if math.IsNaN(u.amount) {
		return USD{}
	}
	u.amount = finite(u.amount)
	return u
}

// MarshalJSON writes a number, or null.
func (u USD) MarshalJSON() ([]byte, error) {
	if !u.reported {
		return []byte("null"), nil
	}
	return json.Marshal(u.amount)
}

// UnmarshalJSON reads a number, or null.
func (u *USD) UnmarshalJSON(data []byte) error {
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

// unsaid reports whether these are the costs of a file from before there was null: each part was 0 where nobody had reported one.
// Since then, at least one part is null where the others are 0, for no provider reports that an environment was free.
func (c Costs) unsaid() bool { return c == Costs{Dollars(0), Dollars(0), Dollars(0)} }

// unlessZero is the amount, or null instead of 0.
func unlessZero(u USD) USD {
	if u.amount == 0 {
		return USD{}
	}
	return u
}

// forgetUnsaid makes null of the costs that nobody reported, in the result of an older version.
func forgetUnsaid(t *Trial) {
	if t.Costs.unsaid() {
		t.Costs = Costs{}
		t.Cost = unlessZero(t.Cost)
	}
}

// forgetUnsaidOfJob does so in a job's result.
func forgetUnsaidOfJob(j *Job) {
	if !j.Costs.unsaid() {
		return
	}
	j.Costs = Costs{}
	j.TotalCost = unlessZero(j.TotalCost)
	for name, s := range j.Agents {
		s.TotalCost = unlessZero(s.TotalCost)
		j.Agents[name] = s
	}
	for _, list := range [][]Outcome{j.Results, j.Confirmations} {
		for i := range list {
			list[i].Cost = unlessZero(list[i].Cost)
		}
	}
}
