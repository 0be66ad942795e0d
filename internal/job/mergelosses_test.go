package job

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/result"
)

// mergeInto merges what is at the paths in the scene.
func (s *scene) mergeInto(output string, move bool, paths ...string) (Merged, error) {
	return Merge(s.Context(), MergeOptions{Paths: paths, Output: output, Base: s.dir, Move: move})
}

// refusedInto wants a refusal that says why, and all files where they were.
func (s *scene) refusedInto(output string, move bool, why string, paths ...string) {
	s.Helper()
	before := s.content(s.dir)
	_, err := s.mergeInto(output, move, paths...)
	var refusal Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), why) {
		s.Errorf("%v into %s: got %v, want a refusal that says %q", paths, output, err, why)
	}
	if !maps.Equal(before, s.content(s.dir)) {
		s.Errorf("%v into %s: files were changed", paths, output)
	}
}

func TestAMergeNeverReplacesTheOnlyCopyOfAResult(t *testing.T) {
	s := newScene(t)
	s.shards(3)
	link := s.in("shards", "1", filepath.FromSlash(s.specs[0].Key.Dir()), "link")
	s.check(os.Symlink("/etc/passwd", link)) // its trial is linked file by file, and stays
	first, err := s.mergeInto("out", true, "shards")
	s.check(err)
	// Merging them again changes nothing, and says the same; part of them is refused.
	before := s.content(s.dir)
	for _, move := range []bool{true, false} {
		again, err := s.mergeInto("out", move, "shards")
		s.check(err)
		if again.Merged != 3 || len(again.Incomplete) > 0 || len(again.Tree.Trials) != len(s.specs) || again.Job.CompletedTrials != first.Job.CompletedTrials {
			t.Errorf("merged again it is %+v", again)
		}
		s.says(again.Notes, "has all trials of these shards already")
	}
	if !maps.Equal(before, s.content(s.dir)) {
		t.Error("files were changed")
	}
	s.check(os.RemoveAll(s.in("shards")))
	s.run(s.in("shards", "2"), 2, 3, nil)
	s.refusedInto("out", true, "was moved out of its shard", "shards")
	s.refusedInto("out", false, "was moved out of its shard", "shards")

	// Shards that were run again have all that is needed.
	s.check(os.RemoveAll(s.in("shards")))
	s.shards(3)
	merged, err := s.mergeInto("out", false, "shards")
	s.check(err)
	if len(merged.Incomplete) > 0 {
		t.Errorf("incomplete: %q", merged.Incomplete)
	}
	// Now nothing in the output is the only copy, so that it may be replaced by less.
	_, err = s.mergeInto("out", false, "shards/1")
	s.check(err)
}

func TestShardsThatAreNeededAgainAreNotUsedUp(t *testing.T) {
	s := newScene(t)
	s.shards(3, 2)
	s.run(s.in("cut"), 2, 3, func(key result.Key) bool { return key.Attempt == 2 })
	for _, paths := range [][]string{{"shards"}, {"shards", "cut"}} {
		before := s.content(s.in("shards"))
		merged, err := s.mergeInto("out", true, paths...)
		s.check(err)
		s.says(merged.Notes, "left as they are, in spite of --move")
		if !maps.Equal(before, s.content(s.in("shards"))) {
			t.Fatalf("%q: the shards were used up", paths)
		}
	}
	s.run(s.in("shards", "2"), 2, 3, nil)
	merged, err := s.mergeInto("out", true, "shards")
	s.check(err)
	if len(merged.Incomplete)+len(merged.Notes) > 0 || len(s.content(s.in("shards"))) >= len(s.content(s.in("out"))) {
		t.Errorf("complete shards were not moved: %q %q", merged.Incomplete, merged.Notes)
	}
}

func TestTheOutputIsApartFromTheShards(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	_, err := s.mergeInto("out", false, "shards")
	s.check(err)
	s.check(os.Symlink("shards", s.in("link")))
	s.refusedInto("shards/1/merged", false, "in the folder of a shard", "shards")
	s.refusedInto("link/2/merged/deep", false, "in the folder of a shard", "shards")
	s.check(os.Mkdir(s.in("empty"), 0o755))
	var refusal Refusal
	if _, err := Merge(t.Context(), MergeOptions{Paths: []string{"../shards"}, Output: ".", Base: s.in("empty")}); !errors.As(err, &refusal) {
		t.Errorf("into the current folder, which cannot be replaced: got %v", err)
	}

	// Below what an earlier merge made, whose folder is replaced as a whole.
	s.check(os.CopyFS(s.in("out", "shards"), os.DirFS(s.in("shards"))))
	s.refusedInto("out", false, "would be lost", "out/shards")
	s.refusedInto("out", false, "would be lost", "shards", "out/shards/1")
	s.check(os.RemoveAll(s.in("out", "shards")))
	s.write(s.in("out", "1.tgz"), string(gzipped(s.tarred(s.in("shards", "1"), ""))))
	s.refusedInto("out", false, "would be lost", "out/1.tgz")

	_, err = s.mergeInto("shards/merged", false, "shards")
	s.check(err)
}

func TestAnOutputMayEndWithASlash(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	for range 2 {
		for _, output := range []string{"out/", "gone/../other//", "./new/deep/"} {
			merged, err := s.mergeInto(output, false, "shards")
			s.check(err)
			if merged.Dir != filepath.Clean(output) || s.content(s.in(merged.Dir))[result.ResultFile] == "" {
				t.Errorf("%s: merged into %s", output, merged.Dir)
			}
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	for i := range 2 * maxNotes {
		s.write(s.in("shards", fmt.Sprint("no", i), result.PlanFile), "no plan")
	}
	merged := s.mustMerge()
	if n := len(merged.Notes); n != maxNotes+1 || merged.Notes[maxNotes] != fmt.Sprintf("and %d more notes", maxNotes) {
		t.Errorf("%d notes, the last: %s", n, merged.Notes[n-1])
	}
}

func TestNoAgentTakesTheNameOfAFileOfTheJob(t *testing.T) {
	s := newScene(t)
	for i := range s.specs {
		s.specs[i].Key.Agent = result.ResultFile
	}
	s.run(s.in("whole"), 0, 0, func(result.Key) bool { return true })
	s.write(s.in("shards", "1", result.PlanFile), s.read(s.in("whole", result.PlanFile)))
	s.refused(nil, "an agent's folder would be the file "+result.ResultFile)
}

// What cannot be read is named as it was given: the folder that an archive was unpacked into is gone by then.
func TestUnreadableResultsAreNamedAsTheyWereGiven(t *testing.T) {
	s := newScene(t)
	s.shards(1)
	s.write(s.in("shards", "1", filepath.FromSlash(s.specs[0].Key.Dir()), result.ResultFile), "torn")
	s.write(s.in("down", "1.tgz"), string(gzipped(s.tarred(s.in("shards", "1"), ""))))
	merged := s.mustMerge("down")
	want := filepath.Join("down", "1.tgz", filepath.FromSlash(s.specs[0].Key.Dir()), result.ResultFile)
	if len(merged.Tree.Unreadable) != 1 || !strings.HasPrefix(merged.Tree.Unreadable[0].Error(), want+":") {
		t.Errorf("got %v, want %s", merged.Tree.Unreadable, want)
	}
}
