package proof_test

import (
	"testing"

	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/internal/test/apptest"
)

func TestProveReturnsTheReport(t *testing.T) {
	h, _ := apptest.New(t)
	report, err := proof.Prove(t.Context(), h, proof.ProveRequest{Job: stages.JobRequest{File: "evals", Sets: nil}, Runs: 1, NopRuns: 1})
	if err == nil || report != nil {
		t.Errorf("without the provider docker: %+v, %v", report, err)
	}
	h, _ = apptest.New(t)
	report, err = proof.Prove(t.Context(), h, proof.ProveRequest{Job: stages.JobRequest{File: "job.yaml"}, Runs: 2, NopRuns: 1})
	if err != nil || report.Outcome() != prove.Passed || len(report.Tasks) != 1 || len(report.Tasks[0].Runs.Oracle) != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}
