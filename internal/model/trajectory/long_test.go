package trajectory

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/test/testenv"
)

// longRecord writes a record of n turns whose messages have size bytes: of an agent, of a sub-agent
// that it calls at every tenth turn, and of their continuations after compactions.
func longRecord(t *testing.T, w io.Writer, n, size int) {
	t.Helper()
	r := model.NewRecorder(w, 1<<40)
	filler := strings.Repeat("some words ", size/11)
	system := text("system", "You are.")
	begin := []model.Message{system, text("user", "Do it. "+filler)}
	talk := begin
	record := func(i int, agent string, tools []model.Tool, answer model.Message, messages []model.Message) {
		at := time.Date(2026, 11, 23, 5, 0, i, 0, time.UTC)
		err := r.Record(model.Turn{
			N: i, Agent: agent, Began: at, Ended: at.Add(time.Millisecond), Whole: true, Cost: new(0.25),
			Conversation: model.Conversation{Messages: messages, Tools: tools},
			Answer:       model.Answer{Message: answer, Model: "small-1", Usage: model.Usage{Input: new(int64(i)), Output: new(int64(1))}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		id := fmt.Sprint("c", i)
		if i%10 == 9 { // of a sub-agent
			record(i+1, "helper", nil, text("assistant", "Found. "+filler), []model.Message{system, text("user", fmt.Sprintf("Look for the bug %04d", i-1))})
			continue
		}
		if i%20 == 15 { // a compaction
			talk = []model.Message{system, text("user", fmt.Sprint("You have come to ", i))}
		}
		answer := call(id, "task", fmt.Sprintf(`{"prompt":"Look for the bug %04d","more":"%s"}`, i, filler))
		record(i+1, "main", shell, answer, talk)
		talk = append(talk[:len(talk):len(talk)], answer, came(id, "It is here. "+filler, false))
	}
}

// watched measures the heap while a record is read and a trajectory is written.
type watched struct {
	r     io.ReaderAt
	every int64 // bytes between two measurements
	next  int64
	began uint64
	most  uint64
	bytes int64 // that were written
}

func watch(r io.ReaderAt, every int64) *watched { return &watched{r: r, every: every, began: live()} }

// live returns the bytes of the heap that are in use.
func live() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (w *watched) moved(n int) {
	if w.next -= int64(n); w.next < 0 {
		w.next = w.every
		w.most = max(w.most, live())
	}
}

func (w *watched) ReadAt(p []byte, at int64) (int, error) {
	n, err := w.r.ReadAt(p, at)
	w.moved(n)
	return n, err
}

func (w *watched) Write(p []byte) (int, error) {
	w.bytes += int64(len(p))
	w.moved(len(p))
	return len(p), nil
}

// held returns by how many bytes the used heap has grown since the beginning.
func (w *watched) held() int64 { return int64(w.most) - int64(w.began) }

func TestALongRecordIsNotInMemory(t *testing.T) {
	testenv.Long(t, "it converts a record of 160 MB")
	f, err := os.Create(filepath.Join(t.TempDir(), "trajectory.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := bufio.NewWriter(f)
	longRecord(t, b, 2000, 40_000)
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() < 140e6 || info.Size() > 200e6 {
		t.Fatalf("%+v, %v", info, err)
	}
	const most = 16 << 20
	atif, err := os.Create(filepath.Join(t.TempDir(), "trajectory.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer atif.Close()
	for name, use := range map[string]func(w *watched, r *io.SectionReader) error{
		"converted": func(w *watched, r *io.SectionReader) error {
			return Convert(io.MultiWriter(w, atif), r, About{ID: "x", Agent: "a"})
		},
		"branches": func(w *watched, r *io.SectionReader) error {
			record, err := Read(r, 0)
			if err != nil {
				return err
			}
			return record.Branches("x", func(b *Branch) error {
				return b.Messages(func(m ChatMessage) error {
					_, err := w.Write([]byte(m.Content))
					return err
				})
			})
		},
	} {
		w := watch(f, 2<<20)
		if err := use(w, io.NewSectionReader(w, 0, info.Size())); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%s: %d bytes held, %d written", name, w.held(), w.bytes)
		if w.held() > most || w.bytes < 70e6 {
			t.Errorf("%s: %d bytes are held at most, %d written; want at most %d held", name, w.held(), w.bytes, most)
		}
	}
	w := watch(atif, 2<<20)
	if info, err = atif.Stat(); err != nil {
		t.Fatal(err)
	}
	sections := 0
	reply, err := Transcript(io.NewSectionReader(w, 0, info.Size()), func(s string) string { return s[:min(len(s), 100)] }, func(string) { sections++ })
	if t.Logf("transcript: %d bytes held", w.held()); err != nil || reply == "" || sections < 2000 || w.held() > most {
		t.Errorf("transcript: %d bytes are held, %d sections, %v", w.held(), sections, err)
	}
}

// slowly is a reader of one byte at a time.
type slowly struct{ r io.ReaderAt }

func (s slowly) ReadAt(p []byte, at int64) (int, error) {
	for i := range p {
		if _, err := s.r.ReadAt(p[i:i+1], at+int64(i)); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// The result must not depend on the texts in the cache.
func TestAllTextsAreReadAgain(t *testing.T) {
	var record bytes.Buffer
	longRecord(t, &record, 300, 100)
	want, out, err := convert(record.String())
	if err != nil {
		t.Fatal(err)
	}
	check(t, out)
	refs, compactions := strings.Count(string(want), "subagent_trajectory_ref"), strings.Count(string(want), `"compaction"`)
	if len(out.Subagents) != 30 || refs != 29 || compactions != 15 {
		t.Errorf("%d trajectories of sub-agents, %d of them named (the last one has not returned), %d compactions", len(out.Subagents), refs, compactions)
	}
	x, err := read(io.NewSectionReader(slowly{bytes.NewReader(record.Bytes())}, 0, int64(record.Len())), 0)
	if err != nil {
		t.Fatal(err)
	}
	x.maxCache, x.maxBatch = 0, 1
	var got bytes.Buffer
	if err := x.convert(&got, About{ID: "a/tests/one__1", Agent: "a"}); err != nil || !bytes.Equal(got.Bytes(), want) || len(x.cached) > 0 {
		t.Errorf("%v, %d cached: %s", err, len(x.cached), got.Bytes())
	}
}

// changing is a record whose content changes after the first read.
type changing struct {
	first, then io.ReaderAt
	size        int64
	read        int64
}

func (c *changing) ReadAt(p []byte, at int64) (int, error) {
	if c.read >= c.size {
		return c.then.ReadAt(p, at)
	}
	n, err := c.first.ReadAt(p, at)
	c.read += int64(n)
	return n, err
}

func TestARecordThatChangesIsAnError(t *testing.T) {
	var one bytes.Buffer
	longRecord(t, &one, 12, 100)
	text := one.String()
	for name, other := range map[string]string{
		"no JSON":       strings.Repeat("x", len(text)),
		"cut off":       text[:len(text)/2],
		"other numbers": strings.ReplaceAll(text, `"id":`, `"ix":`),
		"other parts":   strings.ReplaceAll(text, `"parts":`, `"parto":`),
	} {
		r := &changing{first: strings.NewReader(text), then: strings.NewReader(other), size: int64(len(text))}
		if err := Convert(io.Discard, io.NewSectionReader(r, 0, r.size), About{ID: "x", Agent: "a"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// endless is a file that repeats its last character without end.
type endless string

func (e endless) ReadAt(p []byte, at int64) (int, error) {
	for i := range p {
		p[i] = e[min(at+int64(i), int64(len(e)-1))]
	}
	return len(p), nil
}

func TestBoundsOfRecords(t *testing.T) {
	convert := func(text endless, size int64) string {
		err := Convert(io.Discard, io.NewSectionReader(text, 0, size), About{})
		if !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v", text, err)
		}
		return fmt.Sprint(err)
	}
	if got := convert("\n", MaxRecord+1); got != "the record has more than 2048 MiB" {
		t.Error(got)
	}
	for _, text := range []endless{`{"turn":1,"messages":[{"id":1,"role":"user`, `{"tools":["x`, `{"requested_model":"x`} {
		if got := convert(text, maxValue*2); got != "a message of the record has more than 64 MiB" {
			t.Errorf("%s: %s", text, got)
		}
	}
	var many strings.Builder
	for many.Len() < maxIndex/50 {
		many.WriteString("{\"messages\":[" + strings.Repeat("{},", 10_000) + "{}]}\n")
	}
	if err := Convert(io.Discard, section(many.String()), About{}); !errors.Is(err, ErrTooLong) || !strings.HasPrefix(err.Error(), "the record has too many messages and calls") {
		t.Error(err)
	}
}
