package failure

import (
	"errors"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// error.txt begins with the message.
func TestDetailDoesNotRepeatTheMessage(t *testing.T) {
	long := strings.Repeat("a long reason ", 100)
	for _, tc := range []struct{ name, err, output, want string }{
		{"a message that says all", "pull image a:\n  no such host", "", ""},
		{"the output of a build", "RUN false: exit code 1", "1\n2\n", "1\n2\n"},
		{"a message that was cut", long, "", long + " (hint)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := &environment.Error{Kind: environment.KindBuild, Err: errors.New(tc.err), Hint: "hint", Output: tc.output}
			if f := Classify(event.EnvironmentSetup, err, timing.Timeouts{}, redact.New(nil)); f.Detail != tc.want {
				t.Errorf("message %q\ndetail %q, want %q", f.Message, f.Detail, tc.want)
			}
		})
	}
}
