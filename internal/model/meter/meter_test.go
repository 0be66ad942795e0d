package meter

import (
	"strings"
	"testing"
)

func noPrice(int64, int64) *float64 { return nil }

func TestMediaCountLessThanTheirBytes(t *testing.T) {
	image := strings.Repeat("iVBORw0KGgo", 10_000)
	request := []byte(`{"messages":[{"content":"what is this?","source":{"type":"base64","data":"` + image + `"},"url":"data:image/png;base64,` + image + `"}]}`)
	if n := InputTokens(request); n > 1000 {
		t.Errorf("two images are estimated as %d tokens", n)
	}
	if size := (&Scale{}).Size(request, 10, noPrice); size.Input > 30_000 || size.Input < 16_000 {
		t.Errorf("two images have at most %d tokens", size.Input)
	}
	text := []byte(`{"messages":[{"content":"` + strings.Repeat("word ", 10_000) + `"}]}`)
	if n := InputTokens(text); n < 12_000 || n > 13_000 {
		t.Errorf("50 kB of text are estimated as %d tokens", n)
	}
	if size := (&Scale{}).Size(text, 0, noPrice); size.Input != int64(len(text)) || size.Output != DefaultOutput || !size.Unknown {
		t.Errorf("50 kB of text have the size %+v", size)
	}
}

func TestScaleLearnsWhatProvidersAdd(t *testing.T) {
	var s Scale
	request := []byte(`{"messages":[]}`)
	first := s.Size(request, 100, noPrice)
	s.Learn(first, Usage{Input: new(int64(1000)), Output: new(int64(150))}, new(0.5))
	s.Learn(first, Usage{Input: new(int64(900)), Output: new(int64(5))}, nil) // turns that ran together add nothing twice
	if next := s.Size(request, 100, noPrice); next.Unknown || next.Input != 1000 || next.Output != 150 || next.USD != 0.5 {
		t.Errorf("the next size is %+v", next)
	}
}

func TestTurnsThatRunReserveTheirSize(t *testing.T) {
	l := NewLedger(Budget{MaxTotalTokens: 1000})
	sizes := make([]Size, 4)
	for i := range sizes {
		sizes[i] = Size{Input: 200, Output: 200}
	}
	for i := range 3 {
		if stop, wait := l.Admit(&sizes[i]); stop != "" || wait != nil {
			t.Fatalf("turn %d is not admitted: %q", i, stop)
		}
	}
	stop, wait := l.Admit(&sizes[3])
	if stop != "" || wait == nil {
		t.Fatalf("the turns that run may use 1200 of 1000, and another is admitted: %q", stop)
	}
	l.Settle(&sizes[0], Usage{Input: new(int64(100)), Output: new(int64(50))}, nil, true)
	select {
	case <-wait:
	default:
		t.Error("the end of a turn does not wake those that wait")
	}
	if stop, wait := l.Admit(&sizes[3]); stop != "" || wait != nil {
		t.Errorf("150 are used and 800 reserved of 1000: %q", stop)
	}
	for i := range sizes[1:] {
		l.Settle(&sizes[i+1], Usage{Input: new(int64(200)), Output: new(int64(200))}, nil, true)
	}
	if stop, _ := l.Admit(&Size{}); stop != StopTokens {
		t.Errorf("1350 of 1000 are used: %q", stop)
	}
}

func TestPlacesInALineAreLeftInAnyOrder(t *testing.T) {
	var l Line
	a, b, c, d := l.Join(), l.Join(), l.Join(), l.Join()
	b.Leave()
	b.Leave()
	if !a.IsFirst() || c.IsFirst() {
		t.Error("whoever joined later is before others")
	}
	a.Leave()
	<-c.First()
	if d.IsFirst() {
		t.Error("two are first")
	}
	c.Leave()
	<-d.First()
	d.Leave()
	if e := l.Join(); !e.IsFirst() {
		t.Error("in an empty line, none is first")
	}
}
