package merge

import (
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

func TestTrialsOfOtherShardsAreRefused(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	foreign := filepath.FromSlash(s.Specs[0].Key.Dir()) // shard 1's
	s.Check(os.CopyFS(s.In("shards", "2", foreign), os.DirFS(s.In("shards", "1", foreign))))
	s.refused(nil, "shards/2 (shard 2/2)", "agent 0/my/set/task-0__1", "which is shard 1/2's")
	if _, err := os.Stat(s.In("jobs", "nightly")); err == nil {
		t.Error("something was written")
	}

	s = newScene(t)
	s.Shards(2)
	s.Write(s.In("shards", "2", "agent 0", "my-set", "unplanned__1", result.ResultFile), "{}")
	s.refused(nil, "agent 0/my-set/unplanned__1", "no trial of the plan")
}

func TestLinksAndOddNamesAreLeftOut(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	own := s.In("shards", "1", filepath.FromSlash(s.Specs[0].Key.Dir()))
	s.Write(s.In("secret.txt"), "secret")
	s.Check(os.Symlink(s.In("secret.txt"), filepath.Join(own, "logs", "link.txt")))
	s.Check(os.Symlink(s.Dir, filepath.Join(own, "logs", "directory")))
	s.Check(unix.Mkfifo(filepath.Join(own, "pipe"), 0o644))
	s.Write(filepath.Join(own, "logs", "a:b"), "")
	s.Write(filepath.Join(own, "logs", ".tmp-1"), "")
	// A result that is a link, and a shard's directories that are.
	second := s.In("shards", "1", filepath.FromSlash(s.Specs[1].Key.Dir()))
	s.Check(os.Rename(filepath.Join(second, result.ResultFile), s.In("elsewhere.json")))
	s.Check(os.Symlink(s.In("elsewhere.json"), filepath.Join(second, result.ResultFile)))
	s.Check(os.Rename(s.In("shards", "2", "agent 1"), s.In("agent 1")))
	s.Check(os.Symlink(s.In("agent 1"), s.In("shards", "2", "agent 1")))
	merged := s.mustMerge()
	for name, text := range s.Content(s.In("jobs", "nightly")) {
		if strings.HasPrefix(text, "L") && !strings.HasPrefix(text, "{") || strings.Contains(text, "secret") || strings.ContainsAny(name, ":") || strings.Contains(name, "/.") {
			t.Errorf("%s was merged: %s", name, text)
		}
	}
	if _, err := os.Lstat(filepath.Join(s.In("jobs", "nightly", filepath.FromSlash(s.Specs[0].Key.Dir())), "pipe")); err == nil {
		t.Error("a pipe was merged")
	}
	s.says(merged.Notes, "6 files left out")
	s.says(merged.Incomplete, "shard 1/2", "agent 0/my/set/task-0__2")
	s.says(merged.Incomplete, "shard 2/2", "of its 8 trials, 4 have no result")
}

func TestMoveEmptiesTheShards(t *testing.T) {
	s := newScene(t)
	s.RunShard(s.In("whole"), 0, 0, nil)
	s.Shards(3)
	odd := s.In("shards", "1", filepath.FromSlash(s.Specs[0].Key.Dir()))
	s.Check(os.Symlink("/etc/passwd", filepath.Join(odd, "logs", "link")))
	merged, err := Run(t.Context(), Options{Paths: []string{"shards"}, Parent: "jobs", Base: s.Dir, Move: true})
	s.Check(err)
	if len(merged.Incomplete) > 0 {
		t.Errorf("incomplete: %q", merged.Incomplete)
	}
	got, want := s.Content(s.In("jobs", "nightly")), s.Content(s.In("whole"))
	if got[result.ResultFile] != want[result.ResultFile] || len(got) != len(want)+1 {
		t.Errorf("%d files, want %d and %s", len(got), len(want), result.MergeFile)
	}
	for _, spec := range s.Specs[1:] {
		left, err := filepath.Glob(s.In("shards", "*", filepath.FromSlash(spec.Key.Dir())))
		if err != nil || len(left) > 0 {
			t.Errorf("%v was not moved, %v", left, err)
		}
	}
	if _, err := os.Stat(odd); err != nil {
		t.Errorf("a directory with a link in it has to be linked file by file: %v", err)
	}
}

// A configuration that was edited is noticed after all trials were moved.
func TestMoveThatFailsLastIsUndone(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	config := s.In("shards", "1", result.ConfigFile)
	s.Check(os.WriteFile(config, []byte(s.Read(config)+" "), 0o644))
	before := s.Content(s.In("shards"))
	s.refusedInto("out", true, result.ConfigFile, "shards")
	if after := s.Content(s.In("shards")); !maps.Equal(after, before) {
		t.Errorf("%d files of %d are back", len(after), len(before))
	}
	s.nothingLeft()
}

func TestFailedMoveIsUndone(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	before := s.Content(s.In("shards"))
	// The events cannot be written where a directory is: the merge fails with directories moved.
	m := &merge{opts: Options{Paths: []string{s.In("shards")}, Move: true}, parent: s.In("jobs"), output: s.In("jobs", "nightly")}
	found, err := m.find(t.Context())
	s.Check(err)
	s.Check(m.selectShards(found))
	scratch, err := m.draftDir()
	s.Check(err)
	draft := filepath.Join(scratch, draftName)
	s.Check(os.MkdirAll(draft, 0o755))
	m.groups, err = groupsOf(m.keys)
	s.Check(err)
	m.batched, err = m.batches(t.Context(), m.groups)
	s.Check(err)
	began, err := m.begin()
	s.Check(err)
	if _, err := m.linkTrials(t.Context(), draft); err != nil {
		t.Fatal(err)
	}
	if len(s.Content(s.In("shards"))) >= len(before) {
		t.Fatal("nothing was moved")
	}
	// Trials that cannot be moved back are kept.
	group := s.In("shards", "2", "agent 0", "my-set")
	s.Check(os.Rename(group, group+".away"))
	if err := m.undo(began, draft); err == nil || !strings.Contains(err.Error(), draft) {
		t.Errorf("got %v", err)
	}
	s.Check(m.scratch.remove())
	s.Check(os.Rename(group+".away", group))

	// The next merge moves it back, too, and goes on.
	merged := s.mustMerge()
	if len(merged.Incomplete) > 0 || len(merged.Notes) > 0 {
		t.Errorf("incomplete %q, notes %q", merged.Incomplete, merged.Notes)
	}
	if after := s.Content(s.In("shards")); !maps.Equal(after, before) {
		t.Errorf("%d files of %d are back", len(after), len(before))
	}
	s.nothingLeft()
}

// TestGroupsFindTrialsByDirectory has tasks whose attempts do not follow each other, and names that
// only look like those of directories.
func TestGroupsFindTrialsByDirectory(t *testing.T) {
	var keys []result.Key
	for _, k := range []struct {
		task     string
		attempts []int
	}{{"a", []int{1, 2, 3}}, {"b__1", []int{1, 2}}, {"c", []int{2, 3}}, {"d", []int{1}}, {"b", []int{2, 1}}, {"d", []int{3, 2}}, {"e:", []int{1}}, {"e-", []int{2}}, {"f", []int{-1, 0}}} {
		for _, n := range k.attempts {
			keys = append(keys, result.Key{Agent: "agent", Dataset: "set", Task: k.task, Attempt: n})
		}
	}
	groups, err := groupsOf(result.KeysOf(keys...))
	if err != nil {
		t.Fatal(err)
	}
	g := groups["agent/set"]
	for i, k := range keys {
		if got, ok := g.find(path.Base(k.Dir())); !ok || got != i {
			t.Errorf("%v: %d %v, want %d", k, got, ok, i)
		}
	}
	for _, name := range []string{"", "__", "a", "a__", "a__0", "a__4", "a__01", "a__+1", "a__1 ", "b__3", "c__1", "__1", "e:__1", "a__-1", "a__99999999999999999999"} {
		if i, ok := g.find(name); ok {
			t.Errorf("%q is found at %d", name, i)
		}
	}
	twoTimes := []result.Key{{Agent: "a", Dataset: "s", Task: "t", Attempt: 2}, {Agent: "a", Dataset: "s", Task: "t", Attempt: 1}, {Agent: "a", Dataset: "s", Task: "t", Attempt: 2}}
	if _, err := groupsOf(result.KeysOf(twoTimes...)); err == nil {
		t.Error("a trial that is twice in a plan is not refused")
	}
	for _, twice := range []result.Key{{Task: "a", Attempt: 2}, {Task: "c", Attempt: 3}, {Task: "e:", Attempt: 2}, {Task: "e-", Attempt: 1}} {
		twice.Agent, twice.Dataset = "agent", "set"
		var refusal job.Refusal
		if _, err := groupsOf(result.KeysOf(append(slices.Clone(keys), twice)...)); !errors.As(err, &refusal) {
			t.Errorf("a second %v: %v", twice, err)
		}
	}
}
