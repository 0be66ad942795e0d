package merge

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

func TestNewestCompleteDirectoryOfAShardIsMerged(t *testing.T) {
	first := func(key result.Key) bool { return key.Attempt == 1 }
	for _, tc := range []struct {
		name     string
		old, new func(result.Key) bool // trials without a result
		oldWins  bool
		whole    bool
	}{
		{"both complete", nil, nil, false, true},
		{"a re-run of a cancelled one", first, nil, false, true},
		{"a re-run that was cancelled", nil, first, true, true},
		{"both cancelled", first, first, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.Shards(2, 2)
			s.RunShard(s.In("shards", "a"), 2, 2, tc.old)
			s.Began = s.Began.Add(time.Hour)
			s.RunShard(s.In("shards", "b"), 2, 2, tc.new)
			merged := s.mustMerge()
			used, unused := "shards/b is merged", "shards/a is not"
			if tc.oldWins {
				used, unused = "shards/a is merged", "shards/b is not"
			}
			s.says(merged.Notes, "shard 2/2 is there twice", used, unused)
			if whole := len(merged.Incomplete) == 0; whole != tc.whole {
				t.Errorf("incomplete: %q", merged.Incomplete)
			}
		})
	}
}

// A pattern that finds artifacts may find those of another job. They must not be judged in the
// place of the job's own.
func TestShardsOfAnotherJobAreNotMerged(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.Config.Name = "nightly-shard-x"
	s.RunShard(s.In("shards", "other"), 1, 2, nil)
	named := func(name string) (Result, error) {
		return Run(s.Context(), Options{Paths: []string{"shards"}, Parent: "jobs", Base: s.Dir, Name: name})
	}
	merged, err := named("nightly")
	s.Check(err)
	s.says(merged.Notes, "shards/other", "is of the job nightly-shard-x, so it is not merged")
	if merged.Merged != 2 || merged.Job.JobName != "nightly" || len(merged.Incomplete) > 0 {
		t.Errorf("got %+v", merged)
	}
	_, err = named("nightly [small]")
	var refusal job.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "are of the job nightly, nightly-shard-x, not of the job nightly [small]") {
		t.Errorf("got %v, want a refusal", err)
	}
	merged, err = named("nightly-{run}")
	if !errors.As(err, &refusal) {
		t.Errorf("got %+v, %v, want a refusal", merged, err)
	}
}

func TestShardsOfDifferentVersionsAreNoted(t *testing.T) {
	for other, noted := range map[string]bool{"v1.2.4": false, "v1.3.0": true} {
		s := newScene(t)
		s.Shards(2)
		for dir, version := range map[string]string{"1": "v1.2.3", "2": other} {
			s.unchecked(s.In("shards", dir))
			file := s.In("shards", dir, result.PlanFile)
			s.Write(file, strings.Replace(s.Read(file), "{", `{"rollout_version": "`+version+`",`, 1))
		}
		merged := s.mustMerge()
		if noted {
			s.says(merged.Notes, "was run with Rollout v1.2.3", "v1.3.0", "may differ")
		} else if len(merged.Notes) != 2 { // about the digests
			t.Errorf("%s: got %q", other, merged.Notes)
		}
		if merged.Job.RolloutVersion == "" {
			t.Error("the merged job has no version")
		}
	}
}

func TestDirectoryGivenTwiceIsMergedOnce(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.Check(os.Symlink("shards", s.In("link")))
	if merged := s.mustMerge("shards", "shards/1", s.In("shards"), "link"); len(merged.Notes) > 0 {
		t.Errorf("got %q", merged.Notes)
	}
}

func TestDifferentPlansAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(s *scene)
		want   []string
	}{
		{"another task", func(s *scene) {
			s.Specs[2].Task = &task.Task{Name: "task-1", FS: fstest.MapFS{"instruction.md": {Data: []byte("do something else")}}}
			s.Specs[3].Task, s.Specs[12].Task, s.Specs[13].Task = s.Specs[2].Task, s.Specs[2].Task, s.Specs[2].Task
		}, []string{"shards/1 (plan sha256:", "shards/2 (plan sha256:", "files differ in the task my/set/task-1"}},
		{"fewer trials", func(s *scene) { s.Specs = s.Specs[:18] }, []string{"one has 20 trials, the other 18"}},
		{"a task more", func(s *scene) {
			s.Specs = append(s.Specs, trial.Spec{Key: result.Key{Agent: "agent 0", Dataset: "my/set", Task: "extra", Attempt: 1}, Task: &task.Task{FS: fstest.MapFS{}}})
		}, []string{"only the second has the task my/set/extra", "one has 20 trials, the other 21"}},
		{"another configuration", func(s *scene) { s.Config.TimeoutMultiplier = 7 }, []string{"so the configuration differs", result.ConfigFile}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.RunShard(s.In("shards", "1"), 1, 2, nil)
			tc.change(s)
			s.RunShard(s.In("shards", "2"), 2, 2, nil)
			s.refused([]string{"shards"}, tc.want...)
		})
	}
}

func TestDifferentSplitsAreRefused(t *testing.T) {
	s := newScene(t)
	s.RunShard(s.In("shards", "1"), 1, 2, nil)
	s.RunShard(s.In("shards", "2"), 2, 3, nil)
	s.refused(nil, "shard 1/2", "shard 2/3", "the shards of one split")

	s = newScene(t)
	s.RunShard(s.In("shards", "1"), 1, 2, nil)
	s.RunShard(s.In("other", "1"), 1, 2, nil)
	plan := s.Read(s.In("other", "1", result.PlanFile))
	s.Write(s.In("other", "1", result.PlanFile), strings.Replace(plan, `"split": "sha256:`, `"split": "sha256:0`, 1))
	s.refused([]string{"shards", "other"}, "other/1/plan.json", "download the shard again")
	s.unchecked(s.In("other", "1"))
	s.refused([]string{"shards", "other"}, "in different ways", "the same --timings")
}

// Re-running a workflow leaves the artifacts of the attempt before. If the number of shards has
// changed since, they have other names.
func TestShardsOfAnEarlierDivisionAreLeftOut(t *testing.T) {
	for _, now := range []int{2, 4} {
		s := newScene(t)
		s.Shards(3)
		want := s.mustMerge()
		s.Began = s.Began.Add(time.Hour)
		for i := range now {
			s.RunShard(s.In("again", fmt.Sprint(i+1)), i+1, now, nil)
		}
		merged := s.mustMerge("shards", "again")
		s.says(merged.Notes, "shards/3 is shard 3/3 of an earlier division of the same plan", "it is not merged")
		if merged.Merged != now || len(merged.Incomplete) > 0 || merged.Job.CompletedTrials != want.Job.CompletedTrials {
			t.Errorf("of %d shards: %+v", now, merged)
		}

		// Trials of the missing shard are missing, although the earlier attempt has results of
		// them.
		s.Check(os.RemoveAll(s.In("again", "2")))
		merged = s.mustMerge("shards", "again")
		s.says(merged.Incomplete, fmt.Sprintf("shard 2/%d is missing", now))

		// A division that began before the other one had begun whole is none of an earlier attempt.
		s.RunShard(s.In("shards", "late"), 3, 3, nil)
		s.refused([]string{"shards", "again"}, "the shards of one split")
	}
}

func TestEarlierMergeNextToItsShardsIsIgnored(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.mustMerge()
	s.Check(os.Rename(s.In("jobs", "nightly"), s.In("shards", "nightly")))
	s.says(s.mustMerge().Notes, "shards/nightly is the result of an earlier merge")
	s.refused([]string{"shards/nightly"}, "is merged already")
}

func TestJobWithoutShardsCanBeMerged(t *testing.T) {
	s := newScene(t)
	s.RunShard(s.In("whole"), 0, 0, nil)
	if merged := s.mustMerge("whole"); len(merged.Incomplete) > 0 || merged.Shards != 1 {
		t.Errorf("got %+v", merged)
	}
}

func TestPathsWithoutShardsAreRefused(t *testing.T) {
	s := newScene(t)
	s.Write(s.In("empty", "a", "b", "c", "d", result.PlanFile), "{}")
	s.Write(s.In("text", "x"), "")
	s.Write(s.In("torn", result.PlanFile), `{"job_name": "x", "digest`)
	s.Write(s.In("old", result.PlanFile), `{"job_name": "x", "trials": []}`)
	s.Write(s.In("odd", result.PlanFile), `{"digest": "d", "shard": {"index": 3, "total": 2}, "trials": []}`)
	s.Write(s.In("short", result.PlanFile), `{"job_name": "x", "digest": "d", "shard": {"index": 1, "total": 2}, "trials": [{}]}`)
	for path, want := range map[string]string{
		"nowhere": "there is no such directory or archive",
		"empty":   "no shard was found in empty",
		"text/x":  "neither a directory nor an archive",
		"torn":    "no shard was found: torn is not merged",
		"old":     "has no digest",
		"odd":     "there is no shard 3/2",
		"short":   "for 0 of 1 trials in which shard they are",
	} {
		s.refused([]string{path}, want)
	}
}
