package gate

import (
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/lib/plural"
)

// Mode selects whether a verdict decides the outcome of the job.
type Mode string

// The values of gate.mode. "" is ModeEnforce.
const (
	ModeEnforce Mode = "enforce"
	ModeAdvise  Mode = "advise"
)

// soon is how many days before its end a policy that advises counts the days that are left.
const soon = 7

// advice returns whether the policy only advises on the day of now, in UTC, and a note about that;
// "" for a policy that enforces. A day that is malformed has passed, because a gate that is open by
// mistake is worse than one that is closed.
func (p Policy) advice(now time.Time) (advises bool, note string) {
	if p.Mode != ModeAdvise {
		return false, ""
	}
	if p.Until == "" {
		return true, "the gate only advises (gate.mode): no verdict makes the check red"
	}
	until, err := time.Parse(time.DateOnly, p.Until)
	if err != nil {
		return false, fmt.Sprintf("the gate has no valid day in until (%q), so it does not only advise: its verdict decides", p.Until)
	}
	left := daysUntil(p.Until, now)
	from := until.AddDate(0, 0, 1).Format(time.DateOnly)
	switch {
	case left < 0:
		return false, fmt.Sprintf("the gate only advised until %s: since then its verdict decides, and gate.mode and gate.until can go", p.Until)
	case left == 0:
		return true, fmt.Sprintf("today is the last day on which the gate only advises: from %s on, its verdict decides whether the check is red", from)
	case left <= soon:
		return true, fmt.Sprintf("the gate only advises for %s more, until %s: from %s on, its verdict decides whether the check is red", plural.Count(left, "day"), p.Until, from)
	}
	return true, fmt.Sprintf("the gate only advises until %s: no verdict makes the check red before %s", p.Until, from)
}

// sparedBy explains why a verdict that does not satisfy the policy passes all the same on the day
// of now, as a text to append to a sentence.
func (p Policy) sparedBy(now time.Time) string {
	text := "; that does not make the check red, because the gate only advises"
	if p.Until == "" {
		return text
	}
	text += " until " + p.Until
	switch left := daysUntil(p.Until, now); {
	case left == 0:
		text += ", which is today"
	case left <= soon:
		text += fmt.Sprintf(" (%s more)", plural.Count(left, "day"))
	}
	return text
}

// daysUntil returns how many days are left from now until a day, in UTC; negative after it. A day
// that is malformed is the zero time's.
func daysUntil(day string, now time.Time) int {
	until, _ := time.Parse(time.DateOnly, day)
	today, _ := time.Parse(time.DateOnly, now.UTC().Format(time.DateOnly))
	return int(until.Sub(today).Hours() / 24)
}
