package actiontest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	_, report, found := strings.Cut(text, "\n  report:")
	if want := "\n    if: ${{ !cancelled() && needs.plan.result == 'success' }}\n"; !found || !strings.Contains(report, want) {
		t.Errorf("the report has not the condition %s", want)
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
