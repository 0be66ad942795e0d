package ui

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/event"
)

func width() (cols, rows int) { return 40, 24 }

func TestShortWorkIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []Mode{Live, Plain, JSON} {
			var out bytes.Buffer
			w := NewWorks(&out, mode, width)
			work := event.Begin(event.Watch(t.Context(), w.Begin), "Reading", 3)
			time.Sleep(firstHint - time.Millisecond)
			work.End()
			work.End()
			if out.Len() > 0 {
				t.Errorf("%s: %q", mode, out.String())
			}
		}
	})
}

func TestLongWorkPrintsALineFromTimeToTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := NewWorks(&out, Plain, width)
		work := event.Begin(event.Watch(t.Context(), w.Begin), "Checking\ntasks", 2000)
		time.Sleep(5 * time.Millisecond) // so that no step is at the moment of a line
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			work.Step()
		}
		work.End()
		const want = "Checking⏎tasks: 199 of 2,000, about 20s left\n" + "Checking⏎tasks: 599 of 2,000, about 20s left\n" + "Checking⏎tasks: done in 10.0s\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}

func TestLineOfATerminalMakesWayForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := NewWorks(&out, Live, width)
		work := event.Begin(event.Watch(t.Context(), w.Begin), strings.Repeat("x", 100), 0)
		time.Sleep(firstHint + time.Millisecond)
		synctest.Wait()
		line := "\r" + strings.Repeat("x", 38) + "…\x1b[K"
		if out.String() != line {
			t.Errorf("drew %q", out.String())
		}
		out.Reset()
		_, _ = io.WriteString(w, "a warning\n")
		if out.String() != "\r\x1b[Ka warning\n" {
			t.Errorf("wrote %q", out.String())
		}
		show := w.Hide()
		out.Reset()
		time.Sleep(time.Minute)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("drew into a view: %q", out.String())
		}
		show()
		time.Sleep(time.Second)
		synctest.Wait()
		work.End()
		if !strings.HasPrefix(out.String(), line) || !strings.HasSuffix(out.String(), "\x1b[K\r\x1b[K") {
			t.Errorf("drew %q", out.String())
		}
	})
}

func TestJSONShowsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := NewWorks(&out, Plain, width)
		w.Use(JSON)
		work := event.Begin(event.Watch(t.Context(), w.Begin), "Reading", 0)
		time.Sleep(time.Hour)
		work.End()
		if out.Len() > 0 {
			t.Errorf("printed %q", out.String())
		}
	})
}
