package viewer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/page"
)

// Bounds of the server.
const (
	maxPages     = 2  // that are made at the same time: one may need tens of megabytes
	maxFinished  = 16 // pages that are held until readers have taken them
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second // without progress
	pageTimeout  = 2 * time.Minute  // to take a page
	pageChunk    = 64 << 10         // bytes of a page that are written at once
	idleTimeout  = 2 * time.Minute
)

// Server serves the pages of a library. It implements http.Handler.
type Server struct {
	library Library
	title   string
	token   string
	hosts   []string // the values of Host that are answered
	site    page.Site
	making  chan struct{}
	holding chan struct{}

	mu     sync.Mutex
	latest struct { // the job that was shown last
		name, version string
		in            report.Input
	}
}

// New returns a server of a library at an address of this machine. title is the headline of its
// index.
//
// The token is a part of each address. A cookie would be sent to every other port of this machine,
// too, and would have to be set by a request without one.
func New(library Library, title string, address net.Addr) *Server {
	s := &Server{library: library, title: title, token: rand.Text(), site: page.Site{Live: true}, making: make(chan struct{}, maxPages), holding: make(chan struct{}, maxFinished)}
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		panic(err) // it is not the address of a listener
	}
	for _, name := range []string{host, "localhost"} {
		s.hosts = append(s.hosts, net.JoinHostPort(name, port))
	}
	return s
}

// Listen listens on this machine's loopback device; 0 means a free port.
func Listen(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		six, sixErr := config.Listen(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(port)))
		if sixErr == nil {
			return six, nil
		}
	}
	return l, err
}

// URL returns the address of the index, or that of a job.
func (s *Server) URL(job string) string {
	url := "http://" + s.hosts[0] + "/" + s.token + "/"
	if job != "" {
		url += page.JobAddress(job)
	}
	return url
}

// Serve answers requests until ctx ends, and returns its error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(l)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// refusal is why a request is refused.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

var errNoPage = &refusal{http.StatusNotFound, "There is no such page."}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer") // addresses have the token
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	header.Set("Cache-Control", "no-store")
	err := s.serve(&paced{w, http.NewResponseController(w)}, r)
	var refused *refusal
	switch {
	case err == nil, r.Context().Err() != nil:
		return
	case errors.As(err, &refused):
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		refused = errNoPage
	default:
		refused = &refusal{http.StatusInternalServerError, untrusted.Line(err.Error())}
	}
	if refused.status == http.StatusMethodNotAllowed {
		header.Set("Allow", "GET, HEAD")
	}
	header.Del("Content-Disposition")
	header.Del("ETag")
	http.Error(w, refused.text, refused.status)
}

// serve answers a request, unless it returns an error: then nothing was written.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if !slices.Contains(s.hosts, r.Host) { // a name of somebody else's that leads here
		return &refusal{http.StatusMisdirectedRequest, "This server answers only at the address that rollout view printed."}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return &refusal{http.StatusMethodNotAllowed, "This server only reads."}
	}
	token, rest, below := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		return &refusal{http.StatusNotFound, "Open the address that rollout view printed: it has a token."}
	}
	if rest == "" {
		if !below {
			http.Redirect(w, r, "/"+s.token+"/", http.StatusMovedPermanently)
			return nil
		}
		return s.index(w, r)
	}
	path, isDir := strings.CutSuffix(rest, "/")
	if !fs.ValidPath(path) {
		return errNoPage
	}
	kind, path, _ := strings.Cut(path, "/")
	name, path, _ := strings.Cut(path, "/")
	if name == "" {
		return errNoPage
	}
	job, err := s.library.Open(r.Context(), name)
	if err != nil {
		return err
	}
	defer job.Close()
	switch {
	case kind == page.JobPages && path == "" && isDir:
		return s.job(w, r, name, job)
	case kind == page.JobPages && isDir:
		dir, ok := strings.CutPrefix(path, page.TrialPages+"/")
		if ok && strings.Count(dir, "/") == 2 {
			return s.trial(w, r, name, job, dir)
		}
	case kind == page.LogPages && !isDir && strings.Count(path, "/") >= 3:
		return s.log(w, r, name, job, path)
	case kind == page.RawFiles && !isDir && strings.Count(path, "/") >= 3:
		return s.raw(w, r, job, path)
	}
	return errNoPage
}

// write answers with a page that make writes. version is the page's ETag; live selects the content
// security policy of live pages.
func (s *Server) write(w http.ResponseWriter, r *http.Request, version string, live bool, make func(w io.Writer) error) error {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", page.Policy(live)+"; frame-ancestors 'none'")
	header.Set("ETag", version)
	if r.Method == http.MethodHead {
		return nil
	}
	if r.Header.Get("If-None-Match") == version {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	for _, room := range []chan struct{}{s.holding, s.making} {
		select {
		case room <- struct{}{}:
		case <-r.Context().Done():
			if room == s.making {
				<-s.holding
			}
			return r.Context().Err()
		}
	}
	defer func() { <-s.holding }()
	var b bytes.Buffer
	err := func() error {
		defer func() { <-s.making }() // also after a panic, from which the server recovers
		return make(&b)
	}()
	if err != nil {
		return err
	}
	header.Set("Content-Length", strconv.Itoa(b.Len()))
	for end := time.Now().Add(pageTimeout); b.Len() > 0 && time.Now().Before(end); {
		if _, err := w.Write(b.Next(pageChunk)); err != nil {
			break // whoever asked may be gone
		}
	}
	if b.Len() > 0 {
		panic(http.ErrAbortHandler) // the answer ends too early, and the reader is told so
	}
	return nil
}

func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	jobs, err := s.library.Jobs(r.Context())
	if err != nil {
		return err
	}
	version := Hashed(fmt.Sprintf("%+v", texts(jobs)))
	site := s.site
	site.NoJobs = s.library.NoJobs()
	return s.write(w, r, version, true, func(w io.Writer) error { return site.WriteIndex(w, s.title, jobs, version) })
}

// texts returns the displayed texts of the jobs of an index.
func texts(jobs []page.Listed) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = fmt.Sprint(j.Name, " ", j.Parts.Says(), " ", j.State, " ", j.Started, " ", j.Completed, " ", j.Failed, " ", j.Trials, " ", j.Verdict, " ", j.Reason)
	}
	return out
}

func (s *Server) job(w http.ResponseWriter, r *http.Request, name string, job *Job) error {
	version, live := job.version(), ""
	if job.Running {
		live = version
	}
	return s.write(w, r, version, job.Running, func(w io.Writer) error {
		in, err := s.input(r.Context(), name, version, job)
		if err != nil {
			return err
		}
		site := s.site
		site.Parts = job.Parts
		return site.WriteJob(w, in, name, live)
	})
}

// input returns the results of a job. Those of the job that was shown last are kept.
func (s *Server) input(ctx context.Context, name, version string, job *Job) (report.Input, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.name != name || s.latest.version != version {
		s.latest.name, s.latest.in = "", report.Input{} // two jobs need not be held
		in, err := job.Input(ctx)
		if err != nil {
			return in, err
		}
		in.Files, in.BaseFiles = nil, nil // they are closed with the job
		s.latest.name, s.latest.version, s.latest.in = name, version, in
	}
	in := s.latest.in
	in.Files = job.Files
	return in, nil
}

// trial answers with the page of a trial. Its result and those of other attempts are read only when
// there is room for another page.
func (s *Server) trial(w http.ResponseWriter, r *http.Request, name string, job *Job, dir string) error {
	missing, err := job.missing(dir)
	if err != nil {
		return err
	}
	compared := job.compare(dir)
	version, live := compared.version(), ""
	if missing == page.Runs {
		live = version
	}
	return s.write(w, r, version, live != "", func(w io.Writer) error {
		t, missing, err := job.trial(dir)
		if err != nil {
			return err
		}
		site := s.site
		var in report.Input
		in, site.LeftOut = compared.input(t, missing)
		return site.WriteTrial(w, in, t, name, live, missing)
	})
}

// paced sets a deadline for each write of an answer, so that a stalled reader does not hold the
// server, and a large file is not cut off.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *paced) Write(text []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // tests' writers have none
	return p.ResponseWriter.Write(text)
}

// Unwrap lets http.ResponseController find the writer below.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
