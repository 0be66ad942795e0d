package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// writeTree writes a plan of n trials and the results of those that keep selects. It returns the
// directory and the keys.
func writeTree(t *testing.T, n int, keep func(i int) bool) (string, []Key) {
	t.Helper()
	dir := t.TempDir()
	plan := Plan{JobName: "j", Metrics: []string{"mean"}}
	for i := range n {
		plan.Trials.Append(Key{Agent: "a", Dataset: "d", Task: fmt.Sprintf("t%03d", i), Attempt: 1})
	}
	for i, key := range plan.Trials.All() {
		if !keep(i) {
			continue
		}
		directory := filepath.Join(dir, filepath.FromSlash(key.Dir()))
		if err := os.MkdirAll(directory, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := WriteJSON(filepath.Join(directory, ResultFile), Trial{Key: key, Reward: new(1.0)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteJSON(filepath.Join(dir, PlanFile), plan); err != nil {
		t.Fatal(err)
	}
	return dir, plan.Trials.Slice()
}

// TestConfirmationsThatWereNotMadeTakeNoMemory reads a hostile plan of 60 kB that names 30,000.
func TestConfirmationsThatWereNotMadeTakeNoMemory(t *testing.T) {
	plan := Plan{Confirm: &PlannedConfirmation{Attempts: MaxConfirmations}}
	for i := range 300 {
		key := Key{Agent: "a", Dataset: "d", Task: fmt.Sprintf("t%03d", i), Attempt: 1}
		plan.Trials.Append(key)
		plan.Confirm.Tasks = append(plan.Confirm.Tasks, key.Unnumbered())
	}
	if err := plan.Check(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	took := held(func() []Trial {
		made, unreadable := ReadConfirmations(dir, plan)
		if len(made)+len(unreadable) > 0 {
			t.Errorf("%d confirmation attempts, %v", len(made), unreadable)
		}
		return made
	})
	if took > 1<<20 {
		t.Errorf("they take %d bytes", took)
	}
}

func TestReadTreeKeepsThePlansOrder(t *testing.T) {
	dir, keys := writeTree(t, 300, func(i int) bool { return i%7 != 0 })
	tree, err := ReadTree(dir)
	if err != nil || len(tree.Unreadable) > 0 {
		t.Fatal(err, tree.Unreadable)
	}
	at := 0
	for i, key := range keys {
		if i%7 == 0 {
			continue
		}
		if tree.Trials[at].Key != key {
			t.Fatalf("trial %d is %s, want %s", at, tree.Trials[at].Key, key)
		}
		at++
	}
	if at != len(tree.Trials) {
		t.Errorf("%d trials, want %d", len(tree.Trials), at)
	}
}

func TestUnusableResultsAreReported(t *testing.T) {
	dir, keys := writeTree(t, 6, func(int) bool { return true })
	path := func(i int) string { return filepath.Join(dir, filepath.FromSlash(keys[i].Dir()), ResultFile) }
	other, err := os.ReadFile(path(0))
	if err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(path string) error{
		func(path string) error { return os.WriteFile(path, other[:len(other)/2], 0o644) },
		func(path string) error { return os.WriteFile(path, other, 0o644) },
		func(path string) error { return os.Mkdir(path, 0o755) },
		func(path string) error { return os.Symlink("../t000__1/"+ResultFile, path) },
		func(path string) error { return os.Truncate(touch(path), MaxTrialFile+1) },
	} {
		if err := os.Remove(path(i + 1)); err != nil {
			t.Fatal(err)
		}
		if err := spoil(path(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := ReadTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Trials) != 1 || len(tree.Unreadable) != 5 {
		t.Fatalf("%d trials, %v", len(tree.Trials), tree.Unreadable)
	}
	for i, want := range []string{"torn or edited", "is the result of a/d/t000__1, not of a/d/t002__1", "is not a file", "is not a file", "which no result has"} {
		if got := tree.Unreadable[i].Error(); !strings.Contains(got, want) || !strings.HasPrefix(got, path(i+1)) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A result is not read through a link to its trial's directory, or to one above it.
func TestResultsInLinkedDirectoriesAreReported(t *testing.T) {
	for _, above := range []string{"a", "a/d", "a/d/t000__1"} {
		dir, _ := writeTree(t, 2, func(int) bool { return true })
		outside := filepath.Join(t.TempDir(), "outside")
		if err := errors.Join(os.Rename(filepath.Join(dir, above), outside), os.Symlink(outside, filepath.Join(dir, above))); err != nil {
			t.Fatal(err)
		}
		tree, err := ReadTree(dir)
		if err != nil || len(tree.Unreadable) == 0 || len(tree.Trials)+len(tree.Unreadable) != 2 || !strings.Contains(tree.Unreadable[0].Error(), "is a link or no directory") {
			t.Errorf("%s: %d trials, %v, %v", above, len(tree.Trials), tree.Unreadable, err)
		}
	}
}

func TestParseTrialReadsWhatMarshalWrites(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	whole := Trial{
		Key: Key{Task: "t<>&\u2028", Dataset: "d", Agent: "a", Attempt: 3}, TaskGitCommitID: new("abc"), Reward: new(0.25), Cost: Dollars(1.5),
		Error:      &Error{Type: AgentExecutionFailed, Message: "bad \xff byte"},
		Durations:  Durations{TotalSec: 9.899, VerifierSec: new(0.001)},
		Timestamps: Timestamps{StartedAt: at, VerifierStartedAt: &at, EndedAt: at},
		TaskDigest: "sha256:0", Costs: Costs{Environment: Dollars(0.1), Model: Dollars(1.4)},
		Environment: &Environment{Provider: "docker", Preserved: true, Unenforced: []string{"cpus"}, Base: &Base{Requested: "x", Actual: "y", Reason: "z"}},
		Retries:     []Retry{{Operation: "pull", Attempt: 1, Message: "no", At: at}},
		Omitted:     []Omission{{Path: "p", Reason: "r"}}, Renamed: []Rename{{From: "f", To: "t"}}, Warnings: []string{"w"},
	}
	for name, trial := range map[string]Trial{"all fields": whole, "none": {Key: whole.Key}} {
		text, err := Marshal(trial)
		if err != nil {
			t.Fatal(err)
		}
		var want, got Trial
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := ParseTrial(text, trial.Key, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v, %v", name, got, want, err)
		}
	}
}

func TestParseTrialRefusesInvalidFiles(t *testing.T) {
	const key = `"task_name": "t", "dataset_name": "d", "agent_name": "a", "attempt": 1`
	for name, text := range map[string]string{
		"nothing":          ``,
		"a list":           `[]`,
		"two values":       `{` + key + `}{}`,
		"a name twice":     `{` + key + `, "reward": 0, "reward": 1}`,
		"a number too far": `{` + key + `, "reward": 1e999}`,
		"no UTF-8":         "{" + key + `, "task_digest": "` + "\xff" + `"}`,
		"a deep hole":      `{` + key + `, "other": ` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`,
	} {
		if err := ParseTrial([]byte(text), Key{"t", "d", "a", 1}, new(Trial)); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	if err := ParseTrial([]byte(`{`+key+`, "of_a_later_version": {}}`), Key{"t", "d", "a", 1}, new(Trial)); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
}

// touch creates an empty file.
func touch(path string) string {
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		panic(err)
	}
	return path
}

func TestInvalidPlansAreRefused(t *testing.T) {
	keys := KeysOf(Key{Task: "a"}, Key{Task: "b"})
	for name, plan := range map[string]Plan{
		"an unknown metric":          {Trials: keys, Metrics: []string{"median"}},
		"a shard beyond the last":    {Trials: keys, Shard: &Shard{3, 2}, ShardOf: []int{1, 2}},
		"no shard":                   {Trials: keys, Shard: &Shard{0, 2}, ShardOf: []int{1, 2}},
		"too many shards":            {Trials: keys, Shard: &Shard{1, MaxShards + 1}, ShardOf: []int{1, 2}},
		"trials without a shard":     {Trials: keys, Shard: &Shard{1, 2}, ShardOf: []int{1}},
		"a trial in an unknown one":  {Trials: keys, Shard: &Shard{1, 2}, ShardOf: []int{1, 3}},
		"a trial in a negative one":  {Trials: keys, Shard: &Shard{1, 2}, ShardOf: []int{1, -1}},
		"more shards than there are": {Trials: keys, Shard: &Shard{1, 2}, ShardOf: []int{1, 2, 2}},
	} {
		if err := plan.Check(); err == nil {
			t.Errorf("%s: was accepted", name)
		}
		dir := t.TempDir()
		if err := WriteJSON(filepath.Join(dir, PlanFile), plan); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTree(dir); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
	if err := (Plan{Trials: keys, Metrics: MetricTypes, Shard: &Shard{2, 2}, ShardOf: []int{1, 2}}).Check(); err != nil {
		t.Errorf("a good plan was refused: %v", err)
	}
}

// TestHugeFilesAreNotRead: directories come from other machines, and a sparse file of many
// gigabytes takes no space.
func TestHugeFilesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{PlanFile, ResultFile} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(1<<34), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadPlan(dir); err == nil || !strings.Contains(err.Error(), "which no result has") {
		t.Errorf("the plan is told as %v", err)
	}
	result, err := os.Open(filepath.Join(dir, ResultFile))
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	if _, err := readAtMost(result, result.Name(), 1<<20); err == nil || !strings.Contains(err.Error(), "which no result has") {
		t.Errorf("the result is told as %v", err)
	}
	if err := os.Remove(filepath.Join(dir, PlanFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, PlanFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPlan(dir); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a plan that never ends is told as %v", err)
	}
}
