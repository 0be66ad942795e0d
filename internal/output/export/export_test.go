package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// jobDir writes a job's directory: two agents, three tasks, two attempts. One trial has no result.
func jobDir(t *testing.T, change func(*result.Plan, []result.Trial)) string {
	t.Helper()
	dir := t.TempDir()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	commit := "0123456789abcdef0123456789abcdef01234567"
	plan := result.Plan{JobName: "nightly", StartedAt: began, Digest: "sha256:plan", Commit: &commit, Metrics: []string{}}
	var trials []result.Trial
	for _, task := range []string{"add", "=cmd|'/c calc'!A0", "zebra"} {
		plan.Tasks = append(plan.Tasks, result.PlannedTask{Dataset: "set", Task: task, Digest: "sha256:" + task})
		for _, agent := range []string{"b", "a"} { // not in the order of an export
			for attempt := 1; attempt <= 2; attempt++ {
				n := len(trials)
				tr := result.Trial{
					Key: result.Key{Agent: agent, Dataset: "set", Task: task, Attempt: attempt}, TaskDigest: "sha256:" + task,
					Costs: result.Costs{Model: result.Dollars(0.25 * float64(n))}, Cost: result.Dollars(0.25 * float64(n)),
				}
				tr.Timestamps.StartedAt = began.Add(time.Duration(n) * time.Second)
				tr.Timestamps.EndedAt = tr.Timestamps.StartedAt.Add(1500 * time.Millisecond)
				tr.Durations.TotalSec = 1.5
				tr.Durations.AgentExecutionSec, tr.Durations.VerifierSec = new(0.75), new(0.25)
				tr.Reward = new(float64(n % 2))
				if n == 5 {
					tr.Reward, tr.Error = nil, &result.Error{Type: result.AgentExecutionTimeout, Message: "-1+\x1b[31m\"two\",\u202e three ##[x]"}
				}
				if n == 7 {
					tr.Rewards, tr.VerifierExitCode = map[string]float64{"style": 0.5, "=reward": 1}, new(1)
				}
				tr.Environment = &result.Environment{Provider: "fake", Image: "debian:bookworm"}
				trials = append(trials, tr)
				plan.Trials.Append(tr.Key)
			}
		}
	}
	if change != nil {
		change(&plan, trials)
	}
	write(t, filepath.Join(dir, result.PlanFile), plan)
	for _, tr := range trials {
		if tr.Task == "zebra" && tr.Agent == "b" && tr.Attempt == 2 {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(tr.Dir()), result.ResultFile)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, tr)
	}
	return dir
}

func write(t *testing.T, path string, v any) {
	t.Helper()
	if err := result.WriteJSON(path, v); err != nil {
		t.Fatal(err)
	}
}

func TestFormats(t *testing.T) {
	for _, format := range Formats[:3] {
		t.Run(format, func(t *testing.T) {
			dir := jobDir(t, nil)
			var out bytes.Buffer
			report, err := Write(t.Context(), &out, Options{Dir: dir, Format: format, Instruction: func(p result.PlannedTask) []result.Message {
				if p.Task == "zebra" {
					return nil
				}
				return result.PromptOf("do " + p.Task)
			}})
			if err != nil || report.Trials != 11 || report.Missing != 1 || len(report.Unreadable) > 0 {
				t.Errorf("%+v %v", report, err)
			}
			if want := map[string]int{"outputs": 1}[format]; report.MissingPrompts != want {
				t.Errorf("%d tasks without a prompt, want %d", report.MissingPrompts, want)
			}
			golden := filepath.Join("testdata", format+".golden")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("it differs from %s (-update rewrites it):\n%s", golden, out.String())
			}
		})
	}
}

func TestCSVHasNoFormulas(t *testing.T) {
	for value, want := range map[any]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "'=1", "\r\n-x": "'-x", "\u200b=1": "'=1", "\x1b[31m=1": "'=1", "＝1": "'＝1",
		"a=1": "a=1", "": "", "a\nb": "a⏎b", -0.5: "-0.5", -3: "-3", true: "true", nil: "",
	} {
		if got := Cell(value); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

func TestEveryFlatFormatHasEveryColumn(t *testing.T) {
	dir := jobDir(t, nil)
	var table, objects bytes.Buffer
	for w, format := range map[*bytes.Buffer]string{&table: "csv", &objects: "jsonl"} {
		if _, err := Write(t.Context(), w, Options{Dir: dir, Format: format}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 12 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, line := range strings.Split(strings.TrimSpace(objects.String()), "\n") {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatal(err)
		}
		if len(object) != len(Columns) {
			t.Errorf("line %d has %d values, want %d", i, len(object), len(Columns))
		}
		for c, column := range Columns {
			value, there := object[column.Name]
			if rows[0][c] != column.Name || !there || (value == nil) != (rows[i+1][c] == "") && value != "" {
				t.Errorf("%s: in the table %q, in the object %v", column.Name, rows[i+1][c], value)
			}
		}
	}
}

// TestPromptsComeFromOutputsFile also of an export of a job whose tasks are gone.
func TestPromptsComeFromOutputsFile(t *testing.T) {
	dir := jobDir(t, nil)
	line, err := job.OutputLine(result.OutputOf(result.Plan{}, result.Trial{Key: result.Key{Dataset: "set", Task: "add"}}, result.PromptOf("add them")))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, result.OutputsFile), append(line, "{\"example_id\":"...), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	report, err := Write(t.Context(), &out, Options{Dir: dir, Format: "outputs"})
	if err != nil || report.MissingPrompts != 2 || strings.Count(out.String(), `"content":"add them"`) != 4 {
		t.Errorf("%+v %v\n%s", report, err, out.String())
	}
}

func TestUnreadableResultIsReported(t *testing.T) {
	dir := jobDir(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "a", "set", "add__1", result.ResultFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := Write(t.Context(), io.Discard, Options{Dir: dir, Format: "csv"})
	if err != nil || report.Trials != 10 || report.Missing != 1 || len(report.Unreadable) != 1 {
		t.Errorf("%+v %v", report, err)
	}
	if _, err := Write(t.Context(), io.Discard, Options{Dir: t.TempDir(), Format: "csv"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no job: %v", err)
	}
}

// TestIncompleteGroupHasNoAdvantage: the rest of the group is elsewhere.
func TestIncompleteGroupHasNoAdvantage(t *testing.T) {
	dir := jobDir(t, func(p *result.Plan, _ []result.Trial) {
		p.Shard = &result.Shard{Index: 1, Total: 2}
		for i := range p.Trials.All() {
			p.ShardOf = append(p.ShardOf, 1+i%4/3) // of agent a the second attempts are elsewhere
		}
	})
	var out bytes.Buffer
	report, err := Write(t.Context(), &out, Options{Dir: dir, Format: "csv"})
	if err != nil || report.Trials != 8 {
		t.Fatalf("%+v %v", report, err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows[1:] {
		complete := r[1] == "b" && r[3] == "add"
		if (r[12] != "") != complete {
			t.Errorf("%s/%s__%s has the advantage %q", r[1], r[3], r[4], r[12])
		}
	}
}

// TestGroupsAreReadWhole: how many trials are held at a time makes no difference.
func TestGroupsAreReadWhole(t *testing.T) {
	dir := jobDir(t, nil)
	want, err := os.ReadFile(filepath.Join("testdata", "csv.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 12; n++ {
		var out bytes.Buffer
		if _, err := Write(t.Context(), &out, Options{Dir: dir, Format: "csv", atATime: n}); err != nil || out.String() != string(want) {
			t.Errorf("%d at a time: %v\n%s", n, err, out.String())
		}
	}
}
