package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial"
)

// lines returns the lines of an outputs.jsonl, which has to end with a whole one.
func lines(t *testing.T, path string) []result.Output {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []result.Output
	for line := range strings.Lines(string(data)) {
		var o result.Output
		if err := json.Unmarshal([]byte(line), &o); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("the line %q: %v", line, err)
		}
		out = append(out, o)
	}
	return out
}

func TestRunWritesAnOutputLineForEachTrial(t *testing.T) {
	list := specs(20)
	const secret = "hunter2hunter2"
	for i := range list {
		list[i].Task = &task.Task{Name: list[i].Key.Task, FS: fstest.MapFS{"instruction.md": {Data: []byte("use " + secret + "\n")}}}
	}
	tree := newTree(t, list)
	opts := options(tree, runnerFunc(func(_ context.Context, s trial.Spec) trial.Outcome { return passed(s.Key) }), &recorder{})
	opts.Redactor = redact.New([]string{secret})
	if _, err := Run(t.Context(), list, opts); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range lines(t, filepath.Join(tree.Dir, result.OutputsFile)) {
		keys = append(keys, fmt.Sprint(o.Agent, o.Dataset, o.Task, o.Attempt))
		if o.Prompt[0].Role != "user" || o.Prompt[0].Content != "use ***\n" || o.StopCondition != result.StopCompleted || !o.IsCompleted ||
			o.Metrics["reward"] != 1 || o.ExampleID != result.ExampleID(o.Dataset, o.Task) {
			t.Errorf("a line is %+v", o)
		}
	}
	var want []string
	for _, s := range list {
		want = append(want, fmt.Sprint(s.Key.Agent, s.Key.Dataset, s.Key.Task, s.Key.Attempt))
	}
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("the lines are of %v, want %v", keys, want)
	}
	var m Metadata
	data, err := os.ReadFile(filepath.Join(tree.Dir, result.MetadataFile))
	if err := errors.Join(err, json.Unmarshal(data, &m)); err != nil || !m.IsComplete || m.CompletedTrials != 20 || m.AvgReward == nil || *m.AvgReward != 1 || m.PendingTrials != 0 {
		t.Errorf("metadata: %v %s", err, data)
	}
}

func TestMetadataIsWrittenEveryFiveSeconds(t *testing.T) {
	list := specs(12)
	tree := newTree(t, list)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var seen []int
	opts := options(tree, runnerFunc(func(_ context.Context, s trial.Spec) trial.Outcome {
		var m Metadata
		data, err := os.ReadFile(filepath.Join(tree.Dir, result.MetadataFile))
		if err := errors.Join(err, json.Unmarshal(data, &m)); err != nil {
			t.Error(err)
		}
		seen = append(seen, m.CompletedTrials)
		return passed(s.Key)
	}), &recorder{})
	opts.Now = func() time.Time { return now }
	r := &run{Options: opts}
	r.writeMetadata()
	for _, s := range list {
		now = now.Add(time.Second)
		r.take(written{Outcome: opts.Runner.Run(t.Context(), s, "")})
	}
	if want := []int{0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10}; !slices.Equal(seen, want) {
		t.Errorf("while the job ran, it said %v trials, want %v", seen, want)
	}
}

func TestOutputsFileIsRepaired(t *testing.T) {
	for name, damage := range map[string]func(text string) string{
		"torn last line":   func(text string) string { return text[:len(text)-20] },
		"no file":          func(string) string { return "" },
		"foreign lines":    func(text string) string { return "{}\n[1,2\n\x00\x00\n" + text + `{"example_id":7,"task":"x"}` + "\n" },
		"lines twice":      func(text string) string { return text + text },
		"nothing happened": func(text string) string { return text },
	} {
		t.Run(name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			list := specs(20)
			for i := range list {
				list[i].Task = &task.Task{Name: list[i].Key.Task, FS: fstest.MapFS{"instruction.md": {Data: fmt.Append(nil, "do ", i)}}}
			}
			tree := newTree(t, list)
			clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			opts := options(tree, runnerFunc(func(_ context.Context, s trial.Spec) trial.Outcome {
				clock = clock.Add(time.Second)
				out := passed(s.Key)
				out.Trial.Timestamps.EndedAt = clock
				return out
			}), &recorder{})
			opts.Workers = 1
			_, err := Run(t.Context(), list, opts)
			check(err)
			path := filepath.Join(tree.Dir, result.OutputsFile)
			before := lines(t, path)
			text, err := os.ReadFile(path)
			check(err)
			check(os.WriteFile(path, []byte(damage(string(text))), 0o644))
			if name == "no file" {
				check(os.Remove(path))
			}
			read, err := result.ReadTree(tree.Dir)
			check(err)
			again := read.Trials[2]
			kept := slices.DeleteFunc(read.Trials, func(t result.Trial) bool { return t.Task == again.Task })
			o, err := repairOutputs(tree.Dir, read.Plan, kept, Instructions(list, nil))
			check(err)
			o.from(Instructions(list, nil))
			check(o.add(again))
			check(o.file.Close())
			want := slices.DeleteFunc(slices.Clone(before), func(o result.Output) bool { return o.Task == again.Task })
			for _, o := range before {
				if o.Dir == again.Dir() {
					want = append(want, o)
				}
			}
			got := lines(t, path)
			if a, b := fmt.Sprint(jsons(t, got)), fmt.Sprint(jsons(t, want)); a != b {
				t.Errorf("got\n%s\nwant\n%s", a, b)
			}
		})
	}
}

func jsons(t *testing.T, outputs []result.Output) []string {
	t.Helper()
	var all []string
	for _, o := range outputs {
		line, err := OutputLine(o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(line))
	}
	return all
}

func TestPromptsOfAHostileFileAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outputs.jsonl")
	id := result.ExampleID("d", "t")
	line := func(content string) string {
		return fmt.Sprintf(`{"example_id":%d,"task":"t","dataset":"d","prompt":[{"role":"system","content":%q}]}`+"\n", id, content)
	}
	text := `{"example_id":1,"task":"t","dataset":"d","prompt":[{"role":"user","content":"of another number"}]}` + "\n" +
		line(strings.Repeat("x", maxLine)) + line(strings.Repeat("y", 2*result.MaxPrompt)) + line("too late")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	prompts := Prompts{}
	if err := prompts.Read(path); err != nil {
		t.Fatal(err)
	}
	got := prompts.Of("d", "t")
	if len(prompts) != 1 || len(got) != 1 || got[0].Role != "user" || len(got[0].Content) > result.MaxPrompt || !strings.HasSuffix(got[0].Content, "y\n[cut]") {
		t.Errorf("got %d prompts, of the task %.80v", len(prompts), got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := (Prompts{}).Read(link); err == nil {
		t.Error("a link was followed")
	}
}

func TestOutputsFileWithoutResultsIsEmpty(t *testing.T) {
	for name, before := range map[string]string{"no file": "", "a line of a trial that is gone": "{\"example_id\":1}\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, result.OutputsFile)
			if before != "" {
				if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			o, err := repairOutputs(dir, result.Plan{}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := o.file.Close(); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
				t.Errorf("it has %q, %v", text, err)
			}
		})
	}
}
