package prove

import (
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// large is from where GitHub warns of files; it refuses those of 100 MiB.
// Source: docs.github.com, "About large files on GitHub".
const large = 50 << 20

func largeFile(f file) []Finding {
	if f.size <= large {
		return nil
	}
	return []Finding{{Rule: "large-file", Severity: Warning, File: f.name,
		Message: fmt.Sprintf("the file has %d MiB", f.size>>20),
		Hint:    "make it while the image is built, or fetch it there by its checksum"}}
}

// fileName finds names that artifact upload refuses and that Windows cannot check out. result.Slug has the rule.
func fileName(f file) []Finding {
	for _, part := range strings.Split(f.name, "/") {
		// Only the beginning: Slug also shortens, and hides what is hidden.
		if part = strings.TrimLeft(part, "."); part != "" && len(part) < 150 && result.Slug(part) != part {
			return []Finding{{Rule: "file-name", Severity: Warning, File: f.name,
				Message: "the name has a character that Windows and GitHub's artifacts do not allow", Hint: "rename it, or make it while the image is built"}}
		}
	}
	return nil
}

// leaks are paths that exist in an environment only while the solution or the tests run, and after them.
var leaks = regexp.MustCompile("(?:^|[\\s\"'`(=])(/(?:solution|oracle|tests|logs/verifier)(?:/[\\w.-]*)?)(?:[\\s\"'`),.;:]|$)|\\b(solve\\.sh)\\b")

// instructionLeak finds an instruction that tells of what agents do not have: a leftover at best, a hint to cheat at worst.
func instructionLeak(f file) []Finding {
	at := leaks.FindSubmatchIndex(f.head)
	if at == nil {
		return nil
	}
	from, to := at[2], at[3]
	if from < 0 {
		from, to = at[4], at[5]
	}
	return []Finding{{Rule: "instruction-leak", Severity: Warning, File: f.name, Line: lineAt(f.head, from),
		Message: fmt.Sprintf("the instruction names %s, which is not there while the agent works", f.head[from:to]),
		Hint:    "say what is wanted, not how it is tested"}}
}

// shortest is the size from which equal files are taken for copies.
const shortest = 32

// copies finds files of solution/ and tests that are in environment/ too, from where they get into the image. Data may
// well be in both; code that solves or tests may not.
func copies(files []file) []Finding {
	of := map[[sha256.Size]byte]string{}
	for _, f := range files {
		if (strings.HasPrefix(f.name, "solution/") || isTest(f)) && f.whole() && f.size >= shortest {
			if sum := sha256.Sum256(f.head); of[sum] == "" {
				of[sum] = f.name
			}
		}
	}
	var out []Finding
	for _, f := range files {
		if !strings.HasPrefix(f.name, "environment/") || !f.whole() {
			continue
		}
		original := of[sha256.Sum256(f.head)]
		switch {
		case strings.HasPrefix(original, "solution/"):
			out = append(out, Finding{Rule: "solution-in-image", Severity: Warning, File: f.name,
				Message: fmt.Sprintf("the file is the same as %s, so agents may find the solution in the image", original), Hint: "remove it from environment/"})
		case original != "":
			out = append(out, Finding{Rule: "tests-in-image", Severity: Warning, File: f.name,
				Message: fmt.Sprintf("the file is the same as %s, so agents may find the tests in the image", original), Hint: "remove it from environment/: tests/ is put in place when the agent is done"})
		}
	}
	return out
}

var testNames = regexp.MustCompile(`^(?:test\.sh|test_.+|.+_test\.\w+|.+\.(?:test|spec)\.\w+)$`)

// isTest tells code that tests from data for it, by its name.
func isTest(f file) bool {
	return strings.HasPrefix(f.name, "tests/") && testNames.MatchString(path.Base(f.name))
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
			out = append(out, Finding{Rule: "long-timeout", Severity: Warning, File: configFile,
				Message: fmt.Sprintf("%s is %g seconds, which is more than a day", limit.key, limit.sec), Hint: "GitHub ends a job after six hours; seconds are meant, not milliseconds"})
		}
	}
	return out
}
