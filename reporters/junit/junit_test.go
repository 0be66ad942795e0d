package junit_test

import (
	"bytes"
	"testing"

	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/report/reporttest"
	"github.com/org/rollout-action/reporters/junit"
)

func render(t *testing.T, r junit.Reporter, in report.Input) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name+".xml", render(t, junit.Reporter{}, in)) })
	}
	t.Run("with files", func(t *testing.T) {
		reporttest.Golden(t, "files.xml", render(t, junit.Reporter{CaseFiles: true}, reporttest.NoBaseline()))
	})
}
