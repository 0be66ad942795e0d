package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func at(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }

func TestAddingAJobTwiceIsOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	for i, want := range []bool{true, false} {
		if added, err := Add(t.Context(), path, Point{Format: Format, JobName: "a", StartedAt: at(1)}); err != nil || added != want {
			t.Errorf("call %d: %v, %v", i, added, err)
		}
	}
}

func TestConcurrentAddsLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if _, err := Add(t.Context(), path, Point{Format: Format, JobName: fmt.Sprint(i / 2), StartedAt: at(1)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if points, err := Read(f, path); err != nil || len(points) != 10 {
		t.Errorf("%d points, %v", len(points), err)
	}
}

func TestUnreadableLinesAreNamedAndKept(t *testing.T) {
	line := func(agent string) string { return `{"history_format":1,"agents":[{"name":"a",` + agent + "}]}\n" }
	const good = `{"history_format":1,"job_name":"a","started_at":"2026-01-01T00:00:00Z"}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"broken":                    {good + "{\n", "h.jsonl:2: this is no line of a history"},
		"newer":                     {good + `{"history_format":2,"agents":7}`, "h.jsonl:2: a newer version of Rollout wrote this line"},
		"no format":                 {"{}\n", "h.jsonl:1: this is no line of a history: it has no history_format"},
		"long":                      {good + strings.Repeat("x", MaxLine+1), "h.jsonl:2: the line has more than 4 MB"},
		"more passed than attempts": {good + line(`"passed":3,"attempts":2`), `h.jsonl:2: agent "a": 3 of 2 attempts passed`},
		"negative":                  {good + line(`"passed":-1,"attempts":2`), `h.jsonl:2: agent "a": -1 of 2 attempts passed`},
		"no rate":                   {good + line(`"pass_rate":1.5`), "h.jsonl:2: agent \"a\": the pass rate is 1.5"},
		"no interval":               {good + line(`"interval":{"low":0.9,"high":0.1}`), "h.jsonl:2: agent \"a\": the interval"},
		"a negative mean":           {good + line(`"cost":{"mean":-1,"n":2}`), "h.jsonl:2: agent \"a\": a mean of 2 trials is -1"},
		"no interval of a mean":     {good + line(`"cost":{"mean":1,"n":2,"interval":{"low":2,"high":1}}`), "h.jsonl:2: agent \"a\": the interval of a mean is from 2 to 1"},
		"no interval of the reward": {good + line(`"mean_reward_interval":{"low":2,"high":1}`), "h.jsonl:2: agent \"a\": the interval of the mean reward"},
		"a task":                    {good + line(`"tasks":[{"task":"t","passed":2,"attempts":1}]`), `h.jsonl:2: agent "a", task "t": 2 of 1 attempts passed`},
		"many":                      {strings.Repeat("\n", MaxLines+1), "more than 100000 lines"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "h.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Add(t.Context(), path, Point{Format: Format, JobName: "b"}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if data, _ := os.ReadFile(path); string(data) != c.text {
				t.Error("the file was changed")
			}
		})
	}
}

func TestALineWithoutItsEndIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	if err := os.WriteFile(path, []byte(`{"history_format":1,"job_name":"b","started_at":"2026-01-02T00:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(t.Context(), path, Point{Format: Format, JobName: "a", StartedAt: at(1)}); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	points, err := Read(strings.NewReader(string(data)), path)
	if err != nil || len(points) != 2 || points[0].JobName != "a" {
		t.Errorf("%v, %v", points, err)
	}
}

func TestAddFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"link": "target", "dangling": "nothing"} {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "target"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Add(t.Context(), path, Point{Format: Format, JobName: "a"}); err == nil || !strings.Contains(err.Error(), "is a link, which is not followed") {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "target")); err != nil || len(text) > 0 {
			t.Errorf("the target has %q, %v", text, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "nothing")); err == nil {
			t.Error("a file was made where the link leads")
		}
	}
}

func TestAddRefusesNumbersThatContradictEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	if _, err := Add(t.Context(), path, Point{Format: Format, JobName: "a", Agents: []Agent{{Name: "x", Passed: 2, Attempts: 1}}}); err == nil {
		t.Error("it was added")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the file was made")
	}
}
