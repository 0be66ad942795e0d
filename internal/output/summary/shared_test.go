package summary

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// All trials of a task share its image, so the reason for a missing image is printed once.
func TestSummaryQuotesEachMessageOnce(t *testing.T) {
	var trials []result.Trial
	for _, task := range []string{"a", "b", "c", "d"} {
		message := "the first"
		if task == "b" || task == "d" {
			message = "the second"
		}
		trials = append(trials, result.Trial{Key: *key(task, 1), Error: &result.Error{Type: result.EnvironmentBuildFailed, Message: message}})
	}
	var out strings.Builder
	Write(&out, job(nil, trials), false, 100)
	lines := out.String()
	if strings.Count(lines, "the first") != 1 || strings.Count(lines, "the second") != 1 || strings.Index(lines, "/c__1") > strings.Index(lines, "the second") {
		t.Errorf("the messages were not printed once each:\n%s", lines)
	}
}
