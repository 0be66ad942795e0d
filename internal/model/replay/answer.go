package replay

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/sse"
)

// Replay answers requests from recorded exchanges. It is safe for concurrent use.
type Replay struct {
	dir  string
	hide func([]byte) []byte
	// by maps contents to their exchanges, in the order of trials and of n.
	by map[string][]*exchange
	n  int
}

// ErrEmpty is returned for a directory without recorded exchanges.
var ErrEmpty = errors.New("there are no recorded exchanges")

// eachFile calls f with each file of a directory of recordings, in lexical order, and with its path
// below the directory.
func eachFile(dir string, f func(at, below string) error) error {
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || filepath.Ext(at) != ".json" || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		below, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		return f(at, below)
	})
}

// Digest returns the digest of the names and contents of the recordings in a directory. It does not
// hold files in memory.
func Digest(dir string) (string, error) {
	all := sha256.New()
	err := eachFile(dir, func(at, below string) error {
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		one := sha256.New()
		if _, err := io.Copy(one, f); err != nil {
			return err
		}
		fmt.Fprintf(all, "%q %x\n", filepath.ToSlash(below), one.Sum(nil))
		return nil
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(all.Sum(nil)), nil
}

// Open reads the recordings in a directory. hide removes secrets, as it did when they were made.
func Open(dir string, hide func([]byte) []byte) (*Replay, error) {
	r := &Replay{dir: dir, hide: hide, by: map[string][]*exchange{}}
	err := eachFile(dir, func(at, below string) error {
		x, err := read(at)
		if err != nil {
			return fmt.Errorf("%s: %w", below, err)
		}
		x.trial = path.Dir(filepath.ToSlash(below))
		_, number, _ := strings.Cut(strings.TrimSuffix(filepath.Base(at), ".json"), "-")
		x.n, _ = strconv.Atoi(number) // 0 for files that were renamed
		// Apply the rules of this version: it may recognise more volatile texts than the one that
		// wrote the file.
		x.Asked = x.Asked.steady()
		digest := x.Asked.digest()
		r.by[digest] = append(r.by[digest], x)
		r.n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.n == 0 {
		return nil, ErrEmpty
	}
	for _, list := range r.by {
		slices.SortFunc(list, func(a, b *exchange) int { return cmp.Or(cmp.Compare(a.trial, b.trial), cmp.Compare(a.n, b.n)) })
	}
	return r, nil
}

// Len returns the number of exchanges.
func (r *Replay) Len() int { return r.n }

// maxFile bounds a file with an exchange. Its texts are escaped, and so longer.
const maxFile = 4 * maxAnswer

func read(at string) (*exchange, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	text, err := os.ReadFile(at)
	if err != nil {
		return nil, err
	}
	x := new(exchange)
	if err := bounded.Unmarshal(text, x); err != nil {
		return nil, err
	}
	if x.Version != formatVersion || x.Status < 100 || x.Status > 999 {
		return nil, fmt.Errorf("it is no recorded exchange of version %d", formatVersion)
	}
	return x, nil
}

// RoundTrip implements http.RoundTripper. If no exchange fits, it returns a *model.MissError.
func (r *Replay) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := readBody(q)
	if err != nil {
		return nil, err
	}
	p, action := protocolOf(q)
	if action != model.ActionTurn {
		return response(q, http.StatusNotFound, "application/json", `{"error":{"message":"only answers of the model are recorded"}}`, time.Time{}), nil
	}
	asked, _ := contentOf(p, q.URL.Path, body, r.hide)
	digest := asked.digest()
	// An answer fits only in the protocol of the request, and as a stream only if the request asks
	// for one.
	streams := p.Streams(q.URL.Path, body)
	list := slices.DeleteFunc(slices.Clone(r.by[digest]), func(x *exchange) bool {
		return x.API != p.Facts().Name || x.Status/100 == 2 && sse.IsStream(x.Type) != streams
	})
	if len(list) == 0 {
		return nil, &model.MissError{Difference: r.nearest(asked, p.Facts().Name)}
	}
	n := 1
	name := ""
	if c := model.CallerOf(q.Context()); c != nil {
		name, n = c.Name, c.Count(digest)
	}
	list = ofTrial(list, name)
	x := list[min(n, len(list))-1]
	return response(q, x.Status, x.Type, x.Body, x.At), nil
}

// ofTrial returns the exchanges of one recorded trial: the trial with this name, else an attempt at
// the same task, else any, so that additional attempts get the answers of all in turn. list is
// sorted by trials and not empty.
func ofTrial(list []*exchange, name string) []*exchange {
	attempt := 1
	task, number := cutLast(name, "__")
	if n, err := strconv.Atoi(number); err == nil {
		attempt = n
	}
	rank := func(x *exchange) int {
		of, _ := cutLast(x.trial, "__")
		switch {
		case x.trial == name:
			return 0
		case of == task:
			return 1
		case withoutFirst(of) == withoutFirst(task): // another agent
			return 2
		}
		return 3
	}
	best := rank(slices.MinFunc(list, func(a, b *exchange) int { return cmp.Compare(rank(a), rank(b)) }))
	list = slices.DeleteFunc(slices.Clone(list), func(x *exchange) bool { return rank(x) != best })
	var trials []string
	for _, x := range list {
		trials = append(trials, x.trial)
	}
	trials = slices.Compact(trials)
	chosen := trials[(max(1, attempt)-1)%len(trials)]
	return slices.DeleteFunc(list, func(x *exchange) bool { return x.trial != chosen })
}

func cutLast(s, sep string) (before, after string) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+len(sep):]
}

func withoutFirst(name string) string {
	_, rest, _ := strings.Cut(name, "/")
	return rest
}

// recorded is the body of a recorded answer.
type recorded struct {
	*bytes.Reader
	at time.Time
}

// RecordedAt returns when the answer was given.
func (r recorded) RecordedAt() time.Time { return r.at }

// Close implements io.Closer.
func (recorded) Close() error { return nil }

func response(q *http.Request, status int, kind, body string, at time.Time) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: recorded{bytes.NewReader([]byte(body)), at}, ContentLength: int64(len(body)), Request: q,
	}
}

var _ io.ReadCloser = recorded{}
