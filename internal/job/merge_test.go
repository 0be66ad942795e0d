package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
)

// scene is a job of two agents, five tasks and two attempts, and the folders that runs of it leave.
type scene struct {
	*testing.T
	dir   string // where the folders are
	cfg   config.Job
	specs []trial.Spec
	began time.Time
	// pathsFrom is that of the plans.
	pathsFrom string
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, dir: t.TempDir(), began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.cfg = config.Job{Name: "nightly", JobsDir: "jobs", NAttempts: 2, Metrics: []config.Metric{{Type: "sum"}}}
	for a := range 2 {
		for n := range 5 {
			made := &task.Task{Name: fmt.Sprint("task-", n), FS: fstest.MapFS{"instruction.md": {Data: []byte(fmt.Sprint("do ", n))}}}
			for attempt := 1; attempt <= 2; attempt++ {
				key := result.Key{Agent: fmt.Sprint("agent ", a), Dataset: "my/set", Task: made.Name, Attempt: attempt}
				s.specs = append(s.specs, trial.Spec{Key: key, Task: made})
			}
		}
	}
	return s
}

func (s *scene) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// in is a path in the scene's folder.
func (s *scene) in(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

// outcome is what a trial comes to, the same in every run.
func (s *scene) outcome(i int) trial.Outcome {
	t := result.Trial{Key: s.specs[i].Key, TaskDigest: s.specs[i].Task.Digest()}
	t.Timestamps.StartedAt = s.began.Add(time.Duration(i) * time.Second)
	t.Timestamps.EndedAt = t.Timestamps.StartedAt.Add(800 * time.Millisecond)
	t.Durations.TotalSec = 0.8
	t.Costs.Model, t.Cost = 0.1*float64(i), 0.1*float64(i)
	if i%7 == 3 {
		t.Error = &result.Error{Type: result.AgentExecutionFailed, Message: "it fell over"}
	} else {
		t.Reward = new(float64(i%3) / 2)
	}
	return trial.Outcome{Trial: t}
}

// run leaves in the folder what a run of a shard does; total 0 is the whole job. Trials for which skip is true have no result.
func (s *scene) run(dir string, index, total int, skip func(result.Key) bool) {
	s.Helper()
	opts := RecordOptions{StartedAt: s.began, Dir: s.dir, PathsFrom: s.pathsFrom}
	if total > 0 {
		opts.Shard, opts.ShardOf = &result.Shard{Index: index, Total: total}, Shards(s.specs, total, nil)
	}
	plan, err := Record(s.cfg, s.specs, opts)
	s.check(err)
	tree, err := Create(dir, s.cfg, plan)
	s.check(err)
	tree.outputs.from(Instructions(s.specs, nil))
	var trials []result.Trial
	for i, spec := range s.specs {
		o := s.outcome(i)
		if !slices.Contains(plan.Own(), spec.Key) || skip != nil && skip(spec.Key) {
			continue
		}
		tree.Sink(event.Event{Time: o.Trial.Timestamps.StartedAt, Kind: event.TrialStarted, Key: &spec.Key})
		tree.Sink(event.Event{Time: o.Trial.Timestamps.EndedAt, Kind: event.TrialEnded, Key: &spec.Key})
		s.check(tree.WriteTrial(o))
		s.write(filepath.Join(tree.TrialDir(spec.Key), "logs", "agent", "notes.txt"), spec.Key.String())
		trials = append(trials, o.Trial)
	}
	s.check(tree.WriteJob(result.Summarize(plan, trials)))
	s.check(tree.Close())
}

// shards leaves the folders shards/i for all of total shards but those left out.
func (s *scene) shards(total int, without ...int) {
	s.Helper()
	for i := 1; i <= total; i++ {
		if !slices.Contains(without, i) {
			s.run(s.in("shards", fmt.Sprint(i)), i, total, nil)
		}
	}
}

func (s *scene) write(path, text string) {
	s.Helper()
	s.check(os.MkdirAll(filepath.Dir(path), 0o755))
	s.check(os.WriteFile(path, []byte(text), 0o644))
}

func (s *scene) read(path string) string {
	s.Helper()
	text, err := os.ReadFile(path)
	s.check(err)
	return string(text)
}

// merge merges what is at the paths in the scene into the folder jobs.
func (s *scene) merge(paths ...string) (Merged, error) {
	if len(paths) == 0 {
		paths = []string{"shards"}
	}
	return Merge(s.Context(), MergeOptions{Paths: paths, Parent: "jobs", Base: s.dir})
}

func (s *scene) mustMerge(paths ...string) Merged {
	s.Helper()
	merged, err := s.merge(paths...)
	s.check(err)
	return merged
}

// refused merges, and wants a refusal with all of the texts and nothing written.
func (s *scene) refused(paths []string, want ...string) {
	s.Helper()
	_, err := s.merge(paths...)
	var refusal Refusal
	if !errors.As(err, &refusal) {
		s.Fatalf("got %v, want a refusal", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			s.Errorf("the refusal does not say %q: %s", w, err)
		}
	}
	s.nothingLeft()
}

// nothingLeft looks for drafts.
func (s *scene) nothingLeft() {
	s.Helper()
	drafts, err := filepath.Glob(s.in("jobs", ".*"))
	if err != nil || len(drafts) > 0 {
		s.Errorf("left behind: %v %v", drafts, err)
	}
}

// says wants one of the sentences to have all of the texts.
func (s *scene) says(sentences []string, want ...string) {
	s.Helper()
	for _, sentence := range sentences {
		if !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(sentence, w) }) {
			return
		}
	}
	s.Errorf("none of these says %q:\n%s", want, strings.Join(sentences, "\n"))
}

// content is all files below a folder with what is in them.
func (s *scene) content(dir string) map[string]string {
	s.Helper()
	files := map[string]string{}
	s.check(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if e.Type().IsRegular() {
			files[below] = s.read(path)
		} else {
			files[below] = e.Type().String()
		}
		return err
	}))
	return files
}

func TestAMergeIsWhatARunOfTheWholeJobLeaves(t *testing.T) {
	for _, total := range []int{1, 2, 4, 7} {
		s := newScene(t)
		s.run(s.in("whole"), 0, 0, nil)
		s.shards(total)
		merged := s.mustMerge()
		if len(merged.Incomplete)+len(merged.Notes) > 0 || merged.Dir != filepath.Join("jobs", "nightly") || merged.Merged != total {
			t.Errorf("%d shards: %+v", total, merged)
		}
		want, got := s.content(s.in("whole")), s.content(s.in("jobs", "nightly"))
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
		read, err := result.ReadTree(s.in("jobs", "nightly"))
		s.check(err)
		if len(read.Trials) != len(merged.Tree.Trials) || len(read.Trials) != len(s.specs) {
			t.Errorf("%d trials were returned, %d are on disk", len(merged.Tree.Trials), len(read.Trials))
		}
		s.nothingLeft()
	}
}

func eventTimes(lines []string) []int64 {
	var times []int64
	for _, l := range lines {
		if l != "" {
			times = append(times, eventTime([]byte(l)))
		}
	}
	return times
}

func TestAMissingShardIsNamedWithItsTrials(t *testing.T) {
	s := newScene(t)
	s.shards(4, 3)
	merged := s.mustMerge()
	s.says(merged.Incomplete, "shard 3/4 is missing", "and with it 4 trials", "agent 0/my/set/task-2__1, agent 0/my/set/task-2__2, agent 1/my/set/task-2__1")
	if len(merged.Incomplete) != 1 || merged.Job.SkippedTrials != 4 || !merged.Job.Cancelled {
		t.Errorf("%q, %+v", merged.Incomplete, merged.Job.Summary)
	}
	if record := s.read(s.in("jobs", "nightly", result.MergeFile)); !strings.Contains(record, "shard 3/4 is missing") {
		t.Errorf("merge.json says nothing of it:\n%s", record)
	}

	// Once it is there, the same command makes the merge whole, and leaves nothing of the old one.
	s.write(s.in("jobs", "nightly", "old.txt"), "")
	s.run(s.in("shards", "3"), 3, 4, nil)
	if merged := s.mustMerge(); len(merged.Incomplete) > 0 || merged.Job.SkippedTrials > 0 {
		t.Errorf("still incomplete: %q", merged.Incomplete)
	}
	if _, err := os.Stat(s.in("jobs", "nightly", "old.txt")); err == nil {
		t.Error("a file of the earlier merge is left")
	}
}

func TestManyMissingShardsAreCounted(t *testing.T) {
	s := newScene(t)
	s.run(s.in("shards", "1"), 1, 20, nil)
	s.specs = s.specs[:1]
	if got := s.mustMerge().Incomplete; len(got) != 19 {
		t.Errorf("%d sentences", len(got))
	}
	if got := some(slices.Repeat([]string{"x"}, 12)); got != strings.Repeat("x, ", 9)+"x and 2 more" {
		t.Errorf("got %q", got)
	}
}

func TestTheNewestCompleteFolderOfAShardCounts(t *testing.T) {
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
			s.shards(2, 2)
			s.run(s.in("shards", "a"), 2, 2, tc.old)
			s.began = s.began.Add(time.Hour)
			s.run(s.in("shards", "b"), 2, 2, tc.new)
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

func TestAFolderThatIsNamedTwiceIsMergedOnce(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	s.check(os.Symlink("shards", s.in("link")))
	if merged := s.mustMerge("shards", "shards/1", s.in("shards"), "link"); len(merged.Notes) > 0 {
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
			s.specs[2].Task = &task.Task{Name: "task-1", FS: fstest.MapFS{"instruction.md": {Data: []byte("do something else")}}}
			s.specs[3].Task, s.specs[12].Task, s.specs[13].Task = s.specs[2].Task, s.specs[2].Task, s.specs[2].Task
		}, []string{"shards/1 (plan sha256:", "shards/2 (plan sha256:", "files differ in the task my/set/task-1"}},
		{"fewer trials", func(s *scene) { s.specs = s.specs[:18] }, []string{"one has 20 trials, the other 18"}},
		{"a task more", func(s *scene) {
			s.specs = append(s.specs, trial.Spec{Key: result.Key{Agent: "agent 0", Dataset: "my/set", Task: "extra", Attempt: 1}, Task: &task.Task{FS: fstest.MapFS{}}})
		}, []string{"only the second has the task my/set/extra", "one has 20 trials, the other 21"}},
		{"another configuration", func(s *scene) { s.cfg.TimeoutMultiplier = 7 }, []string{"so the configuration differs", result.ConfigFile}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.run(s.in("shards", "1"), 1, 2, nil)
			tc.change(s)
			s.run(s.in("shards", "2"), 2, 2, nil)
			s.refused([]string{"shards"}, tc.want...)
		})
	}
}

func TestDifferentSplitsAreRefused(t *testing.T) {
	s := newScene(t)
	s.run(s.in("shards", "1"), 1, 2, nil)
	s.run(s.in("shards", "2"), 2, 3, nil)
	s.refused(nil, "shard 1/2", "shard 2/3", "the shards of one split")

	s = newScene(t)
	s.run(s.in("shards", "1"), 1, 2, nil)
	s.run(s.in("other", "1"), 1, 2, nil)
	plan := s.read(s.in("other", "1", result.PlanFile))
	s.write(s.in("other", "1", result.PlanFile), strings.Replace(plan, `"split": "sha256:`, `"split": "sha256:0`, 1))
	s.refused([]string{"shards", "other"}, "other/1/plan.json", "download the shard again")
	s.check(os.Remove(s.in("other", "1", result.SumsFile)))
	s.refused([]string{"shards", "other"}, "in different ways", "the same --timings")
}

func TestTrialsOfOtherShardsAreRefused(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	foreign := filepath.FromSlash(s.specs[0].Key.Dir()) // shard 1's
	s.check(os.CopyFS(s.in("shards", "2", foreign), os.DirFS(s.in("shards", "1", foreign))))
	s.refused(nil, "shards/2 (shard 2/2)", "agent 0/my/set/task-0__1", "which is shard 1/2's")
	if _, err := os.Stat(s.in("jobs", "nightly")); err == nil {
		t.Error("something was written")
	}

	s = newScene(t)
	s.shards(2)
	s.write(s.in("shards", "2", "agent 0", "my-set", "unplanned__1", result.ResultFile), "{}")
	s.refused(nil, "agent 0/my-set/unplanned__1", "no trial of the plan")
}

func TestWhatAKilledShardFinishedCounts(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	own := func(i int) string { return s.in("shards", "2", filepath.FromSlash(s.specs[i].Key.Dir())) }
	s.check(os.Remove(s.in("shards", "2", result.ResultFile)))
	// A trial that runs has a folder with logs; another one's result is torn, and so is the last event.
	s.check(os.Remove(filepath.Join(own(2), result.ResultFile)))
	s.write(filepath.Join(own(3), result.ResultFile), `{"task_name": "task-1", "rew`)
	events := s.read(s.in("shards", "2", result.EventsFile))
	s.write(s.in("shards", "2", result.EventsFile), events[:len(events)-9])
	merged := s.mustMerge()
	s.says(merged.Incomplete, "shard 2/2 did not finish", "of its 8 trials, 2 have no result: agent 0/my/set/task-1__1, agent 0/my/set/task-1__2")
	if merged.Job.SkippedTrials != 2 || len(merged.Tree.Unreadable) != 1 {
		t.Errorf("%+v, unreadable %v", merged.Job.Summary, merged.Tree.Unreadable)
	}
	if _, err := os.Stat(s.in("jobs", "nightly", filepath.FromSlash(s.specs[2].Key.Dir()), "logs", "agent", "notes.txt")); err != nil {
		t.Errorf("the logs of the unfinished trial are gone: %v", err)
	}
	if got := s.read(s.in("jobs", "nightly", result.EventsFile)); strings.Count(got, "\n") != 2*len(s.specs)-1 || !strings.HasSuffix(got, "}\n") {
		t.Errorf("the events are\n%s", got)
	}
}

func TestACancelledShardIsSaid(t *testing.T) {
	s := newScene(t)
	s.shards(2, 2)
	s.run(s.in("shards", "2"), 2, 2, func(key result.Key) bool { return key.Attempt == 2 })
	s.says(s.mustMerge().Incomplete, "shard 2/2 was cancelled", "of its 8 trials, 4 have no result", "agent 0/my/set/task-1__2")
}

func TestResultsThatWereLostOnTheWayAreSaid(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	s.check(os.RemoveAll(s.in("shards", "1", filepath.FromSlash(s.specs[0].Key.Dir()))))
	s.says(s.mustMerge().Incomplete, "shard 1/2 finished, but results of it are gone", "agent 0/my/set/task-0__1")
}

func TestOnlyItsOwnWorkIsReplaced(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	s.write(s.in("jobs", "nightly", "precious.txt"), "mine")
	s.refused(nil, "is there already", "choose another --output")
	s.check(os.Remove(s.in("jobs", "nightly", "precious.txt")))
	s.mustMerge() // an empty folder is nobody's

	// A merge of another plan is no reason.
	record := s.read(s.in("jobs", "nightly", result.MergeFile))
	s.write(s.in("jobs", "nightly", result.MergeFile), strings.Replace(record, "sha256:", "sha256:0", 1))
	s.refused(nil, "is there already")
	s.write(s.in("file"), "")
	_, err := Merge(t.Context(), MergeOptions{Paths: []string{"shards"}, Output: "file", Base: s.dir})
	var refusal Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("a file as the output: %v", err)
	}
}

func TestAnEarlierMergeBesideItsShardsIsPassedOver(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	s.mustMerge()
	s.check(os.Rename(s.in("jobs", "nightly"), s.in("shards", "nightly")))
	s.says(s.mustMerge().Notes, "shards/nightly is the outcome of an earlier merge")
	s.refused([]string{"shards/nightly"}, "is merged already")
}

func TestJobsThatWereRunWholeCanBeMergedToo(t *testing.T) {
	s := newScene(t)
	s.run(s.in("whole"), 0, 0, nil)
	if merged := s.mustMerge("whole"); len(merged.Incomplete) > 0 || merged.Shards != 1 {
		t.Errorf("got %+v", merged)
	}
}

func TestWhereThereAreNoShards(t *testing.T) {
	s := newScene(t)
	s.write(s.in("empty", "a", "b", "c", "d", result.PlanFile), "{}")
	s.write(s.in("text", "x"), "")
	s.write(s.in("torn", result.PlanFile), `{"job_name": "x", "digest`)
	s.write(s.in("old", result.PlanFile), `{"job_name": "x", "trials": []}`)
	s.write(s.in("odd", result.PlanFile), `{"digest": "d", "shard": {"index": 3, "total": 2}, "trials": []}`)
	s.write(s.in("short", result.PlanFile), `{"job_name": "x", "digest": "d", "shard": {"index": 1, "total": 2}, "trials": [{}]}`)
	for path, want := range map[string]string{
		"nowhere": "there is no such folder or archive",
		"empty":   "no shard was found in empty",
		"text/x":  "neither a folder nor an archive",
		"torn":    "no shard was found in torn",
		"old":     "has no digest",
		"odd":     "there is no shard 3/2",
		"short":   "for 0 of 1 trials in which shard they are",
	} {
		s.refused([]string{path}, want)
	}
}

func TestLinksAndOddNamesAreLeftOut(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	own := s.in("shards", "1", filepath.FromSlash(s.specs[0].Key.Dir()))
	s.write(s.in("secret.txt"), "secret")
	s.check(os.Symlink(s.in("secret.txt"), filepath.Join(own, "logs", "link.txt")))
	s.check(os.Symlink(s.dir, filepath.Join(own, "logs", "folder")))
	s.check(unix.Mkfifo(filepath.Join(own, "pipe"), 0o644))
	s.write(filepath.Join(own, "logs", "a:b"), "")
	s.write(filepath.Join(own, "logs", ".tmp-1"), "")
	// A result that is a link, and a shard's folders that are.
	second := s.in("shards", "1", filepath.FromSlash(s.specs[1].Key.Dir()))
	s.check(os.Rename(filepath.Join(second, result.ResultFile), s.in("elsewhere.json")))
	s.check(os.Symlink(s.in("elsewhere.json"), filepath.Join(second, result.ResultFile)))
	s.check(os.Rename(s.in("shards", "2", "agent 1"), s.in("agent 1")))
	s.check(os.Symlink(s.in("agent 1"), s.in("shards", "2", "agent 1")))
	merged := s.mustMerge()
	for name, text := range s.content(s.in("jobs", "nightly")) {
		if strings.HasPrefix(text, "L") && !strings.HasPrefix(text, "{") || strings.Contains(text, "secret") || strings.ContainsAny(name, ":") || strings.Contains(name, "/.") {
			t.Errorf("%s was merged: %s", name, text)
		}
	}
	if _, err := os.Lstat(filepath.Join(s.in("jobs", "nightly", filepath.FromSlash(s.specs[0].Key.Dir())), "pipe")); err == nil {
		t.Error("a pipe was merged")
	}
	s.says(merged.Notes, "6 files left out")
	s.says(merged.Incomplete, "shard 1/2", "agent 0/my/set/task-0__2")
	s.says(merged.Incomplete, "shard 2/2", "of its 8 trials, 4 have no result")
}

func TestLinksAreNotOpened(t *testing.T) {
	s := newScene(t)
	s.write(s.in("folder", "file"), "x")
	s.check(os.Symlink("folder", s.in("folder-link")))
	s.check(os.Symlink("folder/file", s.in("file-link")))
	s.check(unix.Mkfifo(s.in("pipe"), 0o644))
	for _, name := range []string{"folder-link", "file-link", "pipe", "folder/file"} {
		if f, err := openDir(unix.AT_FDCWD, s.in(name)); err == nil {
			t.Errorf("%s was opened as a folder: %v", name, f.Close())
		}
	}
	for _, name := range []string{"folder-link", "file-link", "pipe", "folder"} {
		if f, err := openRegular(s.in(name)); err == nil {
			t.Errorf("%s was opened as a file: %v", name, f.Close())
		}
	}
}

func TestFilesAreCopiedWhereTheyCannotBeLinked(t *testing.T) {
	s := newScene(t)
	s.write(s.in("from", "trial", "logs", "a.txt"), "text")
	s.check(os.Mkdir(s.in("to"), 0o755))
	for copies, links := range map[bool]uint64{false: 2, true: 1} {
		source, err := openDir(unix.AT_FDCWD, s.in("from", "trial"))
		s.check(err)
		target, err := openDir(unix.AT_FDCWD, s.in("to"))
		s.check(err)
		p := linker{copies: copies}
		s.check(p.folder(source, target, fmt.Sprint(copies), 0))
		s.check(errors.Join(source.Close(), target.Close()))
		path := s.in("to", fmt.Sprint(copies), "logs", "a.txt")
		if s.read(path) != "text" {
			t.Errorf("copies %v: the text is %q", copies, s.read(path))
		}
		var stat unix.Stat_t
		s.check(unix.Stat(path, &stat))
		if uint64(stat.Nlink) != links {
			t.Errorf("copies %v: the file has %d names", copies, stat.Nlink)
		}
		s.check(os.RemoveAll(s.in("to", fmt.Sprint(copies))))
	}
}

func TestMovingUsesTheShardsUp(t *testing.T) {
	s := newScene(t)
	s.run(s.in("whole"), 0, 0, nil)
	s.shards(3)
	odd := s.in("shards", "1", filepath.FromSlash(s.specs[0].Key.Dir()))
	s.check(os.Symlink("/etc/passwd", filepath.Join(odd, "logs", "link")))
	merged, err := Merge(t.Context(), MergeOptions{Paths: []string{"shards"}, Parent: "jobs", Base: s.dir, Move: true})
	s.check(err)
	if len(merged.Incomplete) > 0 {
		t.Errorf("incomplete: %q", merged.Incomplete)
	}
	got, want := s.content(s.in("jobs", "nightly")), s.content(s.in("whole"))
	if got[result.ResultFile] != want[result.ResultFile] || len(got) != len(want)+1 {
		t.Errorf("%d files, want %d and %s", len(got), len(want), result.MergeFile)
	}
	for _, spec := range s.specs[1:] {
		left, err := filepath.Glob(s.in("shards", "*", filepath.FromSlash(spec.Key.Dir())))
		if err != nil || len(left) > 0 {
			t.Errorf("%v was not moved, %v", left, err)
		}
	}
	if _, err := os.Stat(odd); err != nil {
		t.Errorf("a folder with a link in it has to be linked file by file: %v", err)
	}
}

func TestAFailedMoveIsTakenBack(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	before := s.content(s.in("shards"))
	// The events cannot be written where a folder is: the merge fails with folders moved.
	m := &merge{opts: MergeOptions{Paths: []string{s.in("shards")}, Move: true}, parent: s.in("jobs"), output: s.in("jobs", "nightly")}
	found, err := m.find(t.Context())
	s.check(err)
	s.check(m.selectShards(found))
	scratch, err := m.draftDir()
	s.check(err)
	draft := filepath.Join(scratch, draftName)
	s.check(os.MkdirAll(draft, 0o755))
	m.groups, err = groupsOf(m.keys)
	s.check(err)
	m.batched, err = m.batches(t.Context(), m.groups)
	s.check(err)
	began, err := m.begin()
	s.check(err)
	if _, err := m.linkTrials(t.Context(), draft); err != nil {
		t.Fatal(err)
	}
	if len(s.content(s.in("shards"))) >= len(before) {
		t.Fatal("nothing was moved")
	}
	// What cannot be moved back is kept.
	group := s.in("shards", "2", "agent 0", "my-set")
	s.check(os.Rename(group, group+".away"))
	if err := m.undo(began, draft); err == nil || !strings.Contains(err.Error(), draft) {
		t.Errorf("got %v", err)
	}
	s.check(m.scratch.remove())
	s.check(os.Rename(group+".away", group))

	// The next merge moves it back, too, and goes on.
	merged := s.mustMerge()
	if len(merged.Incomplete) > 0 || len(merged.Notes) > 0 {
		t.Errorf("incomplete %q, notes %q", merged.Incomplete, merged.Notes)
	}
	if after := s.content(s.in("shards")); !maps.Equal(after, before) {
		t.Errorf("%d files of %d are back", len(after), len(before))
	}
	s.nothingLeft()
}

func TestEventsOfOneShardStayInTheirOrder(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	line := func(at string, n int) string {
		return fmt.Sprintf(`{"time":"2026-01-02T03:04:%sZ","kind":"%d"}`, at, n) + "\n"
	}
	long := strings.Repeat("x", maxEvent+1<<17)
	s.write(s.in("shards", "1", result.EventsFile), line("05.9", 1)+line("05.12", 2)+"not an event\n\n"+`{"kind":"3"}`+"\n"+line("09", 6)+`{"time":"`+long+"\"}\n"+line("09", 7))
	s.write(s.in("shards", "2", result.EventsFile), line("05.85", 0)+line("06", 4)+line("07.000000001", 5)+`{"time":"2026`)
	s.mustMerge()
	want := line("05.85", 0) + line("05.9", 1) + line("05.12", 2) + `{"kind":"3"}` + "\n" + line("06", 4) + line("07.000000001", 5) + line("09", 6) + line("09", 7)
	if got := s.read(s.in("jobs", "nightly", result.EventsFile)); got != want {
		t.Errorf("got\n%s", got[:min(len(got), 2000)])
	}
}

func TestAMergeThatIsCancelledLeavesNothing(t *testing.T) {
	s := newScene(t)
	s.shards(2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Merge(ctx, MergeOptions{Paths: []string{"shards"}, Parent: "jobs", Base: s.dir}); !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v", err)
	}
	s.nothingLeft()
	if _, err := os.Stat(s.in("jobs", "nightly")); err == nil {
		t.Error("something was written")
	}
}

func TestReadHeadStopsAtTheLongLists(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.json")
	var b bytes.Buffer
	b.WriteString(`{"job_name": "j", "later": {"a": [1, {"tasks": 2}]}, "digest": "d", "tasks": [ this is never parsed, } `)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	head, err := readHead[result.Plan](path, "tasks")
	if err != nil || head.JobName != "j" || head.Digest != "d" {
		t.Errorf("got %+v, %v", head, err)
	}
	for name, text := range map[string]string{
		"torn":     `{"job_name": "j", "digest": "d", "tasks": [`,
		"a list":   `[{}]`,
		"empty":    ``,
		"no JSON":  `hello}`,
		"too long": `{"job_name": "` + strings.Repeat("x", 2*maxSmall) + `"}`,
		"numbers":  `{"job_name": 3}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if head, err := readHead[result.Plan](path, "tasks"); err == nil {
			t.Errorf("%s: got %+v", name, head)
		}
	}
}

// TestAMergedJobKnowsWhereItsPathsBegin also where the merge is given relative paths, as a shell does.
func TestAMergedJobKnowsWhereItsPathsBegin(t *testing.T) {
	s := newScene(t)
	s.pathsFrom = "../.."
	s.shards(2)
	t.Chdir(s.dir)
	merged, err := Merge(t.Context(), MergeOptions{Paths: []string{"shards"}, Output: filepath.Join("deep", "er", "whole")})
	s.check(err)
	if from := merged.Tree.Plan.PathsFrom; from != "../../.." {
		t.Errorf("its paths begin at %q, want ../../..", from)
	}
}
