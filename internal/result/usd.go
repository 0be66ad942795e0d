package result

import (
	"encoding/json"
	"fmt"
	"math"
)

// USD is an amount of US dollars that may be unknown. The zero USD means that none was reported, and is null in files. It
// differs from a reported 0.
type USD struct {
	amount   float64
	reported bool
}

// Dollars returns a reported amount.
func Dollars(amount float64) USD { return USD{amount: amount, reported: true} }

// Reported returns the amount. ok is false and the amount 0 if none was reported.
func (u USD) Reported() (amount float64, ok bool) { return u.amount, u.reported }

// Amount returns the amount, or 0 if none was reported.
func (u USD) Amount() float64 { return u.amount }

// Plus returns the sum of the reported amounts, or null if neither was reported. It is finite, so that JSON can represent it.
func (u USD) Plus(v USD) USD {
	if !u.reported || !v.reported {
		return USD{amount: u.amount + v.amount, reported: u.reported || v.reported}.Finite()
	}
	return Dollars(u.amount + v.amount).Finite()
}

// Minus returns the difference of two reported amounts, or null if one of them is null.
func (u USD) Minus(v USD) USD {
	if !u.reported || !v.reported {
		return USD{}
	}
	return Dollars(u.amount - v.amount)
}

// without returns the rest of an amount without a part of it; null if there is none.
func (u USD) without(part USD) USD {
	if !u.reported || !part.reported {
		return u
	}
	if rest := u.amount - part.amount; rest > 0 {
		return Dollars(rest)
	}
	return USD{}
}

// Finite returns the amount, or the nearest one that JSON can represent. NaN counts as not reported.
func (u USD) Finite() USD {
	if math.IsNaN(u.amount) {
		return USD{}
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

// isOldUnknown reports whether these are unknown costs in a file of an earlier version, which wrote 0 for all parts. Since then
// at least one part is null if the others are 0, because no provider reports that an environment was free.
func (c Costs) isOldUnknown() bool { return c == Costs{Dollars(0), Dollars(0), Dollars(0)} }

// unlessZero returns the amount, or null instead of 0.
func unlessZero(u USD) USD {
	if u.amount == 0 {
		return USD{}
	}
	return u
}

// forgetUnsaid makes null of the costs that nobody reported, in the result of an older version.
func forgetUnsaid(t *Trial) {
	if t.Costs.isOldUnknown() {
		t.Costs = Costs{}
		t.Cost = unlessZero(t.Cost)
	}
}

// forgetUnsaidOfJob does so in a job's result.
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
	for _, list := range [][]Outcome{j.Results, j.Confirmations} {
		for i := range list {
			list[i].Cost = unlessZero(list[i].Cost)
		}
	}
}
