package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/moby/sys/atomicwriter"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/tokens"
)

// exchange is a request and its answer, as they are in a file.
type exchange struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	API     model.API `json:"api"`
	Asked   content   `json:"asked"`
	Status  int       `json:"status"`
	Type    string    `json:"content_type"`
	Body    string    `json:"body"`

	trial string
	n     int // of those of the trial with the same content, from 1
	// hidden: the request contained a secret, which the ids of its tokens would reveal.
	hidden bool
}

const (
	formatVersion = 1
	// maxAnswer bounds an answer that is recorded, in bytes.
	maxAnswer = 64 << 20
)

// Recorder passes requests on and keeps them with their answers in files. Several Recorders, also
// of other processes, may write to one directory. It is safe for concurrent use.
type Recorder struct {
	dir      string
	upstream http.RoundTripper
	hide     func([]byte) []byte

	mu     sync.Mutex
	failed error
}

// NewRecorder returns a Recorder that writes below dir, which it creates. It removes drafts that a
// killed Recorder has left there. hide removes secrets.
func NewRecorder(dir string, upstream http.RoundTripper, hide func([]byte) []byte) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	removeDrafts(dir, time.Now().Add(-draftAge))
	return &Recorder{dir: dir, upstream: upstream, hide: hide}, nil
}

// draft matches the temporary files of atomicwriter. Writing one takes milliseconds, so one that is
// draftAge old is abandoned.
var draft = regexp.MustCompile(`^\.tmp-[0-9a-f]+-[0-9]+\.json[0-9]+$`)

const draftAge = time.Hour

// removeDrafts removes drafts that were last written before a time. It ignores errors: replays do
// not read drafts.
func removeDrafts(dir string, before time.Time) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !draft.MatchString(d.Name()) {
			return nil //nolint:nilerr // as above
		}
		if info, err := d.Info(); err == nil && info.ModTime().Before(before) {
			_ = root.Remove(at) // as above
		}
		return nil
	})
}

// CloseIdleConnections closes the idle connections of the upstream.
func (r *Recorder) CloseIdleConnections() {
	(&http.Client{Transport: r.upstream}).CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper. After an exchange could not be written, it returns a
// model.GatewayError: a record with gaps is useless.
func (r *Recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	p, action := protocolOf(q)
	caller := model.CallerOf(q.Context())
	if action != model.ActionTurn || caller == nil { // only turns of sessions can be replayed
		return r.upstream.RoundTrip(q)
	}
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if failed != nil {
		return nil, &model.GatewayError{Err: failed}
	}
	body, err := readBody(q)
	if err != nil {
		return nil, err
	}
	answer, err := r.upstream.RoundTrip(q)
	if err != nil || !lasting(answer.StatusCode) {
		return answer, err
	}
	asked, hidden := contentOf(p, q.URL.Path, body, r.hide)
	answer.Body = &recording{ReadCloser: answer.Body, r: r, caller: caller, x: exchange{
		Version: formatVersion, At: time.Now().UTC(), API: p.Facts().Name, Asked: asked, Status: answer.StatusCode, Type: answer.Header.Get("Content-Type"),
		hidden: hidden,
	}}
	return answer, nil
}

// protocolOf returns the protocol of a request: that of the caller if there is one, because
// providers serve protocols below other paths.
func protocolOf(q *http.Request) (api.Protocol, model.Action) {
	if c := model.CallerOf(q.Context()); c != nil {
		return api.Named(c.API), c.Action
	}
	return api.Of(q.URL.Path)
}

// lasting reports whether the same request would be answered with the same status again.
func lasting(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return status/100 == 2
}

// readBody returns the body of a request, which can be read again.
func readBody(q *http.Request) ([]byte, error) {
	if q.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(q.Body)
	q.Body.Close()
	q.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// recording is the body of an answer that is recorded while it is read.
type recording struct {
	io.ReadCloser
	r      *Recorder
	caller *model.Caller
	x      exchange
	once   sync.Once

	mu   sync.Mutex // Close is called during a Read
	text bytes.Buffer
	cut  bool // by an error
}

func (b *recording) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text.Len() <= maxAnswer {
		b.text.Write(p[:n])
	}
	b.cut = b.cut || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// Close implements io.Closer. It records the bytes read so far if they are a whole answer: readers
// of streams do not read beyond the last event.
func (b *recording) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.cut || b.text.Len() > maxAnswer || b.x.Status/100 == 2 && !api.IsWhole(api.Named(b.x.API), b.x.Type, b.text.Bytes()) {
			return
		}
		safe := b.safe(b.text.Bytes())
		if b.x.hidden || !bytes.Equal(safe, b.text.Bytes()) {
			safe = b.safe(tokens.Without(b.x.Type, b.text.Bytes()))
		}
		b.x.Body = string(safe)
		if failed := b.r.write(b.caller, b.x); failed != nil {
			b.r.mu.Lock()
			b.r.failed = failed
			b.r.mu.Unlock()
		}
	})
	return err
}

// safe returns an answer without secrets, also without those that are spread over several events.
func (b *recording) safe(answer []byte) []byte {
	return hideJoined(b.x.Type, b.r.hide(answer), b.r.hide)
}

// write writes an exchange to a file, atomically.
func (r *Recorder) write(c *model.Caller, x exchange) error {
	if !utf8.ValidString(x.Body) {
		return nil // no protocol has such answers
	}
	digest := x.Asked.digest()
	n := c.Count(digest)
	dir := filepath.Join(r.dir, filepath.FromSlash(c.Name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("record an exchange: %w", err)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(x); err != nil {
		return fmt.Errorf("record an exchange: %w", err)
	}
	if err := atomicwriter.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.json", digest, n)), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("record an exchange: %w", err)
	}
	return nil
}
