package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type decision struct {
	Outcome string `json:"outcome"`
}

func TestAVerdictCountsForTheResultItJudged(t *testing.T) {
	dir := t.TempDir()
	path, job := filepath.Join(dir, VerdictFile), filepath.Join(dir, ResultFile)
	if _, err := ReadVerdict[decision](dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(job, "{}\n")
	digest, err := DigestOfResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	diff := Compare(Job{JobName: "base", Results: OutcomesOf()}, Job{JobName: "head"})
	made := Verdict[decision]{
		JudgedAt: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), ResultDigest: digest, Passed: true, Gate: decision{"pass"}, Comparison: ComparisonOf(&diff),
	}
	left := filepath.Join(dir, ".tmp-verdict.json123") // by a killed process
	write(left, "{")
	if err := WriteVerdict(dir, made); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left: %v", err)
	}
	got, err := ReadVerdict[decision](dir)
	if err != nil || got.Format != VerdictFormat || !got.Passed || got.Gate.Outcome != "pass" || got.Comparison == nil || got.Comparison.Base.JobName != "base" || !got.JudgedAt.Equal(made.JudgedAt) {
		t.Errorf("got %+v, %v", got, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"newer":        {`"verdict_format": 2`, `"verdict_format": 3`, "a newer version of Rollout wrote it"},
		"no format":    {`"verdict_format": 2`, `"verdict_format": 0`, "it has no verdict_format"},
		"unknown name": {`"passed"`, `"past"`, "past"},
		"twice":        {`"passed"`, `"baseline"`, "baseline"},
		"torn":         {"\n}\n", "", ErrTorn.Error()},
	} {
		changed := strings.Replace(string(text), c.old, c.new, 1)
		if changed == string(text) {
			t.Fatalf("%s: nothing was replaced in %s", name, text)
		}
		write(path, changed)
		if _, err := ReadVerdict[decision](dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	write(path, string(text))
	write(job, "{} \n")
	if _, err := ReadVerdict[decision](dir); !errors.Is(err, ErrStaleVerdict) {
		t.Errorf("of another result: %v", err)
	}
	if err := os.Remove(job); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadVerdict[decision](dir); !errors.Is(err, ErrStaleVerdict) {
		t.Errorf("without a result: %v", err)
	}
	write(job, "{}\n")
	if err := errors.Join(os.Rename(path, filepath.Join(dir, "other")), os.Symlink("other", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadVerdict[decision](dir); err == nil {
		t.Error("a link was followed")
	}
}

func TestAVerdictOfFormat1IsRead(t *testing.T) {
	dir := t.TempDir()
	digest := digestOf(t, "{}\n")
	if err := os.WriteFile(filepath.Join(dir, ResultFile), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `{"verdict_format":1,"rollout_version":"","judged_at":"2026-01-02T00:00:00Z","result_digest":"` + digest + `","passed":true,"incomplete":[],"baseline":"b",
		"comparison":{"base":{"job_name":"b","commit":null,"plan_digest":"","started_at":"2026-01-01T00:00:00Z"},"changes":{"same":1},"flaky":0,"comparable_tasks":1,
		"pass_rate":{"base":1,"head":1},"mean_reward":{"base":1,"head":1}},"gate":{"outcome":"pass"}}`
	if err := os.WriteFile(filepath.Join(dir, VerdictFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := ReadVerdict[decision](dir)
	if err != nil || v.Comparison == nil || v.Comparison.Changes[Same] != 1 || v.Comparison.Tasks != nil {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestAVerdictHasRowsOfBaseAndHead(t *testing.T) {
	dir := t.TempDir()
	outcome := func(task string, attempt int, reward *float64, kind ErrorType) Outcome {
		return Outcome{Key: Key{Agent: "a", Dataset: "d", Task: task, Attempt: attempt}, Reward: reward, Error: kind, DurationSec: 10, ImageSec: 4}
	}
	one, zero := new(1.0), new(0.0)
	withUsage := outcome("x", 1, one, "")
	withUsage.Cost, withUsage.Usage = Dollars(2).LowerBound(), &OutcomeUsage{Turns: 3, InputTokens: new(int64(7))}
	base := Job{Results: OutcomesOf(withUsage, outcome("y", 1, zero, ""), outcome("z", 1, one, ""))}
	head := Job{Results: OutcomesOf(outcome("x", 1, zero, ""), outcome("x", 2, nil, AgentExecutionTimeout), outcome("y", 1, one, ""), outcome("w", 1, nil, EnvironmentLost))}
	for i := range 2 * maxComparedTasks {
		head.Results.Append(outcome(fmt.Sprintf("new-%0100d", i), 1, one, ""))
	}
	diff := Compare(base, head)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, ResultFile), []byte("{}\n"), 0o600), WriteVerdict(dir, Verdict[decision]{ResultDigest: digestOf(t, "{}\n"), Comparison: ComparisonOf(&diff)})); err != nil {
		t.Fatal(err)
	}
	v, err := ReadVerdict[decision](dir)
	if err != nil {
		t.Fatal(err)
	}
	c := v.Comparison
	if n := len(c.Tasks); n != maxComparedTasks || n+c.LeftOut != len(diff.Tasks) {
		t.Fatalf("%d rows, and %d are left out of %d", n, c.LeftOut, len(diff.Tasks))
	}
	x := c.Tasks[0]
	if x.Task != "x" || x.Change != Broken || x.Base == nil || x.Head == nil {
		t.Fatalf("the first is %+v", x)
	}
	b, h := *x.Base, *x.Head
	if b.Attempts != 1 || b.Passed != 1 || *b.MeanReward != 1 || b.Cost() != Dollars(2).LowerBound() || *b.MeanDuration != 6 || *b.MeanTurns != 3 || *b.InputTokens != 7 || b.OutputTokens != nil {
		t.Errorf("base: %+v", b)
	}
	if _, known := h.Cost().Reported(); h.Attempts != 2 || h.Passed != 0 || *h.MeanReward != 0 || known || h.MeanTurns != nil || h.InputTokens != nil {
		t.Errorf("head: %+v", h)
	}
	if a := c.Agents; len(a) != 1 || a[0].ComparableTasks != 2 || a[0].Base.PassRate != 0.5 || a[0].Head.PassRate != 0.5 {
		t.Errorf("agents: %+v", a)
	}
	info, err := os.Stat(filepath.Join(dir, VerdictFile))
	if err != nil || info.Size() > MaxVerdictFile/2 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

func digestOf(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ResultFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	digest, err := DigestOfResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}
