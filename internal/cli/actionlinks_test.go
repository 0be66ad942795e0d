package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/cli/command"
)

// A stranger may commit a link where results go, and the step writes as root.
func TestTheActionWritesThroughNoLinkOfTheCheckout(t *testing.T) {
	for _, tc := range []struct {
		name string
		link string // in the checkout
		with map[string]string
	}{
		{"the results", "jobs", nil},
		{"results below a link", "out", map[string]string{"INPUT_JOBS-DIR": "out/below/jobs"}},
		{"a report below a link", "reports", map[string]string{"INPUT_JUNIT": "reports/junit.xml"}},
		{"a report that is a link", "junit.xml", map[string]string{"INPUT_JUNIT": "junit.xml"}},
		{"recorded exchanges", "records", map[string]string{"INPUT_SET": "models={m: {api: openai-chat, record_to: records/m}}"}},
		{"merged results", "jobs", map[string]string{"INPUT_COMMAND": "merge", "INPUT_PATHS": "shards", "INPUT_JOB": ""}},
		{"merged results in another place", "merged", map[string]string{"INPUT_COMMAND": "merge", "INPUT_PATHS": "shards", "INPUT_OUTPUT": "merged/j", "INPUT_JOB": ""}},
		{"proofs", "jobs", map[string]string{"INPUT_COMMAND": "validate", "INPUT_BASELINE": "", "INPUT_COMMENT": ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := step(t, map[string]string{"job": "job.yaml", "baseline": "none", "comment": "off"}).job(t)
			s.env["API_KEY"] = "a-secret"
			for name, value := range tc.with {
				s.env[name] = value
			}
			elsewhere := t.TempDir()
			stepMust(t, os.Symlink(elsewhere, filepath.Join(s.dir, tc.link)))
			code := s.main(t, "action")
			if code != command.ExitUsage || !strings.Contains(s.stderr.String(), tc.link+" is a link in the checkout") {
				t.Errorf("exit code %d, want %d and a refusal that names %s", code, command.ExitUsage, tc.link)
			}
			if made, err := os.ReadDir(elsewhere); err != nil || len(made) > 0 {
				t.Errorf("where the link leads, %v was written (%v)", made, err)
			}
		})
	}
}

// The baseline that runs along with a job is a commit's agents, with the job's secrets.
func TestCommitsOfForksAreNoBaselineOfAPush(t *testing.T) {
	t.Parallel()
	of := newHistory(t)
	for _, tc := range []struct{ against, wants string }{
		{"<feature>", ""},
		{"<old>", ""},
		{"<pr>", "is on no branch of the repository"},
		{"<merge>", "is on no branch of the repository"},
		{"hidden/pr", "is on no branch of the repository"},
	} {
		t.Run(tc.against, func(t *testing.T) {
			c := newCheckout(t, of)
			c.about("push", onDefault)
			for name, sha := range c.commits {
				tc.against = strings.ReplaceAll(tc.against, "<"+name+">", sha)
			}
			c.env["INPUT_AGAINST"] = tc.against
			delete(c.env, "INPUT_BASELINE")
			if tc.wants == "" {
				c.runs()
				return
			}
			c.refused(tc.wants)
		})
	}
}
