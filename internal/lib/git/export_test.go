package git_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/test/gittest"
)

// scene is a server with one repository.
type scene struct {
	*testing.T
	repo   *gittest.Repo
	server *gittest.Server
	remote git.Remote
	client *git.Client
}

func newScene(t *testing.T) *scene {
	t.Helper()
	root := t.TempDir()
	s := &scene{T: t, repo: gittest.NewRepo(t, filepath.Join(root, "tasks.git")), server: gittest.Serve(t, root)}
	var err error
	if s.remote, err = git.ParseRemote(s.server.URL+"/tasks.git", "", git.RemoteOnly); err != nil {
		t.Fatal(err)
	}
	s.client = git.New(git.Options{RetryDelay: time.Millisecond})
	return s
}

// export exports paths of a commit to subdirectories 0, 1, … and returns their parent.
func (s *scene) export(id string, paths ...string) (string, []git.Directory, error) {
	s.Helper()
	into := s.TempDir()
	names := make([]string, len(paths))
	for i := range paths {
		names[i] = fmt.Sprint(i)
	}
	directories, err := s.client.Export(s.Context(), s.remote, id, paths, into, names, s.TempDir())
	return into, directories, err
}

// tree lists the files below dir with their modes, names and contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		below, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			fmt.Fprintf(&b, "%s/\n", below)
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			fmt.Fprintf(&b, "%s -> %s\n", below, target)
		default:
			content, _ := os.ReadFile(path)
			if len(content) > 40 {
				content = []byte(fmt.Sprint(len(content), " bytes"))
			}
			fmt.Fprintf(&b, "%s %o %q\n", below, info.Mode().Perm(), content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var hello = map[string]string{
	"tasks/hello/instruction.md": "Say hello.\n",
	"tasks/hello/tests/test.sh*": "true\n",
	"tasks/hello/link@":          "tests/test.sh",
	"tasks/hello/same":           "Say hello.\n",
	"tasks/hello-two/x":          "x",
	"other/large":                strings.Repeat("large", 100_000),
}

const helloTree = `instruction.md 644 "Say hello.\n"
link -> tests/test.sh
same 644 "Say hello.\n"
tests/
tests/test.sh 755 "true\n"
`

// Every server gives the same result, whatever features it lacks.
func TestExportFromServersWithoutFeatures(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*scene)
		most int // fetches
	}{
		{"all features", func(*scene) {}, 2},
		{"no filters", func(s *scene) { s.repo.Config("uploadpack.allowFilter", "false") }, 2},
		{"protocol version 0", func(s *scene) { s.server.OldProtocol() }, 2},
		{"protocol version 0, only commits that branches point to", func(s *scene) {
			s.server.OldProtocol()
			s.repo.Config("uploadpack.allowAnySHA1InWant", "false")
		}, 3},
		{"advertises filters, but fails with them", func(s *scene) {
			s.server.Before(func(w http.ResponseWriter, req *http.Request) bool {
				if body := peek(req); strings.Contains(body, "filter blob:none") {
					http.Error(w, "no", http.StatusInternalServerError)
					return true
				}
				return false
			})
		}, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			first := s.repo.Commit("main", hello)
			s.repo.Commit("main", map[string]string{"README.md": "The tasks are gone."})
			tc.set(s)
			into, directories, err := s.export(first, "tasks/hello", "tasks/helo", "tasks/hello/tests", "tasks/hello/same")
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(t, filepath.Join(into, "0")); got != helloTree {
				t.Errorf("got\n%s\nwant\n%s", got, helloTree)
			}
			if f := directories[1]; !f.Missing || f.Nearest != "tasks/hello" {
				t.Errorf("a missing directory: %+v", f)
			}
			if got := tree(t, filepath.Join(into, "2")); got != "test.sh 755 \"true\\n\"\n" {
				t.Errorf("a directory inside another: %s", got)
			}
			if f := directories[3]; len(f.Problems) != 1 || f.Problems[0] != "is a file in the commit, not a directory" {
				t.Errorf("a file: %+v", f)
			}
			if n := s.server.Count("POST /tasks.git/git-upload-pack"); n > 2*tc.most {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// peek returns a request's body without consuming it.
func peek(req *http.Request) string {
	body := new(strings.Builder)
	if _, err := copyBody(body, req); err != nil {
		return ""
	}
	return body.String()
}

// Only the wanted contents are transferred.
func TestPartialFetchLeavesOutOtherContents(t *testing.T) {
	s := newScene(t)
	files := gittest.Tasks("a", "b")
	files["b/huge"] = incompressible(3 << 20)
	id := s.repo.Commit("main", files)
	s.client = git.New(git.Options{RetryDelay: time.Millisecond, MaxBytes: 1 << 20})
	if _, directories, err := s.export(id, "a"); err != nil || len(directories[0].Problems) > 0 {
		t.Errorf("without the huge file: %v, %v", directories, err)
	}
}

// git's newer object format.
func TestExportFromSHA256Repository(t *testing.T) {
	s := newScene(t)
	dir := filepath.Join(filepath.Dir(s.repo.Dir), "new.git")
	repo := gittest.NewRepo(t, dir, "--object-format=sha256")
	id := repo.Commit("main", hello)
	var err error
	if s.remote, err = git.ParseRemote(s.server.URL+"/new.git", "", git.RemoteOnly); err != nil {
		t.Fatal(err)
	}
	if got, err := s.client.Resolve(t.Context(), s.remote, "main", t.TempDir()); err != nil || got != id || len(got) != 64 {
		t.Fatalf("resolve: %s, %v", got, err)
	}
	into, _, err := s.export(id, "tasks/hello")
	if err != nil {
		t.Fatal(err)
	}
	if got := tree(t, filepath.Join(into, "0")); got != helloTree {
		t.Errorf("got\n%s", got)
	}
	_, err = s.client.Resolve(t.Context(), s.remote, id[:10], t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "mismatched algorithms") {
		t.Errorf("an abbreviated id: %v", err)
	}
}

func TestExportOfMissingCommits(t *testing.T) {
	s := newScene(t)
	s.repo.Commit("main", hello)
	blob := s.repo.Blob("x")
	for _, tc := range []struct{ id, want string }{
		{strings.Repeat("1", 40), "commit 1111111111111111111111111111111111111111 is not in the repository, or on none of its branches and tags"},
		{blob, blob + " is a blob, not a commit"},
	} {
		_, _, err := s.export(tc.id, "tasks/hello")
		if !errors.Is(err, git.ErrNoCommit) || !strings.HasSuffix(err.Error(), tc.want) {
			t.Errorf("%s: %v\nwant %s", tc.id, err, tc.want)
		}
	}
}

// Large contents are streamed to the first place and copied to the others.
func TestLargeContentsInSeveralPlaces(t *testing.T) {
	s := newScene(t)
	large := strings.Repeat("0123456789", 200_000)
	id := s.repo.Commit("main", map[string]string{"a/1": large, "a/2": large, "b/3": large})
	into, _, err := s.export(id, "a", "b", "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0/1", "0/2", "1/3", "2/1", "2/2"} {
		if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || string(got) != large {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}
