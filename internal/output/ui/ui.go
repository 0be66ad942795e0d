package ui

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/org/rollout-action/internal/core/event"
)

// Mode is a way to show a running job.
type Mode string

// The modes.
const (
	Live  Mode = "live"  // a view that is redrawn in place, for terminals
	Plain Mode = "plain" // a line per trial, for logs and pipes
	JSON  Mode = "json"  // a JSON object per event, for programs
)

// Options configure how a job is shown. Out is required.
type Options struct {
	Out   io.Writer
	Mode  Mode
	Color bool // false: no colour or style codes
	// Width returns the terminal's current size. It is called often, by several goroutines. If it
	// is nil or returns 0: 80x24.
	Width       func() (cols, rows int)
	Now         func() time.Time // nil: time.Now
	Heartbeat   time.Duration    // plain: the longest silence while trials run; 0: one minute
	Metrics     []string         // metrics of the live view; see result.MetricTypes
	Concurrency int              // how many trials run at a time, for the estimate of the remaining time
	// Level is the lowest level of messages that are written (log_level). The ends of trials and of
	// the job, and its cancellation, are always written. The live view itself does not depend on
	// it.
	Level slog.Level
}

// importance is the level of each kind of event that is a message; it is compared with Level.
var importance = map[event.Kind]slog.Level{
	event.TrialStarted: slog.LevelDebug,
	event.PhaseStarted: slog.LevelDebug,
	event.Progress:     slog.LevelInfo,
	event.Retrying:     slog.LevelWarn,
	event.Notice:       slog.LevelWarn,
}

func (o Options) shows(kind event.Kind) bool {
	level, message := importance[kind]
	return !message || level >= o.Level
}

// giveUp is how long closing a view waits for a stuck reader: a stopped terminal or a full pipe
// must not prevent a cancelled job from ending.
const giveUp = 2 * time.Second

// New starts a view. The sink never waits for Out, however slow its reader is. The function closes
// the view: it writes the queued lines and restores the terminal. Call it once, also after a cancel
// or a panic. Later events are dropped. Nothing else may write to the terminal until then.
func New(opts Options) (event.Sink, func()) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Width = knownSize(opts.Width)
	if opts.Heartbeat <= 0 {
		opts.Heartbeat = time.Minute
	}
	switch opts.Mode {
	case Live:
		return newLive(opts)
	case JSON:
		return newJSON(opts)
	}
	return newPlain(opts)
}

// knownSize replaces a size of 0, which is frequent in pseudo-terminals of scripts.
func knownSize(size func() (cols, rows int)) func() (cols, rows int) {
	return func() (cols, rows int) {
		if size != nil {
			cols, rows = size()
		}
		if cols <= 0 {
			cols = 80
		}
		if rows <= 0 {
			rows = 24
		}
		return cols, rows
	}
}

// DetectMode chooses how to show a job on out (nil: no terminal), from --log-format (auto or empty,
// live, plain, json) and the environment. With auto, a terminal gets the live view unless it is
// dumb or belongs to a CI system (CI is set), whose logs would keep every redraw. Colours need a
// terminal, and NO_COLOR unset or empty (https://no-color.org). The error is for the user.
func DetectMode(out *os.File, logFormat string, getenv func(string) string) (Mode, bool, error) {
	terminal := out != nil && term.IsTerminal(int(out.Fd())) && getenv("TERM") != "dumb"
	color := terminal && getenv("NO_COLOR") == ""
	switch logFormat {
	case "", "auto":
		if ci := getenv("CI"); terminal && (ci == "" || ci == "false") {
			return Live, color, nil
		}
		return Plain, color, nil
	case "live":
		if !terminal {
			return "", false, errors.New("--log-format live needs a terminal on stderr (use auto or plain)")
		}
		return Live, color, nil
	case "plain":
		return Plain, color, nil
	case "json":
		return JSON, false, nil
	}
	return "", false, fmt.Errorf("unknown --log-format %q (auto, live, plain or json)", logFormat)
}
