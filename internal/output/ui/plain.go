package ui

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/charmbracelet/lipgloss"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// plain writes a line when something ends or fails, and after a long silence. Lines have no time
// stamps, because CI systems add their own. Each begins with words of ours, never with text from
// outside, so none can be a workflow command.
type plain struct {
	out    *printer
	styles termtext.Styles
	opts   Options

	mu    sync.Mutex
	state state
	hint  *time.Timer   // runs while a trial waits for something and its progress is not shown
	after time.Duration // how long it runs
	said  string        // its last line
}

// firstHint is how long a trial may wait for its image, or for a place, before a line reports it,
// although log_level hides its progress. Another line follows when the reason changes, each after
// twice the time, until the heartbeat, which reports the wait of the oldest trial, is more
// frequent.
const firstHint = 2 * time.Second

func newPlain(opts Options) (event.Sink, func()) {
	p := &plain{styles: termtext.NewStyles(opts.Color), opts: opts, after: firstHint}
	p.out = newPrinter(opts.Out, opts.Heartbeat, p.silent)
	return p.sink, p.close
}

func (p *plain) close() {
	p.mu.Lock()
	if p.hint != nil {
		p.hint.Stop()
	}
	p.mu.Unlock()
	p.out.close()
}

func (p *plain) sink(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Time = timeOf(e, p.opts.Now)
	p.state.apply(e)
	if !p.opts.shows(e.Kind) {
		if e.Kind == event.Progress && p.opts.shows(event.Notice) && p.hint == nil && p.after < p.opts.Heartbeat {
			p.hint = time.AfterFunc(p.after, p.hintNow)
		}
		return
	}
	if line := p.line(e); line != "" {
		p.out.print(line, false)
	}
}

// hintNow says what a trial waits for, if any still does, unless that was said already.
func (p *plain) hintNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hint = nil
	at := p.state.making()
	if at < 0 {
		return
	}
	r := p.state.running[at]
	if line := r.name + "  " + r.progress; line != p.said {
		p.said = line
		p.out.print(p.count()+"· "+line, true)
		p.after *= 2
	}
	if p.after < p.opts.Heartbeat {
		p.hint = time.AfterFunc(p.after, p.hintNow)
	}
}

// silent returns the line for a long silence, or "" if nothing runs.
func (p *plain) silent() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line := p.state.heartbeat(p.opts.Now()); line != "" {
		return p.count() + line
	}
	return ""
}

// count returns how many trials have ended: "[ 3/20] ".
func (p *plain) count() string {
	total := strconv.Itoa(p.state.total)
	return fmt.Sprintf("[%*d/%s] ", len(total), p.state.ended, total)
}

// line returns the line for an event, or "".
func (p *plain) line(e event.Event) string {
	switch e.Kind {
	case event.JobStarted:
		return startLine(e, p.opts.Concurrency)
	case event.TrialStarted:
		return p.count() + "→ " + termtext.TrialName(e.Key)
	case event.PhaseStarted:
		line := p.count() + "→ " + termtext.TrialName(e.Key) + "  " + phaseName(e.Phase)
		if e.Step != nil {
			line += "  " + stepName(e.Step)
		}
		return line
	case event.Progress:
		if line := termtext.FirstLine(e.Message); line != "" {
			return p.count() + "· " + termtext.TrialName(e.Key) + "  " + line
		}
	case event.TrialEnded:
		return p.count() + p.trialLine(e)
	case event.Retrying:
		return p.count() + "↻ " + termtext.TrialName(e.Key) + "  " + retrying(e) + ": " + termtext.FirstLine(e.Message)
	case event.Notice:
		return noticeLine(e)
	case event.Cancelling:
		return p.styles.Warn.Render(cancelLine(max(e.Total, len(p.state.running)), "another signal after a second stops"))
	}
	return ""
}

// verdictWidth is enough for "✗ error" and for rewards of up to five characters.
const verdictWidth = 7

func (p *plain) trialLine(e event.Event) string {
	verdict := lipgloss.NewStyle().Width(verdictWidth).Render(outcome(p.styles, e.Trial))
	line := verdict + "  " + termtext.TrialName(e.Key)
	if e.Trial == nil {
		return line
	}
	line += "  " + termtext.Took(e.Trial.Durations.TotalSec)
	if e.Trial.Confirmation {
		line += "  (tried again)"
	}
	if e.Trial.Error != nil {
		what := problem(e.Trial.Error)
		if first := p.state.firstWith(e); first != "" {
			what = untrusted.Line(string(e.Trial.Error.Type)) + ": as " + first
		}
		line += "  " + what + "  (" + untrusted.ShellPath(e.Message) + ")"
	}
	return line
}
