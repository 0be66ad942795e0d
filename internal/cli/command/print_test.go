package command

import (
	"bytes"
	"errors"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/report"
)

// A cancelled job says how to resume it, also if a report is printed in place of the summary.
func TestCancelledJobsSayHowToResumeThem(t *testing.T) {
	var out, errs bytes.Buffer
	v := &Invocation{Env: Env{Stdout: &out, Stderr: &errs}}
	finished := &host.Finished{Outcome: host.Stopped, ResumeWith: "rollout resume jobs/a"}
	err := v.Conclude(finished, nil, func(report.Input) error { return nil })
	var failed *Failure
	if !errors.As(err, &failed) || failed.Code != ExitCancelled || errs.String() != "Resume it with: rollout resume jobs/a\n" || out.Len() > 0 {
		t.Errorf("%v, stdout %q, stderr %q", err, out.String(), errs.String())
	}
}
