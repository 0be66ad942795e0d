package merge

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
)

func TestMergeEqualsARunOfTheWholeJob(t *testing.T) {
	for _, total := range []int{1, 2, 4, 7} {
		s := newScene(t)
		s.RunShard(s.In("whole"), 0, 0, nil)
		s.Shards(total)
		merged := s.mustMerge()
		if len(merged.Incomplete)+len(merged.Notes) > 0 || merged.Dir != filepath.Join("jobs", "nightly") || merged.Merged != total {
			t.Errorf("%d shards: %+v", total, merged)
		}
		want, got := s.Content(s.In("whole")), s.Content(s.In("jobs", "nightly"))
		delete(got, result.MergeFile)
		for name := range want {
			if name == result.EventsFile {
				a, b := strings.Split(want[name], "\n"), strings.Split(got[name], "\n")
				slices.Sort(a)
				if !slices.IsSorted(eventTimes(b)) || !slices.Equal(a, slices.Sorted(slices.Values(b))) {
					t.Errorf("%d shards: the events are\n%s", total, got[name])
				}
			} else if want[name] != got[name] {
				t.Errorf("%d shards: %s is\n%s, of the whole run\n%s", total, name, got[name], want[name])
			}
		}
		if len(want) != len(got) {
			t.Errorf("%d shards: %d files, the whole run has %d", total, len(got), len(want))
		}
		if lines := strings.Count(got[result.OutputsFile], `"content":"do 3"`); lines != 4 {
			t.Errorf("%d shards: %d lines have the instruction of task-3, want one for each attempt:\n%s", total, lines, got[result.OutputsFile])
		}
		read, err := result.ReadTree(s.In("jobs", "nightly"))
		s.Check(err)
		if len(read.Trials) != len(merged.Tree.Trials) || len(read.Trials) != len(s.Specs) {
			t.Errorf("%d trials were returned, %d are on disk", len(merged.Tree.Trials), len(read.Trials))
		}
		s.nothingLeft()
	}
}

func TestMissingShardIsReportedWithItsTrials(t *testing.T) {
	s := newScene(t)
	s.Shards(4, 3)
	merged := s.mustMerge()
	s.says(merged.Incomplete, "shard 3/4 is missing", "and with it 4 trials", "agent 0/my/set/task-2__1, agent 0/my/set/task-2__2, agent 1/my/set/task-2__1")
	if len(merged.Incomplete) != 1 || merged.Job.SkippedTrials != 4 || !merged.Job.Cancelled {
		t.Errorf("%q, %+v", merged.Incomplete, merged.Job.Summary)
	}
	text := s.Read(s.In("jobs", "nightly", result.MergeFile))
	if !strings.Contains(text, "shard 3/4 is missing") {
		t.Errorf("merge.json says nothing of it:\n%s", text)
	}
	var made record
	s.Check(json.Unmarshal([]byte(text), &made))
	for _, shard := range made.Shards {
		if shard.Results != shard.Trials || shard.Trials == 0 {
			t.Errorf("merge.json has %+v, want all results", shard)
		}
	}

	// Once it is there, the same command makes the merge whole, and leaves nothing of the old one.
	s.Write(s.In("jobs", "nightly", "old.txt"), "")
	s.RunShard(s.In("shards", "3"), 3, 4, nil)
	if merged := s.mustMerge(); len(merged.Incomplete) > 0 || merged.Job.SkippedTrials > 0 {
		t.Errorf("still incomplete: %q", merged.Incomplete)
	}
	if _, err := os.Stat(s.In("jobs", "nightly", "old.txt")); err == nil {
		t.Error("a file of the earlier merge is left")
	}
}

func TestManyMissingShardsAreCounted(t *testing.T) {
	s := newScene(t)
	s.RunShard(s.In("shards", "1"), 1, 20, nil)
	s.Specs = s.Specs[:1]
	if got := s.mustMerge().Incomplete; len(got) != 19 {
		t.Errorf("%d sentences", len(got))
	}
	if got := untrusted.Names(slices.Repeat([]string{"x"}, 12)); got != strings.Repeat("x, ", 9)+"x and 2 more" {
		t.Errorf("got %q", got)
	}
}

func TestFinishedTrialsOfAKilledShardCount(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	own := func(i int) string { return s.In("shards", "2", filepath.FromSlash(s.Specs[i].Key.Dir())) }
	s.Check(os.Remove(s.In("shards", "2", result.ResultFile)))
	// A trial that runs has a directory with logs; another one's result is torn, and so is the last
	// event.
	s.Check(os.Remove(filepath.Join(own(2), result.ResultFile)))
	s.Write(filepath.Join(own(3), result.ResultFile), `{"task_name": "task-1", "rew`)
	events := s.Read(s.In("shards", "2", result.EventsFile))
	s.Write(s.In("shards", "2", result.EventsFile), events[:len(events)-9])
	merged := s.mustMerge()
	s.says(merged.Incomplete, "shard 2/2 did not finish", "of its 8 trials, 2 have no result: agent 0/my/set/task-1__1, agent 0/my/set/task-1__2")
	if merged.Job.SkippedTrials != 2 || len(merged.Tree.Unreadable) != 1 {
		t.Errorf("%+v, unreadable %v", merged.Job.Summary, merged.Tree.Unreadable)
	}
	if _, err := os.Stat(s.In("jobs", "nightly", filepath.FromSlash(s.Specs[2].Key.Dir()), "logs", "agent", "notes.txt")); err != nil {
		t.Errorf("the logs of the unfinished trial are gone: %v", err)
	}
	if got := s.Read(s.In("jobs", "nightly", result.EventsFile)); strings.Count(got, "\n") != 2*len(s.Specs)-1 || !strings.HasSuffix(got, "}\n") {
		t.Errorf("the events are\n%s", got)
	}
}

func TestCancelledShardIsReported(t *testing.T) {
	s := newScene(t)
	s.Shards(2, 2)
	s.RunShard(s.In("shards", "2"), 2, 2, func(key result.Key) bool { return key.Attempt == 2 })
	s.says(s.mustMerge().Incomplete, "shard 2/2 was cancelled", "of its 8 trials, 4 have no result", "agent 0/my/set/task-1__2")
}

func TestLostResultsAreReported(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.Check(os.RemoveAll(s.In("shards", "1", filepath.FromSlash(s.Specs[0].Key.Dir()))))
	s.says(s.mustMerge().Incomplete, "shard 1/2 finished, but results of it are gone", "agent 0/my/set/task-0__1")
}

// TestAPlannedTrialWithTheResultOfAConfirmationHasNoResult merges a result that no run leaves: the
// job's counts leave it out, and so does the record of the merge.
func TestAPlannedTrialWithTheResultOfAConfirmationHasNoResult(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	below := s.Specs[0].Key.Dir() + "/" + result.ResultFile
	file := s.In("shards", "1", filepath.FromSlash(below))
	was := s.Read(file)
	s.Write(file, strings.Replace(was, "{", `{"confirmation": true,`, 1))
	sums := s.In("shards", "1", result.SumsFile)
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	s.Write(sums, strings.ReplaceAll(s.Read(sums), sum(was), sum(s.Read(file))))
	merged := s.mustMerge()
	s.says(merged.Incomplete, "shard 1/2 finished, but results of it are gone", "of its 12 trials, 1 has no result", s.Specs[0].Key.String())
	if made := s.Read(s.In("jobs", "nightly", result.MergeFile)); merged.Job.SkippedTrials != 1 || !strings.Contains(made, `"results": 11`) {
		t.Errorf("%d trials are skipped, and the record is\n%s", merged.Job.SkippedTrials, made)
	}
}

func TestOnlyAnEarlierMergeIsReplaced(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.Write(s.In("jobs", "nightly", "precious.txt"), "mine")
	s.refused(nil, "exists already", "choose another --output")
	s.Check(os.Remove(s.In("jobs", "nightly", "precious.txt")))
	s.mustMerge() // an empty directory counts as no output

	// A merge of another plan is no reason.
	record := s.Read(s.In("jobs", "nightly", result.MergeFile))
	s.Write(s.In("jobs", "nightly", result.MergeFile), strings.Replace(record, "sha256:", "sha256:0", 1))
	s.refused(nil, "exists already")
	s.Write(s.In("file"), "")
	_, err := Run(t.Context(), Options{Paths: []string{"shards"}, Output: "file", Base: s.Dir})
	var refusal job.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("a file as the output: %v", err)
	}
}

func TestCancelledMergeLeavesNothing(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Paths: []string{"shards"}, Parent: "jobs", Base: s.Dir}); !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v", err)
	}
	s.nothingLeft()
	if _, err := os.Stat(s.In("jobs", "nightly")); err == nil {
		t.Error("something was written")
	}
}

// TestMergedJobHasPathsFrom also where the merge is given relative paths, as a shell does.
func TestMergedJobHasPathsFrom(t *testing.T) {
	s := newScene(t)
	s.PathsFrom = "../.."
	s.Shards(2)
	t.Chdir(s.Dir)
	merged, err := Run(t.Context(), Options{Paths: []string{"shards"}, Output: filepath.Join("deep", "er", "whole")})
	s.Check(err)
	if from := merged.Tree.Plan.PathsFrom; from != "../../.." {
		t.Errorf("its paths begin at %q, want ../../..", from)
	}
}

// TestNotesOfWorkAtTheSameTime has notes of linking, which is repeated, and of the events: they
// have one order, and are no data race.
func TestNotesOfWorkAtTheSameTime(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.Check(os.RemoveAll(s.In("shards", "1", filepath.FromSlash(s.Specs[0].Key.Dir()))))
	for _, shard := range []string{"1", "2"} {
		s.Check(os.Remove(s.In("shards", shard, result.EventsFile)))
	}
	merged, err := s.mergeInto("out", true, "shards")
	s.Check(err)
	for i, want := range []string{"the events of shard 1/2", "the events of shard 2/2", "--move was ignored"} {
		if len(merged.Notes) != 3 || !strings.Contains(merged.Notes[i], want) {
			t.Fatalf("got %q, of which the one at %d should say %q", merged.Notes, i, want)
		}
	}
}
