package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
)

// UsageHead lists the column titles of UsageRow.Cells.
var UsageHead = []string{"turns", "input", "output", "cost", "model time"}

// UsageNote explains the columns of rows.
func UsageNote(rows []UsageRow) string {
	says := "Means per trial, confirmation attempts included; input and output in tokens."
	if slices.ContainsFunc(rows, func(u UsageRow) bool { return u.Partial }) {
		says += " ≥: not known for all trials or calls."
	}
	own := 0
	for _, u := range rows {
		own += u.SelfReported
	}
	if own > 0 {
		says += fmt.Sprintf(" %s had no gateway: their usage is the agent's own report.", Plural(own, "trial"))
	}
	return says
}

// UsageRow sums up an agent's usage of its model. Agent, Models and Notes may be hostile.
type UsageRow struct {
	Agent  string
	Models []string
	Trials int
	Cells  []string // means per trial, as UsageHead
	// Changes holds the changes against the baseline, as UsageHead; nil without a comparison. An
	// entry is "" if a number cannot be compared.
	Changes []string
	Notes   []string // sentences without a full stop about what cannot be compared
	Partial bool     // a cell is a lower bound
	// SelfReported counts those of Trials whose usage was reported by the agents themselves.
	SelfReported int
}

// Changed returns the changes as one line: "cost −12%, turns +3"; "" without any.
func (u UsageRow) Changed() string {
	var parts []string
	for _, i := range []int{3, 0, 1, 2, 4} { // the cost first
		if i < len(u.Changes) && u.Changes[i] != "" {
			parts = append(parts, UsageHead[i]+" "+u.Changes[i])
		}
	}
	return strings.Join(parts, ", ")
}

// Usages returns the model usage of a job's agents, sorted by agent. Agents without a gateway are
// left out. diff may be nil.
func Usages(job result.Job, diff *result.Diff) []UsageRow {
	var rows []UsageRow
	for _, name := range slices.Sorted(maps.Keys(job.Agents)) {
		sum := job.Agents[name].Usage
		if sum == nil || sum.Trials <= 0 {
			continue
		}
		row := UsageRow{Agent: name, Models: sum.Models, Trials: sum.Trials, Partial: slices.ContainsFunc(sum.Partial, func(name string) bool { return name != "model_sec" }), Cells: usageCells(sum), SelfReported: sum.SelfReported}
		if diff != nil {
			for _, g := range diff.Agents {
				if g.Agent == name && g.Usage != nil {
					row.Changes, row.Notes = UsageChanges(*g.Usage), UsageNotes(*g.Usage)
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func usageCells(sum *result.UsageSum) []string {
	n := float64(sum.Trials)
	bound := func(name, text string) string {
		if sum.IsPartial(name) {
			return "≥ " + text
		}
		return text
	}
	tokens := func(name string, of *int64) string {
		if of == nil {
			return "–"
		}
		return bound(name, Tokens(float64(*of)/n))
	}
	modelTime := "–"
	if measured := sum.Trials - sum.SelfReported; measured > 0 {
		modelTime = Duration(sum.ModelSec / float64(measured))
	}
	cost := "–"
	if usd, ok := sum.Cost.Reported(); ok {
		cost = bound("cost", Dollars(usd/n))
	}
	return []string{turns(float64(sum.Turns) / n), tokens("input_tokens", sum.InputTokens), tokens("output_tokens", sum.OutputTokens), cost, modelTime}
}

// UsageChanges returns the changes of means in the order of UsageHead: turns as a difference, the
// others in percent. A number that cannot be compared is "".
func UsageChanges(d result.UsageDiff) []string {
	relative := func(then, now *float64) string {
		if then == nil || now == nil {
			return ""
		}
		return PercentChange(*then, *now)
	}
	var then, now *float64
	if b, ok := d.Base.Cost.Reported(); ok {
		if h, ok := d.Head.Cost.Reported(); ok {
			then, now = &b, &h
		}
	}
	more := ""
	if d.Base.Turns != nil && d.Head.Turns != nil {
		more = Signed(*d.Head.Turns-*d.Base.Turns, turns)
	}
	return []string{
		more, relative(d.Base.InputTokens, d.Head.InputTokens), relative(d.Base.OutputTokens, d.Head.OutputTokens),
		relative(then, now), relative(d.Base.ModelSec, d.Head.ModelSec),
	}
}

// UsageLevels returns the means of one side of a comparison in the order of UsageHead; "–" for
// those that cannot be compared.
func UsageLevels(m result.UsageMeans) []string {
	show := func(n *float64, format func(float64) string) string {
		if n == nil {
			return "–"
		}
		return format(*n)
	}
	return []string{show(m.Turns, turns), show(m.InputTokens, Tokens), show(m.OutputTokens, Tokens), Cost(m.Cost), show(m.ModelSec, Duration)}
}

// UsageNotes returns sentences, without a full stop, about numbers that cannot be compared.
func UsageNotes(d result.UsageDiff) []string {
	var notes []string
	if d.OtherModels() {
		notes = append(notes, fmt.Sprintf("other models were used: %s in the baseline, %s now", modelNames(d.Base.Models), modelNames(d.Head.Models)))
	}
	for _, side := range []struct {
		result.UsageMeans
		of string
	}{{d.Base, "of the baseline"}, {d.Head, "of this job"}} {
		if side.WithoutUsage > 0 {
			notes = append(notes, fmt.Sprintf("%d of %s %s had no gateway, so that their turns and tokens are not known", side.WithoutUsage, Plural(side.Trials, "trial"), side.of))
		}
		if side.SelfReported > 0 {
			notes = append(notes, fmt.Sprintf("the turns, tokens and costs of %d of %s %s are what the agents say themselves", side.SelfReported, Plural(side.Trials, "trial"), side.of))
		}
		if side.UnknownCosts > 0 {
			notes = append(notes, fmt.Sprintf("the cost of %d of %s %s is not known", side.UnknownCosts, Plural(side.Trials, "trial"), side.of))
		}
	}
	if _, ok := d.Head.Cost.Reported(); !ok {
		notes = append(notes, "so costs cannot be compared")
	}
	return notes
}

// modelNames lists names of models, at most three of them.
func modelNames(names []string) string {
	if n := len(names) - 3; n > 0 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}

// turns formats a mean number of turns with at most one decimal.
func turns(n float64) string {
	if math.Abs(n) >= 1e6 {
		return Tokens(n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}

// Tokens formats a number of tokens with three digits at least: 812, 12.3k, 4.56M.
func Tokens(n float64) string {
	switch {
	case n < 999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 99_950:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.2fM", n/1e6)
	}
	return fmt.Sprintf("%.3g", n)
}

// PercentChange formats a relative change with its sign: +12%, −3%, ±0%. It is "new" if there was
// nothing before.
func PercentChange(then, now float64) string {
	switch {
	case then <= 0 && now <= 0:
		return "±0%"
	case then <= 0:
		return "new"
	}
	percent := (now/then - 1) * 100
	switch text := fmt.Sprintf("%.0f%%", math.Abs(percent)); {
	case !(percent < 1e6): // also not a number
		return "more than +1000000%"
	case text == "0%":
		return "±0%"
	case percent < 0:
		return "−" + text
	default:
		return "+" + text
	}
}
