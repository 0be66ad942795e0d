package task

import (
	"fmt"
	"strings"
)

// Healthcheck is [environment.healthcheck], with the meaning of Docker's HEALTHCHECK; seconds. It runs before anything else in
// an environment. Source: Harbor 0.22, src/harbor/models/task/config.py.
type Healthcheck struct {
	Command          string  // for bash; exit code 0 is healthy
	IntervalSec      float64 // between checks; default 5
	TimeoutSec       float64 // of a check; default 30
	StartPeriodSec   float64 // failures do not count in this period; default 0
	StartIntervalSec float64 // between checks in that period; default 5
	Retries          int     // failures in a row that make the environment fail; default 3
}

const (
	maxIntervalSec = 24 * 60 * 60
	maxRetries     = 10_000
)

// healthcheck reads a check; it returns nil if there is none.
func (t table) healthcheck() *Healthcheck {
	if t.values == nil {
		return nil
	}
	h := &Healthcheck{IntervalSec: 5, TimeoutSec: 30, StartIntervalSec: 5, Retries: 3}
	t.text("command", &h.Command)
	if _, isText := t.values["command"].(string); strings.TrimSpace(h.Command) == "" && (isText || !t.has("command")) {
		parent := table{t.doc, t.path[:len(t.path)-1], nil}
		parent.problem(t.path[len(t.path)-1], fmt.Sprintf("%q has no command", strings.Join(t.path, ".")), `write command = "..."; exit code 0 is healthy`)
	}
	t.timeout("timeout_sec", &h.TimeoutSec)
	t.interval("interval_sec", &h.IntervalSec)
	t.interval("start_period_sec", &h.StartPeriodSec)
	t.interval("start_interval_sec", &h.StartIntervalSec)
	t.count("retries", &h.Retries)
	return h
}

// interval reads a number of seconds, which may be 0.
func (t table) interval(key string, to *float64) {
	v, ok := t.values[key]
	if !ok {
		return
	}
	sec, ok := number(v)
	switch {
	case !ok:
		t.wrongType(key, "a number of seconds", fmt.Sprintf("write %s = %v", key, *to))
	case !(sec >= 0 && sec <= maxIntervalSec): // NaN fails both
		t.problem(key, fmt.Sprintf("%q must be at least 0 seconds and at most a day, not %v", t.name(key), v), "")
	default:
		*to = sec
	}
}

// count reads a positive integer.
func (t table) count(key string, to *int) {
	v, ok := t.values[key]
	if !ok {
		return
	}
	n, ok := v.(int64)
	switch {
	case !ok:
		t.wrongType(key, "a whole number", fmt.Sprintf("write %s = %d", key, *to))
	case n < 1 || n > maxRetries:
		t.problem(key, fmt.Sprintf("%q must be between 1 and %d, not %d", t.name(key), maxRetries, n), "")
	default:
		*to = int(n)
	}
}
