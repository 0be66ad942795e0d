package prove

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// largeSize is the size above which GitHub warns of files. It refuses those of 100 MiB.
// Source: docs.github.com, "About large files on GitHub".
const largeSize = 50 << 20

func largeFile(f file) []Finding {
	if f.size <= largeSize {
		return nil
	}
	return []Finding{{Rule: ruleLargeFile, Severity: Warning, File: f.name,
		Message: fmt.Sprintf("the file has %d MiB", f.size>>20),
		Hint:    "make it while the image is built, or fetch it there by its checksum"}}
}

// fileName finds names that artifact upload refuses or Windows cannot check out. result.Slug has
// the rule.
func fileName(f file) []Finding {
	for _, part := range strings.Split(f.name, "/") {
		// Not long names or leading dots, which Slug changes, too.
		if part = strings.TrimLeft(part, "."); part != "" && len(part) < 150 && result.Slug(part) != part {
			return []Finding{{Rule: ruleFileName, Severity: Warning, File: f.name,
				Message: "the name has a character that Windows and GitHub's artifacts do not allow", Hint: "rename it, or make it while the image is built"}}
		}
	}
	return nil
}

const day = 24 * 60 * 60

func longTimeouts(t *task.Task) []Finding {
	var out []Finding
	for _, limit := range []struct {
		key string
		sec float64
	}{
		{"agent.timeout_sec", t.Config.Agent.TimeoutSec}, {"agent.install_timeout_sec", t.Config.Agent.InstallTimeoutSec},
		{"verifier.timeout_sec", t.Config.Verifier.TimeoutSec}, {"environment.build_timeout_sec", t.Config.Environment.BuildTimeoutSec},
	} {
		if limit.sec > day {
			out = append(out, Finding{Rule: ruleLongTimeout, Severity: Warning, File: configFile,
				Message: fmt.Sprintf("%s is %g seconds, which is more than a day", limit.key, limit.sec), Hint: "GitHub ends a job after six hours; seconds are meant, not milliseconds"})
		}
	}
	return out
}
