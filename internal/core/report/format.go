package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
)

// Number formats a reward or a metric with at most three decimals.
func Number(f float64) string {
	if math.Abs(f) >= 1e6 || f != 0 && math.Abs(f) < 0.0005 || math.IsNaN(f) {
		return strconv.FormatFloat(f, 'g', 3, 64)
	}
	s := strconv.FormatFloat(f, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Percent formats a rate. Only exactly none and all are shown as 0% and 100%.
func Percent(rate float64) string {
	p := math.Round(rate*1000) / 10
	switch {
	case rate < 1 && p >= 100:
		p = 99.9
	case rate > 0 && p <= 0:
		p = 0.1
	}
	return strconv.FormatFloat(p, 'f', -1, 64) + "%"
}

// Cost formats a cost in US dollars; "–" if none was reported.
func Cost(cost result.USD) string {
	usd, ok := cost.Reported()
	if !ok {
		return "–"
	}
	return AtLeast(cost) + Dollars(usd)
}

// AtLeast returns the prefix of an amount: "≥ " if it is a lower bound.
func AtLeast(cost result.USD) string {
	if cost.AtLeast() {
		return "≥ "
	}
	return ""
}

// CostChange formats a difference of costs with its sign; "–" if one of them was not reported, or
// is a lower bound.
func CostChange(now, then result.USD) string {
	change := now.Minus(then)
	usd, ok := change.Reported()
	if !ok || change.AtLeast() {
		return "–"
	}
	return Signed(usd, Dollars)
}

// Dollars formats an amount in US dollars: to the cent, and more exactly below ten cents.
func Dollars(usd float64) string {
	sign := ""
	if usd < 0 {
		sign, usd = "-", -usd
	}
	switch {
	case usd >= 0.0005 && usd < 0.0995:
		return sign + "$" + strconv.FormatFloat(usd, 'f', 3, 64)
	case !(usd < 1e12): // no job costs so much, but a file may say so, with up to 309 digits
		return sign + "$" + strings.TrimPrefix(strconv.FormatFloat(usd, 'g', 3, 64), "+")
	}
	return sign + "$" + strconv.FormatFloat(usd, 'f', 2, 64)
}

// Duration formats a duration in seconds: 0.4s, 12.3s, 1m02s, 3h04m.
func Duration(sec float64) string {
	if sec < 0 {
		return "-" + Duration(-sec)
	}
	if sec < 59.95 {
		return fmt.Sprintf("%.1fs", sec)
	}
	s := int64(math.Round(min(sec, 1e15)))
	if s < 3600 {
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}

// MeanDuration formats a mean duration in seconds; "–" if there is none.
func MeanDuration(sec *float64) string {
	if sec == nil {
		return "–"
	}
	return Duration(*sec)
}

// DurationChange formats a difference of mean durations with its sign; "–" unless both are known.
func DurationChange(now, then *float64) string {
	if now == nil || then == nil {
		return "–"
	}
	return Signed(*now-*then, Duration)
}

// Signed formats a difference with its sign; "±0" if format would show it as 0.
func Signed(delta float64, format func(float64) string) string {
	switch shown, none := format(math.Abs(delta)), format(0); {
	case shown == none:
		return "±0"
	case delta > 0:
		return "+" + shown
	default:
		return "−" + shown
	}
}

// Points formats a difference of rates in percentage points, without a sign.
func Points(delta float64) string {
	return strconv.FormatFloat(math.Round(math.Abs(delta)*1000)/10, 'f', -1, 64) + " pp"
}

// Plural returns a number with its noun: 1 trial, 2 trials.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Count formats a number with separators of thousands: 12,345.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
