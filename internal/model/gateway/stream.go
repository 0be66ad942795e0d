package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/sse"
	"github.com/org/rollout-action/internal/model/tokens"
)

// piece is an event of a stream, or its end.
type piece struct {
	event   sse.Event
	changed bool // the key was hidden in it
	err     error
}

// isStream reports whether an answer is a stream. It accepts other types or none, as clients that
// have asked for a stream do.
func (x *exchange) isStream(answer *http.Response) bool {
	kind := answer.Header.Get("Content-Type")
	if answer.Header.Get("Content-Encoding") != "" { // an unknown encoding: the answer is passed on unchanged
		return false
	}
	if sse.IsStream(kind) || !x.streams || strings.Contains(strings.ToLower(kind), "json") {
		return sse.IsStream(kind)
	}
	from := bufio.NewReader(answer.Body)
	begin, err := from.Peek(1)
	answer.Body = struct {
		io.Reader
		io.Closer
	}{from, answer.Body}
	return err == nil && !strings.ContainsAny(string(begin), "{[<\"")
}

// relayStream passes on the events of a stream as they come, byte for byte. The last one waits
// until the turn is stored.
func (x *exchange) relayStream(answer *http.Response) {
	x.m.header(x.w.Header(), answer.Header)
	x.w.WriteHeader(answer.StatusCode)
	out := http.NewResponseController(x.w)
	defer context.AfterFunc(x.r.Context(), x.w.cut)() // a client that takes nothing must not hold up the end of the session
	_ = out.Flush()                                   // the next write fails, too
	pieces := make(chan piece, 4)                     // events may be long
	done := make(chan struct{})
	defer close(done)
	go readEvents(answer.Body, pieces, done, x.m.hideKey)
	reader, ids := x.reader, x.tokens
	idle := time.NewTimer(x.s.opts.KeepAlive)
	defer idle.Stop()
	var last []byte // data of the latest event
	var held bytes.Buffer
	inside := false // of a long event
	for {
		var p piece
		select {
		case p = <-pieces:
		case <-idle.C:
			if held.Len() == 0 && !inside {
				_, _ = x.w.Write(x.p.KeepAlive(last)) // if the client is gone, the context ends
				_ = out.Flush()
			}
			idle.Reset(x.s.opts.KeepAlive)
			continue
		}
		if p.err != nil {
			x.endStream(out, reader, ids, &held, p.err)
			return
		}
		if x.turn.FirstByte.IsZero() {
			x.turn.FirstByte = time.Now()
		}
		inside = p.event.Partial
		if p.event.Comment && held.Len() == 0 {
			continue // the gateway sends signs of life in a form that clients of the protocol accept
		}
		hide, ends := p.read(reader, ids)
		if len(p.event.Data) > 0 {
			last = p.event.Data
		}
		if hide {
			continue
		}
		if ends || held.Len() > 0 {
			held.Write(p.event.Raw)
			if ends && !x.p.Facts().NoLastEvent {
				x.endStream(out, reader, ids, &held, io.EOF)
				return
			}
			continue
		}
		if _, err := x.w.Write(p.event.Raw); err != nil {
			x.turn.Answer, _ = reader.Answer()
			x.cut(err)
			x.abort = true
			return
		}
		if len(pieces) == 0 {
			_ = out.Flush() // the next write fails, too
		}
		idle.Reset(x.s.opts.KeepAlive)
	}
}

// read gives the event to the readers, and removes from it what only Rollout asked for. hide: the
// client must not get the event. ends: it is the last one.
func (p *piece) read(reader model.StreamReader, ids *tokens.Reader) (hide, ends bool) {
	hide, ends = reader.Read(p.event)
	if ids != nil && len(p.event.Data) > 0 {
		ids.Read(p.event.Data)
		ids.Broken = ids.Broken || p.changed
		var drop bool
		p.event, drop = ids.HideEvent(p.event)
		hide = hide || drop
	}
	return hide, ends
}

// endStream stores the turn and sends its last event. A stream that was cut off is aborted.
func (x *exchange) endStream(out *http.ResponseController, reader model.StreamReader, ids *tokens.Reader, held *bytes.Buffer, err error) {
	var whole bool
	x.turn.Answer, whole = reader.Answer()
	x.turn.Answer.Tokens = ids.Tokens()
	x.turn.Ended = time.Now()
	whole = api.Ended(x.p, x.turn.Answer, whole, err)
	x.turn.Whole = whole && (errors.Is(err, io.EOF))
	switch failed := x.turn.Answer.Failed; {
	case failed != "":
		x.fail(model.FailedProvider, http.StatusOK, failed)
		x.broke, x.refused = true, x.turn.Answer.Empty()
		if api.Overflows(http.StatusBadRequest, failed) {
			x.turn.Failure.Kind, x.broke = model.FailedOverflow, false
		}
		x.abort = !x.turn.Whole && !errors.Is(err, io.EOF)
	case !x.turn.Whole:
		x.cut(err)
		x.abort = true
	}
	if x.keep() != nil {
		x.abort = true
		return
	}
	_, _ = x.w.Write(held.Bytes()) // fails if the client is gone
	_ = out.Flush()                // also after a stream that broke off: closing the connection would discard unsent data
}

// readEvents sends the events of a stream, and its end.
func readEvents(from io.Reader, to chan<- piece, done <-chan struct{}, hide func([]byte) []byte) {
	r := sse.NewReader(from)
	for {
		e, err := r.NextTaken()
		said := e.Raw
		e.Raw, e.Data = hide(said), hide(e.Data)
		select {
		case to <- piece{e, !bytes.Equal(said, e.Raw), err}:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}
