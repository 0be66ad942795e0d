package calibrate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/calibrate"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agreement"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/test/apptest"
)

// judged returns the host of a job of six trials. The judge strict scores them 0 and 1 in turn, and
// gives no score to the last one; kind gives all of them 1, with a criterion.
func judged(t *testing.T) (*host.Host, *apptest.Recorder) {
	t.Helper()
	h, out := apptest.New(t)
	dir := filepath.Join(h.Dir, "jobs/judged")
	plan := result.Plan{JobName: "judged"}
	for i := range 6 {
		key := result.Key{Agent: "mine", Dataset: "evals", Task: fmt.Sprintf("t%d", i), Attempt: 1}
		plan.Trials.Append(key)
		strict := result.AgentRun{Name: "strict", Role: result.RoleJudge, Score: new(float64(i % 2)), Reason: "because\x1b[31m"}
		if i == 5 {
			strict.Score, strict.Error = nil, &result.Error{Type: result.JudgeTimeout}
		}
		trial := result.Trial{Key: key, Reward: new(1.0), Agents: []result.AgentRun{
			{Name: "mine", Role: "policy"}, strict,
			{
				Name: "kind", Role: result.RoleJudge, Score: new(1.0), Criteria: map[string]float64{"clear": 1},
				Verdict: json.RawMessage(`{"verdicts": [{"name": "clear", "reason": "It is.", "choice": "yes"}]}`),
			},
		}}
		writeJSON(t, filepath.Join(dir, filepath.FromSlash(key.Dir()), result.ResultFile), trial)
	}
	writeJSON(t, filepath.Join(dir, result.PlanFile), plan)
	return h, out
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), result.WriteJSON(path, v)); err != nil {
		t.Fatal(err)
	}
}

func writeLabels(t *testing.T, h *host.Host, text string) {
	t.Helper()
	if err := os.WriteFile(h.Path("labels.csv"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestJudgesAreComparedWithLabels(t *testing.T) {
	h, _ := judged(t)
	writeLabels(t, h, "task,rater,strict,kind.clear\nt0,ann,0,yes\nt1,ann,1,no\nt2,ann,1,yes\nt2,bob,0,\nt5,ann,1,\n")
	got, err := calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/judged", Labels: "labels.csv", Threshold: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]calibrate.CheckedJudge{}
	for _, j := range got.Judges {
		of[j.Name] = j
	}
	strict := of["strict"]
	if got.Trials != 6 || strict.Scores != 5 || strict.Null != 1 || strict.Labels != 4 || strict.Missing != 1 || strings.Join(strict.Raters, " ") != "ann bob" {
		t.Errorf("%d trials; strict: %+v", got.Trials, strict)
	}
	if strict.Measure == nil || strict.Measure.Agreement.Value != 0.75 || strict.People == nil || strict.People.Agreement.Value != 0 {
		t.Errorf("strict agrees %+v, people %+v", strict.Measure, strict.People)
	}
	if len(strict.Disagreements) != 1 || strict.Disagreements[0].Trial != "mine/evals/t2__1" || strict.Disagreements[0].Rater != "ann" {
		t.Errorf("disagreements: %+v", strict.Disagreements)
	}
	if clear := of["kind.clear"]; clear.Labels != 3 || clear.Scale == nil || clear.Scale.Kind != agreement.Choices || len(clear.Disagreements) != 1 || clear.Disagreements[0].Reason != "It is." {
		t.Errorf("kind.clear: %+v", clear)
	}
	if len(got.Pairs) != 1 || got.Pairs[0].A != "kind" || got.Pairs[0].B != "strict" || got.Pairs[0].Measure.Agreement.Value != 0.4 {
		t.Errorf("pairs: %+v", got.Pairs)
	}
	if low := got.Below(new(0.8), nil); len(low) != 2 || !strings.Contains(strings.Join(low, "\n"), "strict agrees with 0.75 of the labels") {
		t.Errorf("below 0.8: %q", low)
	}
}

func TestTheNameOfAJudgeSelectsItsCriteria(t *testing.T) {
	h, _ := judged(t)
	got, err := calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/judged", Judges: []string{"kind"}})
	if err != nil || len(got.Judges) != 2 || got.Judges[0].Name != "kind" || got.Judges[1].Name != "kind.clear" {
		t.Errorf("%+v, %v", got.Judges, err)
	}
	_, err = calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/judged", Judges: []string{"strickt"}})
	apptest.Refused(t, err, `did you mean "strict"?`)
	_, err = calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/judged", Judges: []string{"nothing-alike"}})
	apptest.Refused(t, err, "there are: kind, kind.clear, strict")
}

func TestFilesOfLabelsThatAreNone(t *testing.T) {
	h, _ := judged(t)
	req := calibrate.CheckRequest{Dir: "jobs/judged", Labels: "labels.csv"}
	_, err := calibrate.CheckJudges(h, req)
	apptest.Refused(t, err, "rollout judges check jobs/judged --template --labels labels.csv")
	writeLabels(t, h, "task,strict\nt0,\n")
	_, err = calibrate.CheckJudges(h, req)
	apptest.Refused(t, err, "labels.csv has no labels yet")
	writeLabels(t, h, strings.Repeat("x", agreement.MaxLabels+1))
	_, err = calibrate.CheckJudges(h, req)
	apptest.Refused(t, err, "labels.csv has more than 16 MiB")
	writeLabels(t, h, "task,strict\nt0,1\nt9,1\nt1,perhaps\n")
	_, err = calibrate.CheckJudges(h, req)
	if list := (diag.List{}); !errors.As(err, &list) || len(list) != 2 || list[0].Line != 3 || list[1].Line != 4 {
		t.Errorf("two wrong lines: %v", err)
	}
	if err := os.Remove(h.Path("labels.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.Path("labels.csv"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err = calibrate.CheckJudges(h, req); err == nil {
		t.Error("a directory was read as labels")
	}
}

// The template of labels names no verdict, in no order that reveals one, and no file is replaced.
func TestTheTemplateHidesVerdicts(t *testing.T) {
	h, out := judged(t)
	req := calibrate.CheckRequest{Dir: "jobs/judged", Labels: "labels.csv", Judges: []string{"strict"}, Sample: 3}
	n, err := calibrate.WriteLabels(h, req)
	if err != nil || n != 3 {
		t.Fatalf("%d trials, %v", n, err)
	}
	if text := strings.Join(out.Lines, "\n"); !strings.Contains(text, "2 trials are not in the file (--sample 3)") {
		t.Errorf("it says %q", text)
	}
	text, err := os.ReadFile(h.Path("labels.csv"))
	if err != nil || strings.Contains(string(text), "because") || !strings.Contains(string(text), "strict") || strings.Contains(string(text), "t5") {
		t.Errorf("%v:\n%s", err, text)
	}
	_, err = calibrate.WriteLabels(h, req)
	apptest.Refused(t, err, "labels.csv exists: fill it in")
	req.Labels = "nowhere/labels.csv"
	if _, err = calibrate.WriteLabels(h, req); err == nil {
		t.Error("a file in a directory that does not exist was written")
	}
}

// A result that cannot be read is reported, and the others count.
func TestUnreadableVerdictsAreReported(t *testing.T) {
	h, out := judged(t)
	if err := os.WriteFile(h.Path("jobs/judged/mine/evals/t0__1/result.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/judged"})
	if err != nil || got.Trials != 5 {
		t.Errorf("%d trials, %v", got.Trials, err)
	}
	if text := strings.Join(out.Lines, "\n"); !strings.Contains(text, "warning: ") || !strings.Contains(text, "t0__1") {
		t.Errorf("it says %q", text)
	}
}
