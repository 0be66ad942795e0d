package viewer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
)

// shelf is a library with one job, "n".
type shelf struct {
	dir     string
	running bool
	read    int // how often its results were read
	base    fs.FS
	wrap    func(fs.FS) fs.FS // nil: its files are used as they are
}

func (s *shelf) Jobs(context.Context) ([]page.Listed, error) {
	return []page.Listed{{Name: "n", JobName: "n", State: "done"}}, nil
}

func (s *shelf) NoJobs() string { return "There are no jobs." }

func (s *shelf) Open(_ context.Context, name string) (*Job, error) {
	if name != "n" {
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	files := root.FS()
	if s.wrap != nil {
		files = s.wrap(files)
	}
	return &Job{Files: files, Dir: "jobs/n", Running: s.running, Close: root.Close, Base: func() (fs.FS, string) { return s.base, "jobs/base" }, Input: func(context.Context) (report.Input, error) {
		s.read++
		return report.Input{Job: result.Job{JobName: "n"}}, nil
	}}, nil
}

const trialDir = "a/d/t__1"

// shelved returns a server of a job whose trial has files.
func shelved(t *testing.T, files map[string]string) (*Server, *shelf) {
	t.Helper()
	s := &shelf{dir: filepath.Join(t.TempDir(), "n")}
	key := result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}
	put(t, s, "plan.json", "{}")
	for name, text := range files {
		put(t, s, trialDir+"/"+name, text)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, trialDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := result.WriteJSON(filepath.Join(s.dir, trialDir, result.ResultFile), result.Trial{Key: key, Reward: new(1.0)}); err != nil {
		t.Fatal(err)
	}
	return New(s, "Jobs", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4321}), s
}

func put(t *testing.T, s *shelf, name, text string) {
	t.Helper()
	file := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

type answer struct {
	StatusCode int
	Header     http.Header
	text       string
}

// ask returns the answer to a request for an address below the token.
func ask(s *Server, method, below string, header ...string) answer {
	return askAt(s, method, "/"+s.token+"/"+below, header...)
}

func askAt(s *Server, method, path string, header ...string) answer {
	r := httptest.NewRequest(method, "http://127.0.0.1:4321/", http.NoBody)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

func TestOnlyTheAddressWithTheTokenAnswers(t *testing.T) {
	s, _ := shelved(t, nil)
	for name, c := range map[string]struct {
		method, path string
		header       []string
		want         int
	}{
		"the index":                  {"GET", "/" + s.token + "/", nil, 200},
		"its head":                   {"HEAD", "/" + s.token + "/", nil, 200},
		"by the name of the machine": {"GET", "/" + s.token + "/", []string{"Host", "localhost:4321"}, 200},
		"without a slash":            {"GET", "/" + s.token, nil, 301},
		"no token":                   {"GET", "/", nil, 404},
		"a part of the token":        {"GET", "/" + s.token[:10] + "/", nil, 404},
		"more than the token":        {"GET", "/" + s.token + "x/", nil, 404},
		"a page without a token":     {"GET", "/job/n/", nil, 404},
		"another name":               {"GET", "/" + s.token + "/", []string{"Host", "evil.example:4321"}, 421},
		"another port":               {"GET", "/" + s.token + "/", []string{"Host", "127.0.0.1:1"}, 421},
		"no port":                    {"GET", "/" + s.token + "/", []string{"Host", "127.0.0.1"}, 421},
		"POST":                       {"POST", "/" + s.token + "/", nil, 405},
		"OPTIONS of another origin":  {"OPTIONS", "/" + s.token + "/", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "GET"}, 405},
		"DELETE":                     {"DELETE", "/" + s.token + "/job/n/", nil, 405},
	} {
		r := askAt(s, c.method, c.path, c.header...)
		if r.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, r.StatusCode, c.want)
		}
		for key := range r.Header {
			if strings.HasPrefix(key, "Access-Control-") {
				t.Errorf("%s: the answer has %s", name, key)
			}
		}
		if r.Header.Get("Referrer-Policy") != "no-referrer" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the headers are %v", name, r.Header)
		}
	}
}

func TestPagesAreFound(t *testing.T) {
	s, _ := shelved(t, map[string]string{"logs/verifier/stdout.txt": "what the verifier said\n"})
	for path, want := range map[string]string{
		"":                  "./job/n/",
		"job/n/":            "../../",
		"job/n/t/a/d/t__1/": "log/n/a/d/t__1/logs/verifier/stdout.txt",
		"log/n/a/d/t__1/logs/verifier/stdout.txt": "what the verifier said",
		"raw/n/a/d/t__1/logs/verifier/stdout.txt": "what the verifier said",
	} {
		r := ask(s, "GET", path)
		body := r.text
		if r.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d without %s", path, r.StatusCode, want)
		}
		if head := ask(s, "HEAD", path); head.StatusCode != http.StatusOK || head.text != "" || head.Header.Get("ETag") != r.Header.Get("ETag") {
			t.Errorf("HEAD %s: %d, %v", path, head.StatusCode, head.Header)
		}
	}
}

func TestNothingOutsideOfTrialsIsServed(t *testing.T) {
	s, shelf := shelved(t, map[string]string{"artifacts/x": "x"})
	outside := filepath.Join(filepath.Dir(shelf.dir), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(shelf.dir, trialDir)
	for link, to := range map[string]string{"link.txt": outside, "relative.txt": "../../../../secret.txt", "dir": filepath.Dir(outside), "inside.txt": "artifacts/x"} {
		if err := os.Symlink(to, filepath.Join(at, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(at, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"raw/n/", "log/n/"} {
		for _, path := range []string{
			"a/d/t__1/link.txt", "a/d/t__1/relative.txt", "a/d/t__1/dir/secret.txt", "a/d/t__1/inside.txt", "a/d/t__1/pipe", "a/d/t__1/artifacts",
			"a/d/t__1/../../../../secret.txt", "../secret.txt", "a/d/t__1//etc/passwd", "a/d/t__1/nothing", "plan.json", "a/d/t__1",
		} {
			r := ask(s, "GET", kind+path)
			if body := r.text; r.StatusCode == http.StatusOK || strings.Contains(body, "secret") {
				t.Errorf("%s%s: %d %s", kind, path, r.StatusCode, body)
			}
		}
	}
	for _, path := range []string{"job/", "job/../", "job/n", "job/n/t/", "job/n/t/a/d/", "job/n/t/a/d/t__2/", "job/n/t/a/d/t/", "job/other/", "raw/n/", "other/n/", "job/n/t/a/d/t__1"} {
		if r := ask(s, "GET", path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if body := ask(s, "GET", "job/n/t/a/d/t__1/").text; strings.Contains(body, "link.txt") || strings.Contains(body, "/pipe") || !strings.Contains(body, "artifacts/x") {
		t.Error("the page of the trial lists what is no file, or not what is one")
	}
}

// What an agent left is text in pages, and otherwise only kept: it never runs at the server's
// address.
func TestHostileArtifactsAreNeverShown(t *testing.T) {
	s, _ := shelved(t, map[string]string{
		"artifacts/x.html": "<script>pwned()</script>", "artifacts/x.svg": `<svg xmlns="http://www.w3.org/2000/svg" onload="pwned()"/>`, "artifacts/x.js": "pwned()",
		"artifacts/x.json": "<script>pwned()</script>", "artifacts/a\"; x=\r\n.html": "<script>pwned()</script>", "artifacts/noending": "<script>pwned()</script>",
	})
	for _, name := range []string{"x.html", "x.svg", "x.js", "x.json", "a\"; x=\r\n.html", "noending"} {
		r := ask(s, "GET", "raw/n/a/d/t__1/artifacts/"+name)
		kind := r.Header.Get("Content-Type")
		if r.StatusCode != http.StatusOK || kind != "application/octet-stream" && kind != "text/plain; charset=utf-8" {
			t.Errorf("%q: %d, %s", name, r.StatusCode, kind)
		}
		if !strings.HasPrefix(r.Header.Get("Content-Disposition"), "attachment") || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'; frame-ancestors 'none'; sandbox") {
			t.Errorf("%q: the headers are %v", name, r.Header)
		}
		shown := ask(s, "GET", "log/n/a/d/t__1/artifacts/"+name)
		if body := shown.text; strings.Contains(body, "<script>pwned") || strings.Contains(body, "<svg xmlns") {
			t.Errorf("%q: the page has it as HTML", name)
		}
		if policy := shown.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%q: the policy is %s", name, policy)
		}
	}
}

// A page of a job that runs changes its entity tag with each trial, and may ask its server for it.
// That of a job that has ended may not.
func TestPagesOfRunningJobsAreLive(t *testing.T) {
	s, shelf := shelved(t, map[string]string{"command/stdout.txt": "one\n"})
	const running, waiting = "job/n/t/a/d/t__2/", "job/n/t/a/d/t__3/"
	if r := ask(s, "GET", "job/n/"); strings.Contains(r.Header.Get("Content-Security-Policy"), "connect-src") {
		t.Error("the page of a job that has ended may ask servers")
	}
	shelf.running = true
	put(t, shelf, "a/d/t__2/command/stdout.txt", "begun\n")
	tags := map[string]string{}
	paths := []string{"job/n/", running, "log/n/a/d/t__2/command/stdout.txt"}
	for _, path := range append(paths, waiting) {
		r := ask(s, "GET", path)
		if tags[path] = r.Header.Get("ETag"); r.StatusCode != http.StatusOK || !strings.Contains(r.Header.Get("Content-Security-Policy"), "connect-src 'self';") {
			t.Errorf("%s: %d, %v", path, r.StatusCode, r.Header)
		}
		if !strings.Contains(r.text, `<meta http-equiv="refresh"`) {
			t.Errorf("%s is not refreshed without JavaScript", path)
		}
		if again := ask(s, "GET", path, "If-None-Match", tags[path]); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s, unchanged: %d", path, again.StatusCode)
		}
	}
	put(t, shelf, "a/d/t__2/command/stdout.txt", "begun\nmore\n")
	put(t, shelf, result.OutputsFile, "{}\n")
	for _, path := range paths {
		if r := ask(s, "GET", path, "If-None-Match", tags[path]); r.StatusCode != http.StatusOK {
			t.Errorf("%s, changed: %d", path, r.StatusCode)
		}
	}
	if body := ask(s, "GET", running).text; !strings.Contains(body, "more") {
		t.Error("the page of the trial has no new lines")
	}
}

// The page of a trial that runs has the logs of its steps, those of the step that runs first, and
// changes with them.
func TestLogsOfStepsOfARunningTrialAreLive(t *testing.T) {
	s, shelf := shelved(t, nil)
	shelf.running = true
	const trial, address = "a/d/t__2/", "job/n/t/a/d/t__2/"
	put(t, shelf, trial+"setup/stdout.txt", "installed\n")
	put(t, shelf, trial+"steps/build/command/stdout.txt", "builds\n")
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(shelf.dir, trial, "steps", "build"), before, before); err != nil {
		t.Fatal(err)
	}
	tag := ""
	for _, step := range []struct{ does, name, text string }{
		{"the first step ran", "", ""},
		{"another step begins", "steps/add/command/stdout.txt", "adds\n"},
		{"the step's agent writes more", "steps/add/command/stdout.txt", "adds\nmore\n"},
		{"its tests run", "steps/add/logs/verifier/stdout.txt", "tested\n"},
	} {
		if step.name != "" {
			put(t, shelf, trial+step.name, step.text)
		}
		r := ask(s, "GET", address, "If-None-Match", tag)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", step.does, r.StatusCode)
		}
		if again := ask(s, "GET", address, "If-None-Match", r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s, unchanged: %d", step.does, again.StatusCode)
		}
		tag = r.Header.Get("ETag")
	}
	text, last := ask(s, "GET", address).text, -1
	for _, want := range []string{"tested", "more", "builds", "installed"} {
		at := strings.Index(text, want)
		if at <= last {
			t.Errorf("%q is at %d, after %d", want, at, last)
		}
		last = at
	}
	if r := ask(s, "GET", "log/n/"+trial+"steps/add/command/stdout.txt"); r.StatusCode != http.StatusOK || !strings.Contains(r.Header.Get("Content-Security-Policy"), "connect-src 'self';") {
		t.Errorf("the log of a step: %d, %v", r.StatusCode, r.Header)
	}
}

func TestResultsOfTheJobThatWasShownLastAreKept(t *testing.T) {
	s, shelf := shelved(t, nil)
	for range 3 {
		ask(s, "GET", "job/n/")
	}
	if shelf.read != 1 {
		t.Errorf("the results were read %d times", shelf.read)
	}
	put(t, shelf, result.ResultFile, "{}")
	ask(s, "GET", "job/n/")
	if shelf.read != 2 {
		t.Errorf("after a change, the results were read %d times", shelf.read)
	}
}

// A verdict that comes after the results is seen.
func TestAVerdictChangesThePageOfAJob(t *testing.T) {
	server, s := shelved(t, nil)
	put(t, s, "result.json", "{}")
	tag := func() string {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, server.URL("n"), http.NoBody))
		return w.Header().Get("ETag")
	}
	before := tag()
	put(t, s, result.VerdictFile, "{}")
	if after := tag(); before == "" || after == before || s.read != 2 {
		t.Errorf("the page is %s before and %s after the verdict, and results were read %d times", before, after, s.read)
	}
}

// The page of a trial also shows another attempt: that of the baseline that ran with the job, or
// else one of the job.
func TestTrialPagesShowAnotherAttemptSideBySide(t *testing.T) {
	said := func(text string) string {
		return `{"steps": [{"source": "agent", "message": "begin"}, {"source": "agent", "message": "` + text + `"}]}`
	}
	s, shelf := shelved(t, map[string]string{result.ATIFFile: said("what it said first")})
	attempt := func(dir string, n int, reward float64, text string) {
		key := result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: n}
		if err := os.MkdirAll(filepath.Join(dir, key.Dir()), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			result.WriteJSON(filepath.Join(dir, key.Dir(), result.ResultFile), result.Trial{Key: key, Reward: &reward}),
			os.WriteFile(filepath.Join(dir, key.Dir(), result.ATIFFile), []byte(said(text)), 0o644),
		); err != nil {
			t.Fatal(err)
		}
	}
	const page = "job/n/t/" + trialDir + "/"
	if text := ask(s, "GET", page).text; strings.Contains(text, "Side by side") {
		t.Error("the only attempt is shown next to another")
	}
	attempt(shelf.dir, 2, 0, "what it said second")
	if text := ask(s, "GET", page).text; !strings.Contains(text, "Side by side with attempt 2, reward 0") || !strings.Contains(text, "what it said second") {
		t.Error("the second attempt is not shown next to the first")
	}
	base := t.TempDir()
	attempt(base, 1, 0, "what the baseline said")
	attempt(base, 2, 1, "how the baseline passed")
	shelf.base = os.DirFS(base)
	if text := ask(s, "GET", page).text; !strings.Contains(text, "Side by side with the baseline&#39;s attempt 2, reward 1") || !strings.Contains(text, "how the baseline passed") {
		t.Error("the baseline is not shown next to the attempt")
	}
	outside := t.TempDir()
	attempt(outside, 2, 1, "from outside")
	if err := errors.Join(os.RemoveAll(filepath.Join(base, "a")), os.Symlink(filepath.Join(outside, "a"), filepath.Join(base, "a"))); err != nil {
		t.Fatal(err)
	}
	if text := ask(s, "GET", page).text; strings.Contains(text, "from outside") || !strings.Contains(text, "Side by side with attempt 2") {
		t.Error("an attempt was read through a link")
	}
}

// A file of any size is shown in parts that begin and end with whole lines, and together are the
// file.
func TestPartsOfAFileAreTheFile(t *testing.T) {
	var b strings.Builder
	for i := range 40_000 {
		b.WriteString(strings.Repeat("x", i%60))
		b.WriteString("\n")
	}
	whole := b.String()
	for name, open := range map[string]func(text string) io.Reader{
		"a file":        func(text string) io.Reader { return strings.NewReader(text) },
		"in an archive": func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) },
	} {
		for kind, text := range map[string]string{"lines": whole, "one line": strings.Repeat("y", 3*page.LogPage), "a long line among short ones": strings.Repeat("y", page.LogPage+page.LogPage/8) + "\n" + whole} {
			size, got := int64(len(text)), ""
			for from := int64(0); from < size; {
				part, err := partOf(t.Context(), open(text), size, from, from > 0)
				if err != nil || len(part.Text) == 0 || part.From != from {
					t.Fatalf("%s, %s: the part at %d begins at %d: %v", name, kind, from, part.From, err)
				}
				got += string(part.Text)
				from = part.From + int64(len(part.Text))
			}
			if got != text {
				t.Errorf("%s, %s: the parts are not the file", name, kind)
			}
			last, err := partOf(t.Context(), open(text), size, size+1000, false)
			if err != nil || !strings.HasSuffix(text, string(last.Text)) || len(last.Text) == 0 {
				t.Errorf("%s, %s: behind the end: %v, %d bytes", name, kind, err, len(last.Text))
			}
		}
	}
}

// The page of a trial and a part of its log cost no more memory if the log is huge.
func TestHugeLogsFillNoMemory(t *testing.T) {
	s, shelf := shelved(t, map[string]string{"command/stdout.txt": "beginning\n"})
	file := filepath.Join(shelf.dir, trialDir, "command/stdout.txt")
	const size = 4 << 30
	if err := os.Truncate(file, size); err != nil { // sparse
		t.Fatal(err)
	}
	for _, path := range []string{"job/n/t/a/d/t__1/", "log/n/a/d/t__1/command/stdout.txt", "log/n/a/d/t__1/command/stdout.txt?from=3000000000"} {
		if r := ask(s, "GET", path); r.StatusCode != http.StatusOK || len(r.text) > 8<<20 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	r := ask(s, "GET", "raw/n/a/d/t__1/command/stdout.txt", "Range", "bytes=4294967290-")
	if r.StatusCode != http.StatusPartialContent || len(r.text) != 6 {
		t.Errorf("a range: %d", r.StatusCode)
	}
}

// stuck is a reader that takes nothing until it is released.
type stuck struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s stuck) Write(text []byte) (int, error) {
	<-s.release
	return s.ResponseRecorder.Write(text)
}

// Pages that readers do not take are held up to a number; then no other is made.
func TestSlowReadersHoldFewPages(t *testing.T) {
	s, _ := shelved(t, nil)
	release := make(chan struct{})
	var readers sync.WaitGroup
	for range maxFinished {
		readers.Go(func() {
			s.ServeHTTP(stuck{httptest.NewRecorder(), release}, httptest.NewRequest(http.MethodGet, s.URL("n"), http.NoBody))
		})
	}
	for len(s.holding) < maxFinished || len(s.making) > 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, s.URL("n"), http.NoBody).WithContext(ctx))
	if w.Body.Len() > 0 {
		t.Error("another page was made")
	}
	close(release)
	readers.Wait()
	if r := ask(s, "GET", "job/n/"); r.StatusCode != http.StatusOK || len(s.holding)+len(s.making) != 0 {
		t.Errorf("afterwards: %d, %d pages are held", r.StatusCode, len(s.holding))
	}
}

func TestServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Listen(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		t.Fatalf("it listens on %s", ip)
	}
	_, shelf := shelved(t, nil)
	s := New(shelf, "Jobs", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL("n"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(err, r)
	}
	_ = r.Body.Close()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
