package result

import (
	"errors"
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
	diff := Compare(Job{JobName: "base", Results: []Outcome{}}, Job{JobName: "head"})
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
		"newer":        {`"verdict_format": 1`, `"verdict_format": 2`, "a newer version of Rollout wrote it"},
		"no format":    {`"verdict_format": 1`, `"verdict_format": 0`, "it has no verdict_format"},
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
