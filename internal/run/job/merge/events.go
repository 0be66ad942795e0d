package merge

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// maxEvent bounds a line of events.jsonl, in bytes. Longer ones are left out: results never depend
// on events.
const maxEvent = 1 << 20

// writeEvents writes the events of all shards in the order of their times. The events of one shard
// keep their order.
func (m *merge) writeEvents(ctx context.Context, path string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 1<<18)
	defer func() { err = errors.Join(err, w.Flush(), out.Close()) }()
	var streams eventStreams
	defer func() {
		for _, s := range streams {
			_ = s.file.Close() // was only read
		}
	}()
	for _, p := range m.parts {
		f, err := nofollow.Open(filepath.Join(p.dir, result.EventsFile))
		if err != nil {
			m.note("the events of shard %s cannot be read: %v", p.name(), err)
			continue
		}
		s := &eventStream{file: f, index: p.index, in: untrusted.NewLineReader(f, maxEvent)}
		if s.next() {
			streams = append(streams, s)
		} else if err := f.Close(); err != nil {
			return err
		}
	}
	heap.Init(&streams)
	for n := 0; len(streams) > 0; n++ {
		if n%10_000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s := streams[0]
		if _, err := w.Write(s.line); err != nil {
			return fmt.Errorf("write the events: %w", err)
		}
		if s.next() {
			heap.Fix(&streams, 0)
		} else if err := heap.Pop(&streams).(*eventStream).file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// eventStream is one shard's events.jsonl.
type eventStream struct {
	file  *os.File
	in    *untrusted.LineReader
	index int
	line  []byte // the next event, with its line break; valid until next
	at    int64  // its time, in nanoseconds
}

// next reads the next whole event. It reports false at the end.
func (s *eventStream) next() bool {
	for {
		line, err := s.in.Next()
		if err != nil {
			return false // also a last line without an end: the shard was killed while it wrote it
		}
		if len(line) > maxEvent || len(line) < 3 || line[0] != '{' || line[len(line)-2] != '}' {
			continue
		}
		s.line = line
		// If times in one file go back (several goroutines emit events), or an event has none, it
		// directly follows the one before it.
		s.at = eventTime(line)
		return true
	}
}

// eventTime returns the time that an event's line begins with, in nanoseconds, and 0 if it begins
// with none.
func eventTime(line []byte) int64 {
	rest, ok := bytes.CutPrefix(line, []byte(`{"time":"`))
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 || end > len(time.RFC3339Nano) {
		return 0
	}
	at, err := time.Parse(time.RFC3339Nano, string(rest[:end]))
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		return 0
	}
	return at.UnixNano()
}

// eventStreams is a heap: the stream with the earliest event first.
type eventStreams []*eventStream

func (h *eventStreams) Len() int { return len(*h) }

func (h *eventStreams) Less(i, j int) bool {
	a, b := (*h)[i], (*h)[j]
	return a.at < b.at || a.at == b.at && a.index < b.index
}

func (h *eventStreams) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

func (h *eventStreams) Push(x any) { *h = append(*h, x.(*eventStream)) }

func (h *eventStreams) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
