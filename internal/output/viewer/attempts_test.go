package viewer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
)

// measured is a directory that counts the bytes that are read of results.
type measured struct {
	fs.FS
	read map[string]int
}

func (c measured) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil || path.Base(name) != result.ResultFile {
		return f, err
	}
	return measuredFile{f, func(n int) { c.read[name] += n }}, nil
}

func (c measured) Lstat(name string) (fs.FileInfo, error)     { return fs.Lstat(c.FS, name) }
func (c measured) ReadLink(name string) (string, error)       { return fs.ReadLink(c.FS, name) }
func (c measured) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }

type measuredFile struct {
	fs.File
	count func(int)
}

func (f measuredFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.count(n)
	return n, err
}

// putAttempt writes an attempt whose agent said something. Its result has some bytes more.
func putAttempt(t *testing.T, dir string, key result.Key, reward float64, text string, more int64) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(key.Dir()))
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(at, result.ResultFile)
	said := `{"steps": [{"source": "agent", "message": "begin"}, {"source": "agent", "message": "` + text + `"}]}`
	if err := errors.Join(result.WriteJSON(file, result.Trial{Key: key, Reward: &reward}), os.WriteFile(filepath.Join(at, result.ATIFFile), []byte(said), 0o644)); err != nil {
		t.Fatal(err)
	}
	if more == 0 {
		return
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(strings.Repeat("\n", int(more)))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// counting returns the server of a job without trials, and counts its reads of results.
func counting(t *testing.T) (*Server, *shelf, map[string]int) {
	t.Helper()
	s, shelf := shelved(t, nil)
	if err := os.RemoveAll(filepath.Join(shelf.dir, "a")); err != nil {
		t.Fatal(err)
	}
	read := map[string]int{}
	shelf.wrap = func(files fs.FS) fs.FS { return measured{files, read} }
	return s, shelf, read
}

func attempt(task string, n int) result.Key {
	return result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: n}
}

func pageOf(key result.Key) string { return "job/n/t/" + key.Dir() + "/" }

// Of many attempts with large results, a page reads some, and says how many it has not.
func TestAPageReadsFewBytesOfOtherAttempts(t *testing.T) {
	s, shelf, read := counting(t)
	const size, all = maxAttemptBytes / 4, 8
	for n := range all {
		putAttempt(t, shelf.dir, attempt("t", n+1), 0, fmt.Sprint("what attempt ", n+1, " said"), size)
	}
	r := ask(s, "GET", pageOf(attempt("t", all)))
	others := 0
	for file, n := range read {
		if path.Dir(file) != attempt("t", all).Dir() {
			others += n
		}
	}
	if others == 0 || others > maxAttemptBytes {
		t.Errorf("of other attempts, %d bytes were read", others)
	}
	if !strings.Contains(r.text, "Side by side with attempt 1, ") || !strings.Contains(r.text, "4 other attempts, whose results were not read") {
		t.Errorf("%d: the page does not have the first attempt, or does not say what is left out", r.StatusCode)
	}
	// Only one attempt is shown, so none is read after one that passed.
	clear(read)
	putAttempt(t, shelf.dir, attempt("t", 2), 1, "how it passed", 0)
	r = ask(s, "GET", pageOf(attempt("t", all)))
	if len(read) != 3 || !strings.Contains(r.text, "Side by side with attempt 2, reward 1") || strings.Contains(r.text, "were not read") {
		t.Errorf("with an attempt that passed, %d results were read", len(read))
	}
	// Those of the job are not read if the baseline has one.
	clear(read)
	base := t.TempDir()
	putAttempt(t, base, attempt("t", 1), 0, "what the baseline said", 0)
	shelf.base = os.DirFS(base)
	r = ask(s, "GET", pageOf(attempt("t", all)))
	if len(read) != 1 || !strings.Contains(r.text, "Side by side with the baseline&#39;s attempt 1") {
		t.Errorf("with a baseline, %d results were read", len(read))
	}
}

// Requests that wait for room, or only ask whether a page has changed, hold no results.
func TestResultsAreReadOnlyWithRoomForAPage(t *testing.T) {
	s, shelf, read := counting(t)
	putAttempt(t, shelf.dir, attempt("t", 1), 0, "what it said", 0)
	for range maxPages {
		s.making <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	url := "http://127.0.0.1:4321/" + s.token + "/" + pageOf(attempt("t", 1))
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url, http.NoBody).WithContext(ctx))
	head := ask(s, http.MethodHead, pageOf(attempt("t", 1)))
	if len(read) > 0 || head.StatusCode != http.StatusOK {
		t.Errorf("without room, the server read %v; HEAD: %d", read, head.StatusCode)
	}
}

// The attempt whose page it is counts as read, however many there are before it.
func TestTheLastOfManyAttemptsHasAPage(t *testing.T) {
	s, shelf, _ := counting(t)
	const all = maxAttempts + 10
	for n := range all {
		putAttempt(t, shelf.dir, attempt("t", n+1), 0, fmt.Sprint("what attempt ", n+1, " said"), 0)
	}
	r := ask(s, "GET", pageOf(attempt("t", all)))
	if !strings.Contains(r.text, "Side by side with attempt 1, ") || !strings.Contains(r.text, "9 other attempts, whose results were not read") {
		t.Errorf("%d: the page lacks the comparison, or what is left out", r.StatusCode)
	}
	job := Job{Files: os.DirFS(shelf.dir)}
	in, _ := job.compare(attempt("t", all).Dir()).input(result.Trial{Key: attempt("t", all)}, page.HasResult)
	if !slices.ContainsFunc(in.Trials, func(t result.Packed) bool { return t.Key().Attempt == all }) || len(in.Trials) != maxAttempts+1 {
		t.Errorf("%d attempts, and its own is missing", len(in.Trials))
	}
}

// The tag of a page changes with each attempt that it may show.
func TestOtherAttemptsChangeThePageOfATrial(t *testing.T) {
	s, shelf, _ := counting(t)
	base := t.TempDir()
	shelf.base = os.DirFS(base)
	tag := ""
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"its own conversation", func() { putAttempt(t, shelf.dir, attempt("t", 1), 0, "what it said", 0) }},
		{"another attempt", func() { putAttempt(t, shelf.dir, attempt("t", 2), 0, "what it said", 0) }},
		{"the result of another attempt", func() { putAttempt(t, shelf.dir, attempt("t", 2), 0, "what it said", 1) }},
		{"the conversation of another attempt", func() { putAttempt(t, shelf.dir, attempt("t", 2), 0, "what it said at last", 1) }},
		{"an attempt of the baseline", func() { putAttempt(t, base, attempt("t", 1), 0, "what it said", 0) }},
		{"the conversation of the baseline", func() { putAttempt(t, base, attempt("t", 1), 0, "what it said at last", 0) }},
	} {
		c.change()
		r := ask(s, "GET", pageOf(attempt("t", 1)), "If-None-Match", tag)
		if r.StatusCode != http.StatusOK || r.Header.Get("ETag") == tag {
			t.Errorf("%s changed: %d", c.what, r.StatusCode)
		}
		tag = r.Header.Get("ETag")
		if again := ask(s, "GET", pageOf(attempt("t", 1)), "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("after %s, unchanged: %d", c.what, again.StatusCode)
		}
	}
}

// Only the last __ of a name is before the number of the attempt.
func TestAttemptsAtTasksWithUnderscores(t *testing.T) {
	s, shelf, _ := counting(t)
	putAttempt(t, shelf.dir, attempt("x", 1), 1, "another task", 0)
	putAttempt(t, shelf.dir, attempt("x", 3), 1, "another task", 0)
	putAttempt(t, shelf.dir, attempt("x__1", 1), 0, "what it said first", 0)
	putAttempt(t, shelf.dir, attempt("x__1", 2), 0, "what it said second", 0)
	putAttempt(t, shelf.dir, attempt("x__1__1", 1), 1, "a third task", 0)
	if err := os.MkdirAll(filepath.Join(shelf.dir, "a/d/x__1__007"), 0o755); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{1: "what it said second", 2: "what it said first"} {
		r := ask(s, "GET", pageOf(attempt("x__1", n)))
		if !strings.Contains(r.text, want) || strings.Contains(r.text, "another task") || strings.Contains(r.text, "a third task") {
			t.Errorf("attempt %d: %d, not side by side with the other attempt at its task", n, r.StatusCode)
		}
	}
	if got := (&Job{Files: os.DirFS(shelf.dir)}).attempts("a/d/x__1__1", 0).dirs; !slices.Equal(got, []string{"a/d/x__1__1", "a/d/x__1__2"}) {
		t.Errorf("the attempts are %q", got)
	}
}
