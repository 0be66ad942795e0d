package termtext

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Age formats the duration of something that is still running, in seconds: 9s, 1m02s, 3h04m, 2d05h.
func Age(d time.Duration) string {
	sec := int(max(d, 0) / time.Second)
	switch minute, hour, day := sec/60, sec/3600, sec/86400; {
	case day > 0:
		return fmt.Sprintf("%dd%02dh", day, hour%24)
	case hour > 0:
		return fmt.Sprintf("%dh%02dm", hour, minute%60)
	case minute > 0:
		return fmt.Sprintf("%dm%02ds", minute, sec%60)
	}
	return fmt.Sprintf("%ds", sec)
}

// Took formats the duration of something that has ended: 0.4s, 12.3s, then like age.
func Took(sec float64) string {
	if sec < 59.95 {
		return fmt.Sprintf("%.1fs", max(sec, 0))
	}
	return Age(time.Duration(math.Round(sec)) * time.Second)
}

// Roughly formats an estimate without false precision: 40s, 5m, 2h10m.
func Roughly(d time.Duration) string {
	switch {
	case d <= 50*time.Second:
		return fmt.Sprintf("%ds", max(10, int(math.Ceil(d.Seconds()/10))*10))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(math.Ceil(d.Minutes())))
	}
	d = d.Round(10 * time.Minute)
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Number formats a reward or a metric with one to three decimals.
func Number(f float64) string {
	if extreme(f) {
		return strconv.FormatFloat(f, 'g', 3, 64)
	}
	s := strings.TrimRight(strconv.FormatFloat(f, 'f', 3, 64), "0")
	if strings.HasSuffix(s, ".") {
		s += "0"
	}
	return s
}

// extreme reports whether a number does not fit into three decimals and a few digits.
func extreme(f float64) bool {
	return math.Abs(f) >= 1e6 || f != 0 && math.Abs(f) < 0.0005
}

// Aligned is number with always three decimals, for columns.
func Aligned(f float64) string {
	if extreme(f) {
		return Number(f)
	}
	return strconv.FormatFloat(f, 'f', 3, 64)
}

// Percent formats a rate. Only exactly none or all become 0.0% or 100.0%.
func Percent(rate float64) string {
	p := math.Round(rate*1000) / 10
	switch {
	case rate < 1 && p >= 100:
		p = 99.9
	case rate > 0 && p <= 0:
		p = 0.1
	}
	return fmt.Sprintf("%.1f%%", p)
}

// TrialName returns the name of a trial for users.
func TrialName(k *result.Key) string {
	if k == nil {
		return ""
	}
	return untrusted.Line(k.String())
}
