package sse

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// pieces is a reader of a text in pieces of any size, as a network delivers it.
type pieces struct {
	text string
	r    *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+p.r.IntN(7))], p.text)
	p.text = p.text[n:]
	return n, nil
}

// read returns the events of a stream in one line each, and all bytes read.
func read(t *testing.T, r *Reader) (events []string, raw string, err error) {
	t.Helper()
	for {
		e, err := r.Next()
		raw += string(e.Raw)
		if !e.Comment {
			events = append(events, fmt.Sprintf("%s=%s", e.Name, e.Data))
		}
		if err != nil {
			return events, raw, err
		}
	}
}

func TestStreamsAreReadHoweverTheyAreDivided(t *testing.T) {
	const lines = "event: a\ndata: 1\ndata: 2\n\n: hi\n\ndata:3\n\nid: 4\n\nevent: b\ndata\ndata\n\n"
	want := "a=1\n2 =3 = b=\n"
	for name, stream := range map[string]string{
		"\\n": lines, "\\r\\n": strings.ReplaceAll(lines, "\n", "\r\n"), "\\r": strings.ReplaceAll(lines, "\n", "\r"),
		"after a mark of the order of bytes": "\uFEFF" + lines,
	} {
		for seed := range uint64(200) {
			events, raw, err := read(t, NewReader(&pieces{stream, rand.New(rand.NewPCG(seed, 1))}))
			if got := strings.Join(events, " "); got != want || raw != stream || !errors.Is(err, io.EOF) {
				t.Fatalf("%s, %d: %v, %q of %q", name, seed, err, got, raw)
			}
		}
		if events, raw, _ := read(t, NewReader(iotest.OneByteReader(strings.NewReader(stream)))); strings.Join(events, " ") != want || raw != stream {
			t.Errorf("%s: byte by byte: %q", name, events)
		}
	}
}

// An event is complete with its blank line. Next does not wait for the next event.
func TestEventsAreReadAsTheyCome(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		from, to := io.Pipe()
		r := NewReader(from)
		for i := range 3 {
			go func() { _, _ = io.WriteString(to, fmt.Sprintf("data: %d%s%s", i, end, end)) }()
			if e, err := r.Next(); err != nil || string(e.Data) != fmt.Sprint(i) {
				t.Fatalf("%q: %q, %v", end, e.Data, err)
			}
		}
	}
}

func TestTheLastEventMayHaveNoBlankLine(t *testing.T) {
	for _, rest := range []string{"data: 2", "data: 2\n", "data: 2\r\n", "data: 2\r"} {
		events, raw, err := read(t, NewReader(strings.NewReader("data: 1\n\n"+rest)))
		if strings.Join(events, " ") != "=1 =2" || raw != "data: 1\n\n"+rest || !errors.Is(err, io.EOF) {
			t.Errorf("%q: %q of %q, %v", rest, events, raw, err)
		}
	}
}

// Events of any length are read completely, and so are the ones after them.
func TestLongEventsComeInPieces(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		for _, size := range []int{50, 99, 100, 101, 150, 1000} {
			stream := strings.ReplaceAll("event: a\ndata: "+strings.Repeat("x", size)+"\n\ndata: 1\n\n", "\n", end)
			r := NewReader(&pieces{stream, rand.New(rand.NewPCG(1, 1))})
			r.max = 100
			var raw string
			var names []string
			for {
				e, err := r.Next()
				raw += string(e.Raw)
				if !e.Comment && !e.Partial {
					names = append(names, fmt.Sprintf("%s %t %d", e.Name, e.Long, len(e.Data)))
				}
				if len(e.Raw) > 101 {
					t.Fatalf("a piece of %d bytes", len(e.Raw))
				}
				if err != nil {
					break
				}
			}
			if long := fmt.Sprint(size > 80); raw != stream || len(names) != 2 || !strings.HasPrefix(names[0], "a "+long) || names[1] != " false 1" {
				t.Errorf("%q, %d: %q", end, size, names)
			}
		}
	}
}

func TestTypesOfStreams(t *testing.T) {
	for kind, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream; charset=UTF-8": true, "TEXT/EVENT-STREAM;;": true, " text/event-stream ": true,
		"text/event-streams": false, "application/json": false, "": false,
	} {
		if IsStream(kind) != want {
			t.Errorf("%q: %t", kind, !want)
		}
	}
}
