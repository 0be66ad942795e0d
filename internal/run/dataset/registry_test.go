package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/registry"
	"github.com/org/rollout-action/internal/test/gittest"
	"github.com/org/rollout-action/internal/test/testprogram"
)

// scene is a registry on disk whose tasks are on a git server.
type scene struct {
	*testing.T
	repo     *gittest.Repo
	server   *gittest.Server
	registry string // its path
	cacheDir string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	root := t.TempDir()
	return &scene{
		T: t, repo: gittest.NewRepo(t, filepath.Join(root, "tasks.git")), server: gittest.Serve(t, root),
		registry: filepath.Join(t.TempDir(), "registry.json"), cacheDir: filepath.Join(t.TempDir(), "cache"),
	}
}

// source returns a new Source, like that of another process.
func (s *scene) source() *Source {
	src := &Source{Cache: cache.New(s.cacheDir, 0), Git: git.New(git.Options{RetryDelay: time.Millisecond}), Registry: registry.Options{Delay: time.Millisecond}}
	s.Cleanup(func() { _ = src.Close() })
	return src
}

// task returns a registry entry for a task of the repository.
func (s *scene) task(name, commit, path string) registry.Task {
	return registry.Task{Name: name, GitURL: s.server.URL + "/tasks.git", GitCommitID: commit, Path: path}
}

func (s *scene) write(datasets ...registry.Dataset) {
	s.Helper()
	text, err := json.Marshal(datasets)
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(s.registry, text, 0o644); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) ref(name string) Ref {
	return Ref{Name: name, Registry: s.registry, Place: diag.Diagnostic{File: "job.yaml", Line: 3, Column: 5}}
}

func (s *scene) load(src *Source, refs ...Ref) []*Set {
	s.Helper()
	sets, _, err := src.Load(s.Context(), refs)
	if err != nil {
		s.Fatal(err)
	}
	return sets
}

// uploads returns the number of requests for contents that the server got.
func (s *scene) uploads() int { return s.server.Count("POST /tasks.git/git-upload-pack") }

// 500 tasks in two datasets, under three names of one revision, are one commit and fetched once. A
// second load uses the cache.
func TestManyTasksAreOneFetch(t *testing.T) {
	s := newScene(t)
	const count = 500
	var dirs []string
	for n := range count {
		dirs = append(dirs, fmt.Sprintf("datasets/bench/task-%03d", n))
	}
	files := gittest.Tasks(dirs...)
	files["unwanted/large"] = strings.Repeat("x", 1<<20)
	id := s.repo.Commit("main", files)
	one, two := registry.Dataset{Name: "one"}, registry.Dataset{Name: "two"}
	for n, dir := range dirs {
		one.Tasks = append(one.Tasks, s.task(fmt.Sprintf("org/%03d", n), []string{id, "main", "HEAD"}[n%3], dir))
		two.Tasks = append(two.Tasks, s.task(fmt.Sprint(n), id, dir))
	}
	s.write(one, two)
	sets := s.load(s.source(), s.ref("one"), s.ref("two"))
	if len(sets) != 2 || len(sets[0].Tasks) != count || len(sets[1].Tasks) != count {
		t.Fatalf("%d sets", len(sets))
	}
	// Two for each name of a revision, two for the commit, and two for its files; each call begins
	// with a GET.
	first := s.uploads()
	if first > 2+4 {
		t.Errorf("%d requests for contents", first)
	}
	for _, tk := range sets[0].Tasks {
		if tk.Err() != nil || tk.Missing || *tk.GitCommitID != id || tk.Digest() == "" || tk.RepoPath != "" || tk.Origin.Commit != id {
			t.Fatalf("%s: %v %v", tk.Name, tk.Problems, tk.Origin)
		}
	}
	if sets[0].Tasks[7].Name != "org/007" || sets[0].Tasks[7].Origin.Path != dirs[7] || sets[0].Tasks[7].Digest() != sets[1].Tasks[slices.IndexFunc(sets[1].Tasks, func(t *task.Task) bool { return t.Name == "7" })].Digest() {
		t.Error("these are not the tasks of the reference")
	}
	s.load(s.source(), s.ref("two"))
	if n := s.uploads(); n != first {
		t.Errorf("%d more requests for cached tasks", n-first)
	}
}

func TestFiftyAtOnceAreOneFetch(t *testing.T) {
	s := newScene(t)
	id := s.repo.Commit("main", gittest.Tasks("a", "b"))
	s.write(registry.Dataset{Name: "d", Tasks: []registry.Task{s.task("a", id, "a"), s.task("b", id, "b")}})
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			sets, _, err := s.source().Load(t.Context(), []Ref{s.ref("d")})
			if err != nil || len(sets) != 1 || sets[0].Tasks[1].Err() != nil {
				t.Errorf("%v, %v", sets, err)
			}
		})
	}
	group.Wait()
	if n := s.uploads(); n > 4 {
		t.Errorf("%d requests for contents, want those of one load", n)
	}
}

// Filters by name apply before the fetch. A later fetch adds to the cache.
func TestOnlySelectedTasksAreFetched(t *testing.T) {
	s := newScene(t)
	id := s.repo.Commit("main", gittest.Tasks("a", "b", "c"))
	s.write(registry.Dataset{Name: "d", Tasks: []registry.Task{s.task("a", id, "a"), s.task("b", id, "b"), s.task("c", id, "c")}})
	ref := s.ref("d")
	ref.Select = Selection{Include: []string{"a", "b"}, Exclude: []string{"b"}}
	src := s.source()
	set := s.load(src, ref)[0]
	if got := names(set); !slices.Equal(got, []string{"a"}) || !slices.Equal(set.Names(), []string{"a", "b", "c"}) {
		t.Errorf("%v of %v", got, set.Names())
	}
	if parts := s.parts(); parts != 1 {
		t.Errorf("%d tasks are cached, want one", parts)
	}
	src.Include = []string{"c"}
	s.load(src, s.ref("d"))
	if parts := s.parts(); parts != 2 {
		t.Errorf("%d tasks are cached, want two", parts)
	}
}

func (s *scene) parts() int {
	found, _ := filepath.Glob(filepath.Join(s.cacheDir, cache.DirsName, "git", "*", "*", notesFile))
	return len(found)
}

// A branch is resolved at each load. Without a server, the last known commit is used.
func TestBranchesAreResolvedAgain(t *testing.T) {
	s := newScene(t)
	first := s.repo.Commit("main", gittest.Tasks("old/a"))
	s.write(
		registry.Dataset{Name: "moves", Tasks: []registry.Task{s.task("a", "", "new/a")}},
		registry.Dataset{Name: "stays", Tasks: []registry.Task{s.task("a", first[:7], "old/a")}},
	)
	if tk := s.load(s.source(), s.ref("moves"))[0].Tasks[0]; !tk.Missing || tk.Nearest != "old/a" || *tk.GitCommitID != first {
		t.Errorf("before the directory was renamed: %+v", tk)
	}
	s.load(s.source(), s.ref("stays"))
	second := s.repo.Commit("main", gittest.Tasks("new/a"))
	if tk := s.load(s.source(), s.ref("moves"))[0].Tasks[0]; tk.Missing || *tk.GitCommitID != second {
		t.Errorf("afterwards: %+v", tk)
	}
	before := s.server.Count("")
	if tk := s.load(s.source(), s.ref("stays"))[0].Tasks[0]; tk.Missing || *tk.GitCommitID != first || s.server.Count("") != before {
		t.Errorf("an abbreviated id: %+v, %d requests", tk, s.server.Count("")-before)
	}
	s.server.Close()
	var said []string
	src := s.source()
	src.Notify = func(text string) { said = append(said, text) }
	if tk := s.load(src, s.ref("moves"))[0].Tasks[0]; tk.Missing || *tk.GitCommitID != second {
		t.Errorf("without a server: %+v", tk)
	}
	if len(said) != 1 || !strings.Contains(said[0], "using HEAD = "+second[:12]+" as of ") {
		t.Errorf("notified %q", said)
	}
	s.cacheDir = filepath.Join(t.TempDir(), "empty")
	_, _, err := s.source().Load(t.Context(), []Ref{s.ref("moves"), s.ref("stays")})
	var list diag.List
	if err == nil || errors.As(err, &list) || !strings.Contains(err.Error(), "git ls-remote "+s.server.URL+"/tasks.git: ") {
		t.Errorf("without a server and a cache: %v", err)
	}
}

// A hostile task fails alone, and its problem names where it is from.
func TestBrokenTaskDoesNotAffectOthers(t *testing.T) {
	s := newScene(t)
	fine := s.repo.Commit("main", gittest.Tasks("fine"))
	tree := s.repo.Tree("100644 blob " + s.repo.Blob("x") + "\ta\nb")
	id := s.repo.CommitTree("evil", s.repo.Tree("040000 tree "+tree+"\tevil", "040000 tree "+s.repo.Git("", "rev-parse", fine+":fine")+"\tfine"))
	s.write(registry.Dataset{Name: "d", Tasks: []registry.Task{s.task("evil", id, "evil"), s.task("fine", id, "fine"), s.task("gone", id, "fin")}})
	for range 2 { // also from the cache
		set := s.load(s.source(), s.ref("d"))[0]
		evil, fine, gone := set.Tasks[0], set.Tasks[1], set.Tasks[2]
		if evil.Missing || evil.Err() == nil || !strings.Contains(evil.Err().Error(), "evil (evil of "+s.server.URL+"/tasks.git at "+id[:12]+"): has a name with control characters") {
			t.Errorf("evil: %t %v", evil.Missing, evil.Err())
		}
		if fine.Err() != nil || fine.Missing || !gone.Missing || gone.Nearest != "fine" {
			t.Errorf("fine: %v; gone: %v %q", fine.Problems, gone.Missing, gone.Nearest)
		}
	}
}

func TestSamples(t *testing.T) {
	all := make([]string, 200)
	for i := range all {
		all[i] = fmt.Sprint("task-", i)
	}
	self := func(s string) string { return s }
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	for n := 1; n < len(all); n += 7 {
		got, larger := sample(all, self, n, 1), sample(all, self, n+1, 1)
		if len(got) != n || !slices.IsSortedFunc(got, func(a, b string) int { return slices.Index(all, a) - slices.Index(all, b) }) {
			t.Fatalf("%d: %v", n, got)
		}
		for _, name := range got {
			if !slices.Contains(larger, name) {
				t.Errorf("%s is in the sample of %d and not in the next", name, n)
			}
		}
		other := sample(backwards, self, n, 1)
		slices.Reverse(other)
		if !slices.Equal(got, other) {
			t.Errorf("%d: the order matters", n)
		}
	}
	if slices.Equal(sample(all, self, 20, 1), sample(all, self, 20, 2)) {
		t.Error("the seed does not matter")
	}
	// The sample is the same on every machine and in every version.
	if got := fmt.Sprint(sample(all, self, 3, 0)); got != "[task-4 task-169 task-193]" {
		t.Errorf("got %s", got)
	}
	if got := sample(all, self, 0, 0); len(got) != len(all) {
		t.Errorf("without a sample there are %d tasks", len(got))
	}
}

func TestMetadata(t *testing.T) {
	tk := &task.Task{}
	tk.Config.Metadata = map[string]any{"difficulty": "easy", "tags": []any{"a", "b"}, "minutes": int64(5), "half": 0.5, "expert": true, "table": map[string]any{"x": "y"}}
	for _, tc := range []struct {
		wanted map[string]any
		want   bool
	}{
		{map[string]any{"difficulty": "easy"}, true},
		{map[string]any{"difficulty": "hard"}, false},
		{map[string]any{"difficulty": []any{"hard", "easy"}}, true},
		{map[string]any{"tags": "b"}, true},
		{map[string]any{"tags": []any{"c", "a"}}, true},
		{map[string]any{"tags": []any{"c", "d"}}, false},
		{map[string]any{"difficulty": "easy", "tags": "c"}, false},
		{map[string]any{"minutes": 5}, true},
		{map[string]any{"minutes": "5"}, true},
		{map[string]any{"half": 0.5}, true},
		{map[string]any{"expert": true}, true},
		{map[string]any{"expert": "true"}, true},
		{map[string]any{"none": "x"}, false},
		{map[string]any{"table": "y"}, false},
	} {
		if got := HasMetadata(tk, tc.wanted); got != tc.want {
			t.Errorf("%v: %t", tc.wanted, got)
		}
	}
}

// git-lfs pointers are replaced where .gitattributes says so. Without git-lfs the task is invalid,
// until git-lfs is installed.
func TestLargeFiles(t *testing.T) {
	s := newScene(t)
	content := "large content\n"
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + sha256Of(content) + "\nsize 14\n"
	files := gittest.Tasks("tasks/a", "tasks/b")
	files[".gitattributes"] = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
	files["tasks/a/environment/model.bin"] = pointer
	files["tasks/b/pointer.txt"] = pointer // no attribute names it
	id := s.repo.Commit("main", files)
	s.write(registry.Dataset{Name: "d", Tasks: []registry.Task{s.task("a", id, "tasks/a"), s.task("b", id, "tasks/b")}})
	set := s.load(s.source(), s.ref("d"))[0]
	if err := set.Tasks[0].Err(); err == nil || !strings.Contains(err.Error(), "git-lfs is not installed, and these files are only its pointers: environment/model.bin") {
		t.Errorf("without git-lfs: %v", err)
	}
	if err := set.Tasks[1].Err(); err != nil {
		t.Errorf("a file that only looks like a pointer: %v", err)
	}
	for _, tc := range []struct{ name, script, want string }{
		{"gives another content", "printf 'other content\\n'", "git-lfs does not give environment/model.bin: the content does not match the pointer"},
		{"gives too much", "printf 'large content\\n\\n'", "git-lfs does not give environment/model.bin"},
		{"fails", "echo broken >&2; exit 1", "broken"},
		{"works", "grep -q size && printf 'large content\\n'", ""},
	} {
		bin := t.TempDir()
		script := "#!/bin/sh\ncase $1 in version) exit 0;; smudge) " + tc.script + ";; esac\n"
		testprogram.Write(t, filepath.Join(bin, "git-lfs"), script)
		src := s.source()
		src.Git = git.New(git.Options{RetryDelay: time.Millisecond, Environ: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))})
		tk := s.load(src, s.ref("d"))[0].Tasks[0]
		got, _ := os.ReadFile(filepath.Join(tk.Dir, "environment/model.bin"))
		switch err := tk.Err(); {
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v", tc.name, err)
		case tc.want == "" && (err != nil || !bytes.Equal(got, []byte(content))):
			t.Errorf("%s: %v, %q", tc.name, err, got)
		}
	}
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
