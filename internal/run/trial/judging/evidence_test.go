package judging

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// A judge that lacks an artifact names the cause, not harmless omissions.
func TestTheCauseOfAMissingArtifact(t *testing.T) {
	kept := result.Artifact{Source: "/app", Path: "artifacts/app", Incomplete: true}
	e := &Evidence{
		trialDir: t.TempDir(), kept: []result.Artifact{kept},
		omitted:  []result.Omission{{Path: "artifacts/app/pipe", Reason: "a named pipe"}, {Path: "artifacts/app/tty", Reason: "a device"}},
		warnings: []string{"the artifact /big could not be copied whole: it has more than 1 GiB"},
	}
	if got := e.lacking(kept); got != "/app/tty: a device" {
		t.Errorf("lacking: %q", got)
	}
	for name, want := range map[string]string{"/big": "it has more than 1 GiB", "/none": "does not have it"} {
		if _, _, err := e.find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
