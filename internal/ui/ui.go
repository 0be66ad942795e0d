package ui

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/org/rollout-action/internal/event"
)

// Mode is a way of showing a running job.
type Mode string

// The modes.
const (
	Live  Mode = "live"  // a view that is redrawn in place, for terminals
	Plain Mode = "plain" // a line per trial, for logs and pipes
	JSON  Mode = "json"  // a JSON object per event, for programs
)

// Options say how a job is shown. Out is required; everything else has a default.
type Options struct {
	Out   io.Writer
	Mode  Mode
	Color bool // false: not one colour or style code is written
	// Width is the terminal's current size. It is asked often and from several goroutines, so a
	// resize is seen. nil, and what it gives as 0: 80x24.
	Width       func() (cols, rows int)
	Now         func() time.Time // nil: time.Now
	Heartbeat   time.Duration    // plain: the longest silence while trials run; 0: one minute
	Metrics     []string         // what the live view shows: see result.MetricTypes
	Concurrency int              // how many trials run at a time, for the estimate of what is left
	// Level is the least important message that is written (log_level). How trials and the job end,
	// and that they are cancelled, is always written; what the live view draws does not depend on it.
	Level slog.Level
}

// importance of the kinds of event that are messages: what Level is compared with.
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

// giveUp is how long the end of a view waits for a reader that takes nothing any more: a stopped
// terminal or a full pipe must not keep a cancelled job from ending.
const giveUp = 2 * time.Second

// New starts a view. The sink never waits for Out, however slow its reader is. The function ends the
// view: it writes what is left and restores the terminal, and must be called once, also after a
// cancel or a panic. Events after that are dropped. Nothing else may write to the terminal in between.
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

// knownSize fills in what the terminal does not know: pseudo-terminals of scripts are often 0x0.
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

// DetectMode chooses how to show a job on out (nil: not a terminal), from --log-format (auto or
// empty, live, plain, json) and the environment: a terminal gets the live view unless it is dumb or
// belongs to a CI system (CI is set), whose logs keep every redraw. Colours need a terminal, and
// NO_COLOR unset or empty (https://no-color.org). The error is for the user.
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
