package merge

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

func TestMergeNeverReplacesTheOnlyCopyOfAResult(t *testing.T) {
	s := newScene(t)
	s.Shards(3)
	link := s.In("shards", "1", filepath.FromSlash(s.Specs[0].Key.Dir()), "link")
	s.Check(os.Symlink("/etc/passwd", link)) // its trial is linked file by file, and stays
	first, err := s.mergeInto("out", true, "shards")
	s.Check(err)
	// Merging them again changes nothing, and says the same; part of them is refused.
	before := s.Content(s.Dir)
	for _, move := range []bool{true, false} {
		again, err := s.mergeInto("out", move, "shards")
		s.Check(err)
		if again.Merged != 3 || len(again.Incomplete) > 0 || len(again.Tree.Trials) != len(s.Specs) || again.Job.CompletedTrials != first.Job.CompletedTrials {
			t.Errorf("merged again it is %+v", again)
		}
		s.says(again.Notes, "has all trials of these shards already")
	}
	if !maps.Equal(before, s.Content(s.Dir)) {
		t.Error("files were changed")
	}
	s.Check(os.RemoveAll(s.In("shards")))
	s.RunShard(s.In("shards", "2"), 2, 3, nil)
	s.refusedInto("out", true, "was moved out of its shard", "shards")
	s.refusedInto("out", false, "was moved out of its shard", "shards")

	// Shards that were run again contain everything.
	s.Check(os.RemoveAll(s.In("shards")))
	s.Shards(3)
	merged, err := s.mergeInto("out", false, "shards")
	s.Check(err)
	if len(merged.Incomplete) > 0 {
		t.Errorf("incomplete: %q", merged.Incomplete)
	}
	// Now nothing in the output is the only copy, so that it may be replaced by less.
	_, err = s.mergeInto("out", false, "shards/1")
	s.Check(err)
}

func TestIncompleteShardsAreNotMoved(t *testing.T) {
	s := newScene(t)
	s.Shards(3, 2)
	s.RunShard(s.In("cut"), 2, 3, func(key result.Key) bool { return key.Attempt == 2 })
	for _, paths := range [][]string{{"shards"}, {"shards", "cut"}} {
		before := s.Content(s.In("shards"))
		merged, err := s.mergeInto("out", true, paths...)
		s.Check(err)
		s.says(merged.Notes, "--move was ignored, and the shards are left as they are")
		if !maps.Equal(before, s.Content(s.In("shards"))) {
			t.Fatalf("%q: the shards were used up", paths)
		}
	}
	s.RunShard(s.In("shards", "2"), 2, 3, nil)
	merged, err := s.mergeInto("out", true, "shards")
	s.Check(err)
	if len(merged.Incomplete)+len(merged.Notes) > 0 || len(s.Content(s.In("shards"))) >= len(s.Content(s.In("out"))) {
		t.Errorf("complete shards were not moved: %q %q", merged.Incomplete, merged.Notes)
	}
}

func TestOutputMustNotOverlapTheShards(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	_, err := s.mergeInto("out", false, "shards")
	s.Check(err)
	s.Check(os.Symlink("shards", s.In("link")))
	s.refusedInto("shards/1/merged", false, "in the directory of a shard", "shards")
	s.refusedInto("link/2/merged/deep", false, "in the directory of a shard", "shards")
	s.Check(os.Mkdir(s.In("empty"), 0o755))
	var refusal job.Refusal
	if _, err := Run(t.Context(), Options{Paths: []string{"../shards"}, Output: ".", Base: s.In("empty")}); !errors.As(err, &refusal) {
		t.Errorf("into the current directory, which cannot be replaced: got %v", err)
	}

	// Below the directory of an earlier merge, which is replaced as a whole.
	s.Check(os.CopyFS(s.In("out", "shards"), os.DirFS(s.In("shards"))))
	s.refusedInto("out", false, "would be lost", "out/shards")
	s.refusedInto("out", false, "would be lost", "shards", "out/shards/1")
	s.Check(os.RemoveAll(s.In("out", "shards")))
	s.Write(s.In("out", "1.tgz"), string(gzipped(s.tarred(s.In("shards", "1"), ""))))
	s.refusedInto("out", false, "would be lost", "out/1.tgz")

	_, err = s.mergeInto("shards/merged", false, "shards")
	s.Check(err)
}

func TestOutputMayEndWithASlash(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	for range 2 {
		for _, output := range []string{"out/", "gone/../other//", "./new/deep/"} {
			merged, err := s.mergeInto(output, false, "shards")
			s.Check(err)
			if merged.Dir != filepath.Clean(output) || s.Content(s.In(merged.Dir))[result.ResultFile] == "" {
				t.Errorf("%s: merged into %s", output, merged.Dir)
			}
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	for i := range 2 * maxNotes {
		s.Write(s.In("shards", fmt.Sprint("no", i), result.PlanFile), "no plan")
	}
	merged := s.mustMerge()
	if n := len(merged.Notes); n != maxNotes+1 || merged.Notes[maxNotes] != fmt.Sprintf("and %d more notes", maxNotes) {
		t.Errorf("%d notes, the last: %s", n, merged.Notes[n-1])
	}
}

func TestAgentNamedLikeAFileOfTheJobIsRefused(t *testing.T) {
	s := newScene(t)
	for i := range s.Specs {
		s.Specs[i].Key.Agent = result.ResultFile
	}
	s.RunShard(s.In("whole"), 0, 0, func(result.Key) bool { return true })
	s.Write(s.In("shards", "1", result.PlanFile), s.Read(s.In("whole", result.PlanFile)))
	s.refused(nil, "an agent's directory would be the file "+result.ResultFile)
}

// An unreadable result is named by the given path: the directory that an archive was unpacked into
// is gone by then.
func TestUnreadableResultsAreNamedByTheGivenPath(t *testing.T) {
	s := newScene(t)
	s.Shards(1)
	s.Write(s.In("shards", "1", filepath.FromSlash(s.Specs[0].Key.Dir()), result.ResultFile), "torn")
	s.Write(s.In("down", "1.tgz"), string(gzipped(s.tarred(s.In("shards", "1"), ""))))
	merged := s.mustMerge("down")
	want := filepath.Join("down", "1.tgz", filepath.FromSlash(s.Specs[0].Key.Dir()), result.ResultFile)
	if len(merged.Tree.Unreadable) != 1 || !strings.HasPrefix(merged.Tree.Unreadable[0].Error(), want+":") {
		t.Errorf("got %v, want %s", merged.Tree.Unreadable, want)
	}
}
