package git_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/test/gittest"
)

func TestResolve(t *testing.T) {
	s := newScene(t)
	first := s.repo.Commit("main", hello)
	s.repo.Git("", "tag", "light", first)
	s.repo.Git("", "tag", "-a", "-m", "annotated", "v1.0", first)
	second := s.repo.Commit("main", map[string]string{"x": "y"})
	side := s.repo.Commit("feature/x", map[string]string{"z": "z"})
	s.repo.Git("", "tag", "feature/x", first) // a tag wins over a branch of the same name
	hexBranch := s.repo.Commit("abcdef", map[string]string{"hex": "hex"})
	for _, tc := range []struct{ rev, want string }{
		{"", second}, {"HEAD", second}, {"main", second}, {"refs/heads/main", second}, {"refs/heads/feature/x", side},
		{"feature/x", first}, {"light", first}, {"v1.0", first}, {"refs/tags/v1.0", first},
		{first, first}, {first[:7], first}, {second[:12], second}, {side[:8], side}, {"abcdef", hexBranch},
	} {
		for _, old := range []bool{false, true} {
			if old {
				s.repo.Config("uploadpack.allowFilter", "false")
			} else {
				s.repo.Config("uploadpack.allowFilter", "true")
			}
			got, err := s.client.Resolve(t.Context(), s.remote, tc.rev, t.TempDir())
			if err != nil || got != tc.want {
				t.Errorf("%q without filters %t: %s, %v; want %s", tc.rev, old, got, err, tc.want)
			}
		}
	}
	for _, tc := range []struct{ rev, want string }{
		{"nothing", `there is no branch or tag "nothing"`},
		{"00000000", "no commit of a branch or tag begins with 00000000"},
		{"--upload-pack=x", `"--upload-pack=x" is neither a commit nor the name of a branch or tag`},
		{"a..b", "is neither a commit"}, {"a@{1}", "is neither a commit"}, {"a\nb", "is neither a commit"}, {"*", "is neither a commit"},
	} {
		if got, err := s.client.Resolve(t.Context(), s.remote, tc.rev, t.TempDir()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %s, %v; want %s", tc.rev, got, err, tc.want)
		}
	}
}

// Finding two commits with equal prefixes takes some hundred commits at four digits.
func TestAbbreviatedIDMustBeUnique(t *testing.T) {
	s := newScene(t)
	var in strings.Builder
	const count = 1200
	for n := range count {
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter a <a@example.org> %d +0000\ndata 1\nx\n", n+1, 1767000000+n)
		if n > 0 {
			fmt.Fprintf(&in, "from :%d\n", n)
		}
	}
	s.repo.Git(in.String(), "fast-import", "--quiet")
	seen := map[string]string{}
	for _, id := range strings.Fields(s.repo.Git("", "rev-list", "main")) {
		other := seen[id[:4]]
		if other == "" {
			seen[id[:4]] = id
			continue
		}
		_, err := s.client.Resolve(t.Context(), s.remote, id[:4], t.TempDir())
		if !errors.Is(err, git.ErrNoCommit) || !strings.Contains(err.Error(), id[:4]+" is the beginning of several commits: ") || !strings.Contains(err.Error(), other) {
			t.Errorf("%v", err)
		}
		return
	}
	t.Fatal("no two commits share a prefix: make more")
}

func TestEmptyRepositoryHasNoHEAD(t *testing.T) {
	s := newScene(t)
	if _, err := s.client.Resolve(t.Context(), s.remote, "HEAD", t.TempDir()); !errors.Is(err, git.ErrNoCommit) || !strings.Contains(err.Error(), "the repository has no HEAD") {
		t.Error(err)
	}
}

// Transient failures are retried, others are reported.
func TestBrokenServers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(n int, w http.ResponseWriter, req *http.Request) bool
		want   string // in the error; "" means none
	}{
		{"fails twice", func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n <= 2 {
				http.Error(w, "later", http.StatusServiceUnavailable)
			}
			return n <= 2
		}, ""},
		{"always fails", func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "never\x1b[2J", http.StatusInternalServerError)
			return true
		}, "git fetch SERVER/tasks.git: "},
		{"requires a password", func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, "could not read Username"},
		{"closes the connection early", func(_ int, w http.ResponseWriter, req *http.Request) bool {
			if req.Method != http.MethodPost {
				return false
			}
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("0008NAK\n"))
			panic(http.ErrAbortHandler)
		}, "git fetch SERVER/tasks.git: "},
		{"does not answer", func(_ int, _ http.ResponseWriter, req *http.Request) bool {
			<-req.Context().Done()
			return true
		}, "took too long"},
		{"drips", func(_ int, w http.ResponseWriter, req *http.Request) bool {
			for req.Context().Err() == nil {
				_, _ = w.Write([]byte("0"))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(200 * time.Millisecond)
			}
			return true
		}, "Operation too slow"},
		{"redirects to another transport", func(_ int, w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, "ftp://example.org/tasks.git/info/refs?service=git-upload-pack", http.StatusFound)
			return true
		}, "git fetch SERVER/tasks.git: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			id := s.repo.Commit("main", hello)
			limit := time.Minute // more than a busy machine needs
			if tc.want == "took too long" {
				limit = 2 * time.Second
			}
			opts := git.Options{RetryDelay: time.Millisecond, Timeout: limit}
			if tc.name == "drips" {
				opts.Stall = time.Second
			}
			s.client = git.New(opts)
			var n atomic.Int32
			s.server.Before(func(w http.ResponseWriter, req *http.Request) bool { return tc.before(int(n.Add(1)), w, req) })
			_, _, err := s.export(id, "tasks/hello")
			want := strings.ReplaceAll(tc.want, "SERVER", s.server.URL)
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b")) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	s := newScene(t)
	s.server.Close()
	if _, err := s.client.Resolve(t.Context(), s.remote, "main", t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "git ls-remote "+s.server.URL+"/tasks.git: ") {
		t.Error(err)
	}
}

func TestNoGit(t *testing.T) {
	client := git.New(git.Options{Environ: []string{"PATH=" + t.TempDir()}})
	remote, err := git.ParseRemote("https://example.org/x", "", git.RemoteOnly)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resolve(t.Context(), remote, "main", t.TempDir()); !errors.Is(err, git.ErrNoGit) || err.Error() != "git is needed, in version 2.32 or newer: it is not installed, or not on the PATH" {
		t.Error(err)
	}
}

func TestLocalRepositories(t *testing.T) {
	dir := t.TempDir()
	repo := gittest.NewRepo(t, filepath.Join(dir, "a b.git"))
	id := repo.Commit("main", hello)
	for _, url := range []string{"a b.git", "./a b.git", repo.Dir, "file://" + repo.Dir} {
		remote, err := git.ParseRemote(url, dir, git.AllowLocal)
		if err != nil {
			t.Fatal(err)
		}
		s := &scene{T: t, remote: remote, client: git.New(git.Options{RetryDelay: time.Millisecond})}
		if got, err := s.client.Resolve(t.Context(), remote, id[:7], t.TempDir()); err != nil || got != id {
			t.Errorf("%s: %s, %v", url, got, err)
		}
		into, _, err := s.export(id, "tasks/hello")
		if err != nil || tree(t, filepath.Join(into, "0")) != helloTree {
			t.Errorf("%s: %v", url, err)
		}
	}
}
