package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflowsRunEveryPart: a part that a workflow left out would never run. Trials on Kubernetes
// have a separate workflow.
func TestWorkflowsRunEveryPart(t *testing.T) {
	read := func(name string, pattern *regexp.Regexp) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("../../..", name))
		if err != nil {
			t.Fatal(err)
		}
		found := pattern.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", name, pattern)
		}
		return string(found[1])
	}
	all := read(".ci/run", regexp.MustCompile(`(?m)^all='([a-z ]+)'$`))
	own := read(".github/workflows/kubernetes.yml", regexp.MustCompile(`(?m)"\$RUN" ([a-z]+)$`))
	night := read(".ci/run", regexp.MustCompile(`(?m)^night='([a-z ]+)'`))
	for workflow, more := range map[string]string{"ci.yml": "", "nightly.yml": " " + night} {
		got := read(".github/workflows/"+workflow, regexp.MustCompile(`(?m)^ +part: \[([a-z, ]+)\]$`))
		called := read(".github/workflows/"+workflow, regexp.MustCompile(`(?m)^ +uses: \./\.github/workflows/([a-z]+)\.yml\b`))
		if want := strings.Replace(all+more, " "+own, "", 1); called != own || strings.ReplaceAll(got, ",", "") != want {
			t.Errorf("%s runs the parts %s and calls %s, .ci/run has %s%s", workflow, got, called, all, more)
		}
	}
}
