package ui

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// line is an event as a line of JSON; the package comment lists its fields.
type line struct {
	Time  time.Time  `json:"time"`
	Level string     `json:"level"`
	Msg   string     `json:"msg"`
	Event event.Kind `json:"event"`

	*result.Key
	Phase    event.Phase `json:"phase,omitempty"`
	Step     *event.Step `json:"step,omitempty"`
	Dir      string      `json:"dir,omitempty"`
	DelaySec float64     `json:"delay_sec,omitempty"`
	Running  *int        `json:"running_trials,omitempty"`
	Total    *int        `json:"total_trials,omitempty"`
	Kept     *int        `json:"kept_trials,omitempty"`
	TookSec  *float64    `json:"duration_sec,omitempty"`
	*trialLine
	*jobLine
}

type trialLine struct {
	Reward      *float64         `json:"reward"`
	Cost        result.USD       `json:"cost"`
	CostAtLeast bool             `json:"cost_at_least,omitempty"`
	ErrorType   result.ErrorType `json:"error_type,omitempty"`
	Error       string           `json:"error,omitempty"`
}

type jobLine struct {
	Cancelled bool `json:"cancelled"`
	result.Summary
}

func newJSON(opts Options) (event.Sink, func()) {
	out := newPrinter(opts.Out, 0, nil)
	var mu sync.Mutex
	sink := func(e event.Event) {
		if !opts.shows(e.Kind) || e.Kind == event.Progress && e.Message == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		e.Time = timeOf(e, opts.Now)
		encoded, err := json.Marshal(newLine(e))
		if err != nil {
			// Only a number without a JSON form can cause this, and rewards are checked to be
			// finite.
			encoded, _ = json.Marshal(line{Time: e.Time.UTC(), Level: "warn", Msg: "event lost: " + err.Error(), Event: e.Kind, Key: e.Key})
		}
		out.print(escapeLine(string(encoded)), e.Kind == event.Progress)
	}
	return sink, out.close
}

// messages are the fixed messages of some kinds of events.
var (
	messages = map[event.Kind]string{
		event.JobStarted: "job started", event.TrialStarted: "trial started", event.PhaseStarted: "phase started",
		event.TrialEnded: "trial ended", event.JobEnded: "job ended",
	}
)

func newLine(e event.Event) line {
	l := line{Time: e.Time.UTC(), Level: levelOf(e), Msg: e.Message, Event: e.Kind, Key: e.Key, Phase: e.Phase, Step: e.Step, DelaySec: e.Delay.Seconds()}
	if msg, ok := messages[e.Kind]; ok {
		l.Msg = msg
	}
	switch e.Kind {
	case event.JobStarted:
		l.Dir, l.Total = e.Message, new(e.Total)
		if e.Kept != nil {
			l.Kept = new(len(e.Kept))
		}
	case event.Cancelling:
		l.Running = new(e.Total)
	case event.TrialEnded:
		l.Dir = e.Message
		if e.Trial != nil {
			l.TookSec = new(e.Trial.Durations.TotalSec)
			l.trialLine = &trialLine{Reward: e.Trial.Reward, Cost: e.Trial.Cost, CostAtLeast: e.Trial.Cost.AtLeast()}
			if e.Trial.Error != nil {
				l.ErrorType, l.Error = e.Trial.Error.Type, e.Trial.Error.Message
			}
		}
	case event.JobEnded:
		if e.Job != nil {
			// The fields of line hide those of an embedded struct with the same name.
			l.Total, l.TookSec = new(e.Job.TotalTrials), new(e.Job.TotalDurationSec)
			l.jobLine = &jobLine{Cancelled: e.Job.Cancelled, Summary: e.Job.Summary}
		}
	}
	return l
}

// levelOf returns the level of an event: its importance, or that of an outcome.
func levelOf(e event.Event) string {
	level, message := importance[e.Kind]
	if !message && (e.Kind == event.Cancelling || e.Trial != nil && e.Trial.Error != nil) {
		level = slog.LevelWarn
	}
	return strings.ToLower(level.String())
}

// escapeLine writes invisible characters, and the beginning of a workflow command, as JSON escapes:
// the values do not change, and the line is safe on a terminal and in a GitHub log (see
// untrusted.Line). Outside of strings, JSON has none of these characters.
func escapeLine(encoded string) string {
	var b strings.Builder
	for _, r := range encoded {
		if !untrusted.Invisible(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return strings.ReplaceAll(b.String(), "##[", `##\u005b`)
}
