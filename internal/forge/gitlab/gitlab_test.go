package gitlab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/forge/gitlab"
)

const secret = "glpat-secret"

type author struct {
	ID int `json:"id"`
}

type note struct {
	ID     int    `json:"id"`
	Body   string `json:"body"`
	System bool   `json:"system"`
	Author author `json:"author"`
}

// server has the notes on merge request 7 of project 42, as GitLab's API serves them. Source:
// docs.gitlab.com, "Notes API".
type server struct {
	*testing.T
	url   string
	notes []note
	next  int
	runs  map[string]string         // the status of each pipeline
	fail  func(r *http.Request) int // a status instead of an answer; 0: none
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{T: t, next: 1}
	mux := http.NewServeMux()
	const all, one = "/api/v4/projects/42/merge_requests/7/notes", "/api/v4/projects/42/merge_requests/7/notes/{id}"
	mux.HandleFunc("GET /api/v4/user", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, author{1}) })
	mux.HandleFunc("GET /api/v4/projects/42/pipelines/{id}", func(w http.ResponseWriter, r *http.Request) {
		status, ok := s.runs[r.PathValue("id")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.answer(w, map[string]any{"id": 1, "status": status})
	})
	mux.HandleFunc("GET "+all, func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		from := min(max(page-1, 0)*2, len(s.notes)) // two a page
		to := min(from+2, len(s.notes))
		if to < len(s.notes) {
			w.Header().Set("X-Next-Page", strconv.Itoa(max(page, 1)+1))
		}
		s.answer(w, slices.Clone(s.notes[from:to]))
	})
	mux.HandleFunc("POST "+all, func(w http.ResponseWriter, r *http.Request) {
		s.add(1, s.body(r))
		w.WriteHeader(http.StatusCreated)
		s.answer(w, s.notes[len(s.notes)-1])
	})
	mux.HandleFunc("PUT "+one, func(w http.ResponseWriter, r *http.Request) {
		i := s.find(r)
		if i < 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.notes[i].Body = s.body(r)
		s.answer(w, s.notes[i])
	})
	mux.HandleFunc("DELETE "+one, func(w http.ResponseWriter, r *http.Request) {
		i := s.find(r)
		s.notes = slices.Delete(s.notes, i, i+1)
		w.WriteHeader(http.StatusNoContent)
	})
	http := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Private-Token") != secret {
			t.Errorf("%s %s without the token", r.Method, r.URL)
		}
		if s.fail != nil {
			if status := s.fail(r); status != 0 {
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"message": "refused \u001b[2J%s"}`, secret)
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(http.Close)
	s.url = http.URL
	return s
}

func (s *server) answer(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		s.Error(err)
	}
}

func (s *server) body(r *http.Request) string {
	var sent note
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		s.Error(err)
	}
	return sent.Body
}

func (s *server) find(r *http.Request) int {
	id, _ := strconv.Atoi(r.PathValue("id"))
	return slices.IndexFunc(s.notes, func(n note) bool { return n.ID == id })
}

func (s *server) add(by int, text string) {
	s.notes = append(s.notes, note{ID: s.next, Body: text, Author: author{by}})
	s.next++
}

func (s *server) run() gitlab.Run {
	run, ok := gitlab.FromEnv(func(name string) (string, bool) {
		value, ok := map[string]string{
			"GITLAB_CI": "true", "CI_API_V4_URL": s.url + "/api/v4", "CI_PROJECT_ID": "41", "CI_MERGE_REQUEST_PROJECT_ID": "42",
			"CI_MERGE_REQUEST_IID": "7", "CI_JOB_ID": "10000000001", "CI_PIPELINE_ID": "5", "GITLAB_TOKEN": secret,
		}[name]
		return value, ok
	})
	if !ok {
		s.Fatal("this is no job of GitLab CI")
	}
	return run
}

func (s *server) upsert(n int, body string) (comments.Result, error) {
	s.Helper()
	thread, err := gitlab.Open(s.Context(), s.run())
	if err != nil {
		return comments.Result{}, err
	}
	return comments.Upsert(s.Context(), thread, comment(n, body), func(context.Context) error { return nil })
}

func comment(n int, body string) comments.Comment {
	began := time.Date(2026, 11, 21, 12, n, 0, 0, time.UTC)
	return comments.Comment{Job: "nightly", ValidAt: began, RunID: int64(n), Attempt: 1, Body: body}
}

func TestUpsert(t *testing.T) {
	s := newServer(t)
	s.add(2, comment(9, "of somebody else").Text())
	s.add(2, "text")
	s.notes = append(s.notes, note{ID: 3, System: true, Author: author{1}, Body: comment(8, "of the system").Text()})
	s.next = 4
	others := slices.Clone(s.notes)
	want := func(action comments.Action, err error, got comments.Result, texts ...string) {
		t.Helper()
		if err != nil || got.Action != action {
			t.Fatalf("%+v, %v; want %s", got, err, action)
		}
		if !slices.Equal(s.notes[:3], others) || len(s.notes) != 3+len(texts) {
			t.Fatalf("the notes are %+v", s.notes)
		}
		for i, text := range texts {
			if _, body, _ := strings.Cut(s.notes[3+i].Body, "\n"); body != text+"\n" {
				t.Errorf("the note is %q, want %q", body, text)
			}
		}
	}
	got, err := s.upsert(1, "red")
	want(comments.Created, err, got, "red")
	got, err = s.upsert(2, "green")
	want(comments.Updated, err, got, "green")
	got, err = s.upsert(1, "red")
	want(comments.Outdated, err, got, "green")
	s.add(1, comment(3, "a duplicate").Text())
	got, err = s.upsert(4, "one")
	want(comments.Updated, err, got, "one")
}

// TestNotesContainNoQuickActions: GitLab carries out lines of notes that begin with a slash, and
// reports contain text of agents.
func TestNotesContainNoQuickActions(t *testing.T) {
	s := newServer(t)
	for n, text := range []string{"/merge", "a\n  /approve\n```\n/close\n```", "a / b\n\t/label ~x\r\n\u00a0/close"} {
		if _, err := s.upsert(n, text); err != nil {
			t.Fatal(err)
		}
		body := s.notes[0].Body
		for line := range strings.Lines(body) {
			if strings.HasPrefix(strings.TrimSpace(line), "/") {
				t.Errorf("GitLab would carry out %q", line)
			}
		}
		if _, rest, _ := strings.Cut(body, "\n"); strings.ReplaceAll(rest, "\u200b", "") != text+"\n" {
			t.Errorf("%q was written as %q", text, rest)
		}
	}
	// The text that comes back differs, which is no reason to write it again.
	if got, err := s.upsert(2, "a / b\n\t/label ~x\r\n\u00a0/close"); err != nil || got.ID != 1 || len(s.notes) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name, method string
		status       int
		want         string
	}{
		{"no such token", http.MethodGet, http.StatusUnauthorized, "GitLab answered 401 Unauthorized"},
		{"a token that may not write", http.MethodPost, http.StatusForbidden, "GITLAB_TOKEN has to be a project access token with the scope api"},
		{"no such merge request", http.MethodPost, http.StatusNotFound, "GitLab answered 404 Not Found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.fail = func(r *http.Request) int {
				if r.Method == tc.method {
					return tc.status
				}
				return 0
			}
			_, err := s.upsert(1, "text")
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("the error is %q, want %q", err, tc.want)
			}
		})
	}
}

// TestDeletedNoteIsCreatedAgain: the note is deleted between the listing and the edit.
func TestDeletedNoteIsCreatedAgain(t *testing.T) {
	s := newServer(t)
	s.add(1, comment(1, "old").Text())
	s.fail = func(r *http.Request) int {
		if r.Method == http.MethodPut {
			s.notes = nil
		}
		return 0
	}
	if got, err := s.upsert(2, "new"); err != nil || len(s.notes) != 1 || got.ID != 2 || !strings.HasSuffix(s.notes[0].Body, "\nnew\n") {
		t.Errorf("%+v, %v: %+v", got, err, s.notes)
	}
}

func TestCancelledRequest(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gitlab.Open(ctx, s.run()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestFromEnv(t *testing.T) {
	vars := map[string]string{}
	getenv := func(name string) (string, bool) { value, ok := vars[name]; return value, ok }
	if _, ok := gitlab.FromEnv(getenv); ok {
		t.Error("an empty environment is a job of GitLab CI")
	}
	vars = map[string]string{"GITLAB_CI": "true", "CI_PROJECT_ID": "41", "CI_PROJECT_URL": "https://gitlab.example/g/p/", "CI_COMMIT_SHA": "abc", "CI_PIPELINE_URL": "javascript:x"}
	run, ok := gitlab.FromEnv(getenv)
	if !ok || run.Project != "41" || run.MergeRequest != 0 || run.URL != "" || run.CommitURL() != "https://gitlab.example/g/p/-/commit/abc" || run.FilesURL() != "https://gitlab.example/g/p/-/blob/abc" {
		t.Errorf("%+v, %s, %s", run, run.CommitURL(), run.FilesURL())
	}
	if _, err := gitlab.Open(t.Context(), run); err == nil || err.Error() != "the variable CI_API_V4_URL is not the URL of GitLab's API" {
		t.Errorf("without the API's URL: %v", err)
	}
}

// TestEndedPipelines: the announcement of a pipeline that was cancelled lapses, and one that was
// withdrawn stays so.
func TestEndedPipelines(t *testing.T) {
	s := newServer(t)
	thread, err := gitlab.Open(t.Context(), s.run())
	if err != nil {
		t.Fatal(err)
	}
	settle := func(context.Context) error { return nil }
	for status, want := range map[string]bool{
		"created": false, "running": false, "canceling": false, "manual": false, "success": true, "failed": true, "canceled": true, "skipped": true,
	} {
		s.runs = map[string]string{"2": status}
		if ended, err := thread.Ended(t.Context(), 2); ended != want || err != nil {
			t.Errorf("%s: %v, %v", status, ended, err)
		}
	}
	if ended, err := thread.Ended(t.Context(), 3); ended || err == nil {
		t.Errorf("a pipeline of another project: %v, %v", ended, err)
	}
	if _, err := s.upsert(0, "verdict"); err != nil {
		t.Fatal(err)
	}
	s.runs = map[string]string{"2": "canceled"}
	line := comments.Going("`abc`", "", comment(2, "").ValidAt)
	if action, err := comments.Announce(t.Context(), thread, comment(2, line), gitlab.MaxNote, settle); action != comments.Updated || err != nil {
		t.Fatal(action, err)
	}
	announced := s.notes[0].Body
	if got, err := s.upsert(1, "late"); got.Action != comments.Outdated || err != nil || !strings.Contains(s.notes[0].Body, "The evaluation of `abc` ended without") {
		t.Errorf("%+v, %v: %s", got, err, s.notes[0].Body)
	}
	s.notes[0].Body = announced
	edits := 0
	s.fail = func(r *http.Request) int {
		if r.Method == http.MethodGet && edits == 1 { // another job restores the text that it has read
			edits++
			s.notes[0].Body = announced
		}
		if r.Method == http.MethodPut {
			edits++
		}
		return 0
	}
	over := comment(2, comments.Over("`abc`", "", "was cancelled"))
	action, err := comments.Withdraw(t.Context(), thread, over, gitlab.MaxNote, settle)
	if action != comments.Updated || err != nil || edits != 3 || !strings.Contains(s.notes[0].Body, "was cancelled") {
		t.Errorf("%s, %v, %d: %s", action, err, edits, s.notes[0].Body)
	}
}
