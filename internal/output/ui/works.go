package ui

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// Works shows operations that take longer than firstHint: on a terminal in a line that is redrawn,
// elsewhere in occasional lines. It shows nothing while the view of a job is open.
type Works struct {
	out   io.Writer
	width func() (cols, rows int)

	mu     sync.Mutex
	mode   Mode
	hidden int         // how many views are open
	shown  []*shownRun // works that run, in the order of their beginning
	drawn  bool        // the line is on the terminal
}

// shownRun is a running operation.
type shownRun struct {
	*event.Work
	began time.Time
	long  bool // it takes longer than firstHint
}

// NewWorks returns works that are shown on out. JSON shows none.
func NewWorks(out io.Writer, mode Mode, width func() (cols, rows int)) *Works {
	return &Works{out: out, mode: mode, width: knownSize(width)}
}

// Use changes the mode.
func (w *Works) Use(mode Mode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erase()
	w.mode = mode
}

// Hide hides the line until the returned function is called.
func (w *Works) Hide() (show func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erase()
	w.hidden++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hidden--
	})
}

// Write writes other output above the line.
func (w *Works) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erase()
	return w.out.Write(p)
}

// Begin shows an operation until the returned function is called. It is for event.Watch.
func (w *Works) Begin(work *event.Work) (end func()) {
	run := &shownRun{Work: work, began: time.Now()}
	w.mu.Lock()
	w.shown = append(w.shown, run)
	w.mu.Unlock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		w.follow(run, stop)
	}()
	return func() {
		close(stop)
		<-stopped
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shown = slices.DeleteFunc(w.shown, func(r *shownRun) bool { return r == run })
		w.erase()
		if run.long && w.mode == Plain && w.hidden == 0 {
			fmt.Fprintf(w.out, "%s: done in %s\n", run.what(), termtext.Took(time.Since(run.began).Seconds()))
		}
	}
}

// follow shows a work from time to time.
func (w *Works) follow(run *shownRun, stop <-chan struct{}) {
	wait := firstHint
	for {
		timer := time.NewTimer(wait)
		select {
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		w.mu.Lock()
		if w.mode == Live {
			wait = 2 * refresh
			run.long = true
			w.draw()
		} else {
			if w.mode == Plain && w.hidden == 0 {
				run.long = true
				fmt.Fprintln(w.out, run.line(time.Now()))
			}
			wait = min(2*wait, time.Minute)
		}
		w.mu.Unlock()
	}
}

// draw draws the line of the work that began last, of those that take long.
func (w *Works) draw() {
	if w.hidden > 0 {
		return
	}
	for _, run := range slices.Backward(w.shown) {
		if run.long {
			cols, _ := w.width()
			fmt.Fprint(w.out, "\r"+termtext.CutEnd(run.line(time.Now()), cols-1)+"\x1b[K")
			w.drawn = true
			return
		}
	}
}

// erase removes the line.
func (w *Works) erase() {
	if w.drawn {
		fmt.Fprint(w.out, "\r\x1b[K")
		w.drawn = false
	}
}

// what returns the name of the operation. It never begins with "::", which GitHub's runner would
// take for a command.
func (r *shownRun) what() string { return termtext.LineStart(untrusted.Line(r.What)) }

// line returns the progress of a work, with an estimate of the remaining time if its total is
// known.
func (r *shownRun) line(now time.Time) string {
	since := now.Sub(r.began)
	if r.Total <= 0 {
		return fmt.Sprintf("%s: %s so far", r.what(), termtext.Age(since.Truncate(time.Second)))
	}
	done := min(r.Done(), r.Total)
	text := fmt.Sprintf("%s: %s of %s", r.what(), report.Count(done), report.Count(r.Total))
	if done > 0 {
		left := time.Duration(float64(since) / float64(done) * float64(r.Total-done))
		text += fmt.Sprintf(", about %s left", termtext.Roughly(left))
	}
	return text
}
