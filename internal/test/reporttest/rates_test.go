package reporttest_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/summary"
	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/reporters/comment"
	"github.com/org/rollout-action/reporters/html"
	"github.com/org/rollout-action/reporters/markdown"
)

// withLosses is a job of ten trials: three passed (one of them after a retry), two did not, and
// five have no reward: their agent, their verifier, the infrastructure or a cancel ended them. The
// first trial waited a minute for its image.
func withLosses() report.Input {
	at := func(task string, attempt int, reward *float64, kind result.ErrorType) reporttest.Spec {
		return reporttest.Spec{Agent: "mine", Dataset: "d", Task: task, Attempt: attempt, Reward: reward, Error: kind, Message: "gone", Seconds: 11}
	}
	one, zero := new(1.0), new(0.0)
	specs := []reporttest.Spec{
		at("a", 1, one, ""), at("a", 2, zero, ""), at("b", 1, one, ""), at("b", 2, nil, result.AgentExecutionTimeout), at("c", 1, one, ""), at("c", 2, zero, ""),
		at("d", 1, nil, result.AgentExecutionFailed), at("d", 2, nil, result.VerifierFailed), at("e", 1, nil, result.EnvironmentLost), at("e", 2, nil, result.Cancelled),
	}
	specs[0].Seconds = 71
	in := reporttest.Make("losses", specs)
	trials := result.UnpackAll(in.Trials)
	trials[0].Durations.ImageSec = new(60.0)
	trials[2].Retries = []result.Retry{{Operation: "create", Attempt: 1, Message: "busy"}}
	reporttest.SetTrials(&in, trials)
	return in
}

// The pass rate of a job is the one of pass_rate in result.json and of the gate's min_pass_rate,
// wherever it is shown: 3 of 5 trials with a reward.
func TestOnePassRateOfAJobEverywhere(t *testing.T) {
	in := withLosses()
	listed, mean := in.Job.Evaluated() // rollout ls, the outputs of the Action, and the index of pages
	point := history.PointOf(in.Job, "", gate.Pass).Agents[0]
	checks := gate.Policy{Thresholds: gate.Thresholds{MinPassRate: new(0.5)}, Confidence: 0.95}.Check(in.Job, nil, in.Now).Checks
	check := checks[slices.IndexFunc(checks, func(c gate.Check) bool { return c.Name == "min_pass_rate" })]
	for name, got := range map[string]float64{
		"result.json": in.Job.PassRate, "ls": *listed, "history": point.PassRate, "the gate": check.Value,
		"mean reward of ls": *mean, "mean reward of history": point.MeanReward,
	} {
		if got != 0.6 {
			t.Errorf("%s: %v, want 0.6", name, got)
		}
	}
	if point.Passed != 3 || point.Attempts != 5 || point.Lost != 3 {
		t.Errorf("history has %d of %d, %d lost", point.Passed, point.Attempts, point.Lost)
	}
	if line := history.Line([]history.Point{history.PointOf(in.Job, "", "")}, "main", "mine", 1); !strings.HasPrefix(line, "main's last 1: 60 %") {
		t.Errorf("the history says %q", line)
	}
	var terminal bytes.Buffer
	summary.Write(&terminal, summary.Input{Job: in.Job, Groups: in.Groups, Trials: in.Trials, Dir: in.Dir}, false, 120)
	for name, text := range map[string]string{
		"comment": string(reporttest.Write(t, comment.Reporter{}, in)), "Markdown": string(reporttest.Write(t, markdown.Reporter{}, in)), "terminal": terminal.String(),
		"page": string(reporttest.Write(t, html.Reporter{}, in)),
	} {
		if !strings.Contains(text, "60") || !strings.Contains(strings.ReplaceAll(text, " ", ""), "60%") && !strings.Contains(text, "60.0%") {
			t.Errorf("the %s has no 60%%:\n%.3000s", name, text)
		}
		if strings.Contains(text, "50%") {
			t.Errorf("the %s has 50%%:\n%.3000s", name, text)
		}
	}
}

// The mean time of a trial is without the wait for images, wherever it is shown.
func TestOneMeanTimeOfATrialEverywhere(t *testing.T) {
	in := withLosses()
	in.Plan.Trials = result.KeysOf(in.Plan.Trials.Slice()[:6]...)
	reporttest.SetTrials(&in, result.UnpackAll(in.Trials[:6]))
	diff := result.Compare(in.Job, in.Job)
	for name, got := range map[string]float64{
		"history": history.PointOf(in.Job, "", "").Agents[0].DurationSec.Mean, "diff": *diff.Overall.Head.DurationSec, "task": *diff.Tasks[0].Head.MeanDuration(),
		"verdict": *result.ComparisonOf(&diff).Tasks[0].Head.MeanDuration, "group": *diff.Groups[0].Base.DurationSec,
	} {
		if got != 11 {
			t.Errorf("%s: %v s, want 11", name, got)
		}
	}
	var terminal bytes.Buffer
	summary.Write(&terminal, summary.Input{Job: in.Job, Groups: in.Groups, Trials: in.Trials, Dir: in.Dir}, false, 120)
	page := string(reporttest.Write(t, html.Reporter{}, in))
	in.Diff = &diff
	for name, text := range map[string]string{"terminal": terminal.String(), "page": page, "comment": string(reporttest.Write(t, comment.Reporter{}, in))} {
		if !strings.Contains(text, "11.0s") || strings.Contains(text, "21.0s") || strings.Contains(text, "71.0s") || strings.Contains(text, "1m 11s") || strings.Contains(text, "1m11s") {
			t.Errorf("the %s has other times than 11.0s:\n%.3000s", name, text)
		}
	}
}
