package kubernetes

import (
	"os"
	"strings"
	"testing"
)

// The role that Rollout asks for is the one that the documentation and the example have.
func TestTheRoleIsDocumented(t *testing.T) {
	for _, file := range []string{"../../docs/providers/kubernetes.md", "../../examples/kubernetes/setup.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), role("evals")) {
			t.Errorf("%s does not have\n%s", file, role("evals"))
		}
	}
}
