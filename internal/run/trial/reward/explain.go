package reward

import (
	"bytes"
	"io"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Explain returns the failure of a missing reward with its cause, if that is known: the file
// is not a plain one, or the script has Windows line ends or a byte order mark.
func Explain(f *failure.Error, t *task.Task, omitted []result.Omission) *failure.Error {
	for _, o := range omitted {
		for _, file := range []string{Path, JSONPath} {
			if o.Path == result.LogsDir+"/"+file && f.Type == result.VerifierRewardMissing {
				return failure.Newf(result.VerifierRewardInvalid, "%s/%s could not be read (%s): write one finite number into a plain file there", environment.LogsDir, file, o.Reason)
			}
		}
	}
	if f.Type != result.VerifierRewardMissing {
		return f
	}
	head := headOfTests(t)
	if bytes.Contains(head, []byte("\r\n")) {
		f.Message += "; " + t.Files().TestScript + " has Windows line ends (CRLF), and the shell takes the carriage return for a part of each command or file name: " +
			"sed -i 's/\\r$//' on it"
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		f.Message += "; " + t.Files().TestScript + " begins with a byte order mark (BOM), which the shell takes for a part of the first line: save it as UTF-8 without a mark"
	}
	return f
}

// headOfTests returns the beginning of the script that runs the tests.
func headOfTests(t *task.Task) []byte {
	const most = 1 << 20
	script, err := t.FS.Open(t.Files().TestScript)
	if err != nil {
		return nil
	}
	defer script.Close()
	head, _ := io.ReadAll(io.LimitReader(script, most))
	return head
}
