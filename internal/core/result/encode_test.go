package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// whole encodes v at once.
func whole(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hostileName looks like the members of a file that are encoded element by element.
const hostileName = "x\n  \"results\": []\n  \"trials\": [] \"skipped\": [] <&> \u2028\x00\xff"

func jobsToEncode() map[string]Job {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	key := Key{Agent: hostileName, Dataset: "results", Task: "t", Attempt: 1}
	full := Outcome{
		Key: key, Reward: new(0.1), Error: "x", Cost: Dollars(0.25), DurationSec: 1e-7, StartedAt: at, Usage: &OutcomeUsage{},
		Scores: map[string]OutcomeScore{"b": {}, "a": {}}, CostAtLeast: true,
	}
	return map[string]Job{
		"zero":           {},
		"empty":          {Results: OutcomesOf(), Skipped: []Key{}, Agents: map[string]Summary{}},
		"one result":     {Results: OutcomesOf(full), Skipped: []Key{}},
		"only skipped":   {Results: OutcomesOf(), Skipped: []Key{key, {}}},
		"without a list": {Skipped: []Key{key}},
		"full": {
			JobName: hostileName, Results: OutcomesOf(full, Outcome{}, full), Skipped: []Key{key, key}, Confirmations: OutcomesOf(full),
			Agents: map[string]Summary{"results": {}, hostileName: {Metrics: []Metric{}}}, Errors: map[ErrorType]int{"skipped": 1},
			Experiments: []Experiment{{Image: hostileName}}, Pool: []Job{{JobName: "no"}},
		},
	}
}

func TestLongListsAreEncodedAsAWhole(t *testing.T) {
	for name, job := range jobsToEncode() {
		got, err := Marshal(job)
		if want := whole(t, job); err != nil || !bytes.Equal(got, want) {
			t.Errorf("job %s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
	key := Key{Agent: hostileName, Task: "t"}
	for name, plan := range map[string]Plan{
		"zero": {}, "empty": {Tasks: []PlannedTask{}, Trials: KeysOf()}, "trials": {Trials: KeysOf(key, Key{})}, "tasks": {Tasks: []PlannedTask{{Task: hostileName}}},
		"full": {JobName: hostileName, Tasks: []PlannedTask{{Path: "trials"}, {}}, Trials: KeysOf(key), ShardOf: []int{1, 2}, NotAffected: &NotAffected{}},
	} {
		got, err := Marshal(plan)
		if want := whole(t, plan); err != nil || !bytes.Equal(got, want) {
			t.Errorf("plan %s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// fullDisk is a writer on a disk that is full after some bytes.
type fullDisk struct{ left int }

var errFull = errors.New("no space left")

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestALongListThatCannotBeWrittenIsAnError(t *testing.T) {
	job := Job{Results: OutcomesOf(make([]Outcome, 10_000)...)}
	for _, left := range []int{0, 100, 1 << 17, len(whole(t, job)) - 1} {
		if err := Encode(&fullDisk{left}, job); !errors.Is(err, errFull) {
			t.Errorf("with %d bytes left: %v", left, err)
		}
	}
}
