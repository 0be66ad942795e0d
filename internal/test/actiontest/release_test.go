package actiontest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// GitHub does not start a workflow whose jobs request more permissions than the caller grants, and
// shows no log.
func TestTheReusableWorkflowAsksForNoPermissions(t *testing.T) {
	text := read(t, filepath.Join(top, ".github/workflows/rollout.yml"))
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "permissions:") {
			t.Errorf("it has %s", strings.TrimSpace(line))
		}
	}
}

// For GitHub, a required check that is skipped has passed. So a report is no less red than a plan
// that failed, and only cancellation leaves it out.
func TestReportFailsWhenThePlanDoes(t *testing.T) {
	for file, condition := range map[string]string{".github/workflows/rollout.yml": "${{ !cancelled() }}", "examples/workflows/pr-matrix.yml": "always()"} {
		var flow struct {
			Jobs map[string]struct {
				If    string
				Steps []struct{ If, Run string }
			}
		}
		must(t, yaml.Unmarshal([]byte(read(t, top, file)), &flow))
		report := flow.Jobs["report"]
		if report.If != condition {
			t.Errorf("%s: the condition of report is %q, want %q", file, report.If, condition)
		}
		if len(report.Steps) == 0 || report.Steps[0].If != "needs.plan.result != 'success'" || !strings.HasSuffix(strings.TrimSpace(report.Steps[0].Run), "exit 1") {
			t.Errorf("%s: the first step of report does not fail when the plan did: %+v", file, report.Steps)
		}
	}
}

// A tag in Go's checksum database cannot be taken back, so all steps that may fail must come before
// it.
func TestAReleaseIsProvenBeforeTagsMove(t *testing.T) {
	_, publish, found := strings.Cut(read(t, filepath.Join(top, ".github/workflows/release.yml")), "\n  publish:")
	if !found {
		t.Fatal("there is no job publish")
	}
	order := []string{
		"DOCKER_CONFIG=$(mktemp -d)", `docker pull "$IMAGE@$DIGEST"`, "--agent oracle --env-type docker --min-pass-rate 1",
		"flags=(--draft", "gh release create", "gh release upload", "git tag ", "push --atomic", "--draft=false --verify-tag",
	}
	var at []int
	for _, step := range order {
		i := strings.Index(publish, step)
		if i < 0 {
			t.Errorf("%s is missing", step)
		}
		at = append(at, i)
	}
	if !slices.IsSorted(at) {
		t.Errorf("the steps %q are at %d", order, at)
	}
	if strings.Contains(publish, "continue-on-error") {
		t.Error("a step that fails does not end the job")
	}
}

// A job that is skipped, fails or is lost leaves no verdict: some other job then has to remove the
// line that the plan has written into the comment, under the same name.
func TestWorkflowsThatAnnounceARunWithdraw(t *testing.T) {
	type step struct {
		With map[string]string
	}
	announcing := 0
	for _, file := range append(examples(t), filepath.Join(top, ".github/workflows/rollout.yml")) {
		var workflow struct {
			Jobs map[string]struct {
				If    string
				Needs any
				Steps []step
			}
		}
		must(t, yaml.Unmarshal([]byte(read(t, file)), &workflow))
		names := map[string]string{} // by command
		for id, job := range workflow.Jobs {
			for _, s := range job.Steps {
				command := s.With["command"]
				if command == "" {
					continue
				}
				names[command] = s.With["name"]
				if command == "withdraw" && (!strings.Contains(job.If, "always()") || strings.Contains(job.If, "cancelled()") ||
					!strings.Contains(job.If, "needs.report.outputs.verdict == ''") || !strings.Contains(fmt.Sprint(job.Needs), "report")) {
					t.Errorf("%s: the job %s runs if %s, after %v", file, id, job.If, job.Needs)
				}
			}
		}
		if plan, ok := names["plan"]; ok {
			announcing++
			if plan == "" || names["withdraw"] != plan || names["merge"] != plan {
				t.Errorf("%s: the names are %v", file, names)
			}
		}
	}
	if announcing < 2 {
		t.Errorf("%d workflows announce their runs", announcing)
	}
}
