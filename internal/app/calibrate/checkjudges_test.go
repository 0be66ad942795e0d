package calibrate_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/calibrate"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agreement"
	"github.com/org/rollout-action/internal/test/apptest"
)

func TestJudgesBelowTheLimitsAreNamed(t *testing.T) {
	half := func(kappa *agreement.Estimate) *agreement.Agreement {
		return &agreement.Agreement{Agreement: &agreement.Estimate{Value: 0.5}, Kappa: kappa}
	}
	low, high := 0.4, 0.6
	for name, tc := range map[string]struct {
		measure      *agreement.Agreement
		agree, kappa *float64
		want         string // part of the only sentence; "": none
	}{
		"no limits":                       {measure: half(nil)},
		"agreement above the limit":       {measure: half(nil), agree: &low},
		"agreement below the limit":       {measure: half(nil), agree: &high, want: "strict agrees with 0.5 of the labels, which is below 0.6"},
		"kappa below the limit":           {measure: half(&agreement.Estimate{Value: 0.2}), kappa: &low, want: "strict has a kappa of 0.2, which is below 0.4"},
		"no kappa":                        {measure: half(nil), kappa: &low, want: "kappa of strict cannot be computed"},
		"no score for any label":          {measure: &agreement.Agreement{}, agree: &low, want: "strict has no score for any of its labels"},
		"a limit without labels to check": {agree: &low, want: "no judge has a label to compare with"},
	} {
		checked := calibrate.CheckedJudges{Judges: []calibrate.CheckedJudge{{Name: "strict", Measure: tc.measure}}}
		got := checked.Below(tc.agree, tc.kappa)
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestChecksWithoutVerdictsAreRefused(t *testing.T) {
	h, _ := apptest.New(t)
	_, err := calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/nightly", Threshold: 2})
	apptest.Refused(t, err, "--threshold 2: want a number from 0 to 1")
	_, err = calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/nightly"})
	apptest.Refused(t, err, "there is no such directory")
	if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	if _, err = calibrate.CheckJudges(h, calibrate.CheckRequest{Dir: "jobs/nightly"}); err == nil {
		t.Error("a job without judges was checked")
	}
}
