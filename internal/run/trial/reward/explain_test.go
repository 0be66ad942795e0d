package reward

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

func TestMissingRewardsAreExplained(t *testing.T) {
	plain := []result.Omission(nil)
	for _, c := range []struct {
		script  string
		omitted []result.Omission
		kind    result.ErrorType
		says    string
	}{
		{"echo 1\n", plain, result.VerifierRewardMissing, "there is none"},
		{"echo 1\r\n", plain, result.VerifierRewardMissing, "(CRLF)"},
		{"\ufeffecho 1\n", plain, result.VerifierRewardMissing, "(BOM)"},
		{"echo 1\n", []result.Omission{{Path: result.LogsDir + "/" + Path, Reason: "a symbolic link"}}, result.VerifierRewardInvalid, "could not be read (a symbolic link)"},
	} {
		tk := &task.Task{FS: fstest.MapFS{"tests/test.sh": {Data: []byte(c.script)}}}
		f := Explain(failure.Newf(result.VerifierRewardMissing, "there is none"), tk, c.omitted)
		if f.Type != c.kind || !strings.Contains(f.Message, c.says) {
			t.Errorf("%q, %v: %s: %s", c.script, c.omitted, f.Type, f.Message)
		}
	}
}
