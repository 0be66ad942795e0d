package githubtest

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run is a workflow run.
type Run struct {
	ID           int64 // 0: AddRun assigns one
	WorkflowFile string
	Branch       string // the head's
	SHA          string // the head's
	Event        string // "" is push
	Status       string // "" is completed
	Conclusion   string // "" is success, once completed
	HeadRepo     string // "" is the repository itself
	Attempt      int    // 0 is 1
	CreatedAt    time.Time
}

// Artifact is a zip that a run uploaded.
type Artifact struct {
	Name    string
	Files   map[string]string // packed into a zip
	Zip     []byte            // instead of Files
	Size    int64             // as the API reports it; 0: the real size
	Expired bool
	// Gone makes the download answer 410 although the listing does not mark it as expired.
	Gone bool
}

type artifact struct {
	Artifact
	id  int64
	run Run
	sig string
	at  time.Time
}

// AddWorkflow adds a workflow without runs.
func (s *Server) AddWorkflow(name, file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(name).workflows[file] = true
}

// AddRun adds a run and returns its id.
func (s *Server) AddRun(name string, run Run) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(name)
	if run.ID == 0 {
		run.ID = s.nextID()
	}
	run.Event, run.Status = cmp.Or(run.Event, "push"), cmp.Or(run.Status, "completed")
	run.HeadRepo, run.Attempt = cmp.Or(run.HeadRepo, r.name), cmp.Or(run.Attempt, 1)
	if run.Status == "completed" {
		run.Conclusion = cmp.Or(run.Conclusion, "success")
	}
	if run.CreatedAt.IsZero() {
		run.CreatedAt = s.now()
	}
	r.workflows[run.WorkflowFile] = true
	r.runs = append(r.runs, run)
	return run.ID
}

// ErrConflict is the response 409 to a second artifact of the same name.
var ErrConflict = errors.New("409 Conflict: an artifact with this name already exists on the workflow run")

// AddArtifact uploads an artifact of a run and returns its id.
func (s *Server) AddArtifact(name string, runID int64, a Artifact) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(name)
	at := slices.IndexFunc(r.runs, func(run Run) bool { return run.ID == runID })
	if at < 0 {
		return 0, fmt.Errorf("there is no run %d", runID)
	}
	// Source: actions/toolkit, path-and-artifact-name-validation.ts.
	if a.Name == "" || strings.ContainsAny(a.Name, "\":<>|*?\r\n\\/") {
		return 0, fmt.Errorf("400 Bad Request: %q cannot be the name of an artifact", a.Name)
	}
	for _, other := range r.artifacts {
		if other.run.ID == runID && other.Name == a.Name {
			return 0, ErrConflict
		}
	}
	if a.Zip == nil {
		packed, err := Zip(a.Files)
		if err != nil {
			return 0, err
		}
		a.Zip = packed
	}
	id := s.nextID()
	r.artifacts = append(r.artifacts, &artifact{Artifact: a, id: id, run: r.runs[at], sig: fmt.Sprintf("secret%dsignature", id), at: s.now()})
	return id, nil
}

// Zip returns a zip of files, sorted by name.
func Zip(files map[string]string) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write([]byte(files[name])); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxRuns is the maximum number of runs in a filtered listing. Source: docs.github.com, "List
// workflow runs for a workflow".
const maxRuns = 1000

func (q *request) listWorkflowRuns(args []string) reply {
	if !q.repo.workflows[args[0]] {
		return notFound()
	}
	return q.runs(func(r Run) bool { return r.WorkflowFile == args[0] })
}

func (q *request) listRuns([]string) reply { return q.runs(func(Run) bool { return true }) }

// runs lists the runs that match fits and the query, newest first.
func (q *request) runs(fits func(Run) bool) reply {
	if !q.may(q.access.Actions) {
		return q.denied()
	}
	query := q.URL.Query()
	var out []Run
	for _, r := range q.repo.runs {
		status := query.Get("status")
		if fits(r) && is(query.Get("branch"), r.Branch) && is(query.Get("event"), r.Event) && is(query.Get("head_sha"), r.SHA) &&
			(status == "" || status == r.Status || status == r.Conclusion) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Run) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID)) })
	return counted(q, "workflow_runs", out[:min(len(out), maxRuns)], q.showRun)
}

// is reports whether a filter accepts the value.
func is(filter, value string) bool { return filter == "" || filter == value }

func (q *request) showRun(r Run) map[string]any {
	conclusion := any(r.Conclusion)
	if r.Conclusion == "" {
		conclusion = nil
	}
	return map[string]any{
		"id": r.ID, "name": r.WorkflowFile, "path": ".github/workflows/" + r.WorkflowFile, "event": r.Event,
		"status": r.Status, "conclusion": conclusion, "head_branch": r.Branch, "head_sha": r.SHA, "run_attempt": r.Attempt,
		"created_at": r.CreatedAt, "run_started_at": r.CreatedAt, "pull_requests": []any{}, // always empty for forks
		"head_repository": map[string]any{"full_name": r.HeadRepo, "fork": r.HeadRepo != q.repo.name},
		"repository":      map[string]any{"full_name": q.repo.name},
		"html_url":        fmt.Sprintf("https://github.com/%s/actions/runs/%d", q.repo.name, r.ID),
	}
}

func (q *request) getRun(args []string) reply {
	if !q.may(q.access.Actions) {
		return q.denied()
	}
	for _, r := range q.repo.runs {
		if strconv.FormatInt(r.ID, 10) == args[0] {
			return ok(q.showRun(r))
		}
	}
	return notFound()
}

func (q *request) listRunArtifacts(args []string) reply {
	return q.artifacts(func(a *artifact) bool { return strconv.FormatInt(a.run.ID, 10) == args[0] })
}

func (q *request) listArtifacts([]string) reply {
	return q.artifacts(func(*artifact) bool { return true })
}

func (q *request) artifacts(fits func(*artifact) bool) reply {
	if !q.may(q.access.Actions) {
		return q.denied()
	}
	var out []*artifact
	for _, a := range q.repo.artifacts {
		if fits(a) && is(q.URL.Query().Get("name"), a.Name) {
			out = append(out, a)
		}
	}
	slices.Reverse(out)
	return counted(q, "artifacts", out, q.showArtifact)
}

func (q *request) showArtifact(a *artifact) map[string]any {
	return map[string]any{
		"id": a.id, "name": a.Name, "size_in_bytes": cmp.Or(a.Size, int64(len(a.Zip))), "expired": a.Expired,
		"created_at": a.at, "expires_at": a.at.AddDate(0, 0, 90),
		"archive_download_url": fmt.Sprintf("%s/repos/%s/actions/artifacts/%d/zip", q.base, q.repo.name, a.id),
		"workflow_run":         map[string]any{"id": a.run.ID, "head_branch": a.run.Branch, "head_sha": a.run.SHA},
	}
}

func (q *request) getArtifact(args []string) reply {
	if !q.may(q.access.Actions) {
		return q.denied()
	}
	for _, a := range q.repo.artifacts {
		if strconv.FormatInt(a.id, 10) == args[0] {
			return ok(q.showArtifact(a))
		}
	}
	return notFound()
}

// downloadArtifact redirects to the storage; the URL is valid for a minute. Even in public
// repositories it needs a token that may read Actions.
func (q *request) downloadArtifact(args []string) reply {
	for _, a := range q.repo.artifacts {
		if strconv.FormatInt(a.id, 10) != args[0] {
			continue
		}
		if q.access.Actions < Read {
			return q.denied()
		}
		if a.Expired || a.Gone {
			return problem(http.StatusGone, "Artifact has expired")
		}
		address := fmt.Sprintf("%s/artifacts/%s/%d?sig=%s&se=%d",
			q.server.StorageURL, q.repo.name, a.id, a.sig, q.server.now().Add(time.Minute).Unix())
		return reply{status: http.StatusFound, header: http.Header{"Location": {address}}}
	}
	return notFound()
}

// FailStorage makes the next count downloads from the storage fail with 503.
func (s *Server) FailStorage(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseBlobs = count
}

// Storage serves the contents of artifacts. Like Azure's, it requires the signature and refuses
// requests with a token for another service.
func (s *Server) Storage() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		status, content := s.blob(r)
		s.requests = append(s.requests, Request{
			Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header.Clone(), Status: status, Storage: true,
		})
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		w.Header().Set("Content-Type", "application/zip")
		_, _ = w.Write(content) // the client may be gone
	})
}

func (s *Server) blob(r *http.Request) (status int, content []byte) {
	if r.Header.Get("Authorization") != "" {
		return http.StatusBadRequest, nil // InvalidAuthenticationInfo
	}
	if s.refuseBlobs > 0 {
		s.refuseBlobs--
		return http.StatusServiceUnavailable, nil
	}
	until, err := strconv.ParseInt(r.URL.Query().Get("se"), 10, 64)
	if err != nil || s.now().After(time.Unix(until, 0)) {
		return http.StatusForbidden, nil
	}
	for _, repo := range s.repos {
		for _, a := range repo.artifacts {
			if r.URL.Path == fmt.Sprintf("/artifacts/%s/%d", repo.name, a.id) {
				if r.URL.Query().Get("sig") != a.sig {
					return http.StatusForbidden, nil
				}
				return http.StatusOK, a.Zip
			}
		}
	}
	return http.StatusNotFound, nil
}
