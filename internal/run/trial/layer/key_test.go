package layer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"testing"

	"github.com/org/rollout-action/internal/run/trial/layer"
)

// TestKeyIsStable: another key makes every user install all agents again.
func TestKeyIsStable(t *testing.T) {
	got, err := layer.Inputs{
		Provider: "docker", Image: "sha256:1", Install: "true\n", Instruction: "/instruction.md", WorkDir: "/app", LogDirs: []string{"/logs/agent"},
		Config: map[string]any{"b": 1, "a": true}, Env: map[string]string{"X": "=1"}, TaskEnv: map[string]string{},
	}.Key()
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256([]byte(`{"Version":"rollout agent layer 2","Provider":"docker","Image":"sha256:1","Install":"true\n","Instruction":"/instruction.md",` +
		`"WorkDir":"/app","LogDirs":["/logs/agent"],"Config":{"a":true,"b":1},"Env":{"X":"=1"},"TaskEnv":{}}`))
	if got != hex.EncodeToString(want[:]) {
		t.Errorf("got %s, want %x", got, want)
	}
}

func TestVariablesHideSecrets(t *testing.T) {
	written := map[string]string{"LITERAL": "small", "TOKEN": "${TOKEN}", "LEVEL": "${LEVEL}", "BOTH": "${LEVEL}-${TOKEN}"}
	expanded := map[string]string{"LITERAL": "small", "TOKEN": "s3cret", "LEVEL": "one", "BOTH": "one-s3cret", "PASSED": "of the host"}
	got := layer.Variables(written, expanded, []string{"LEVEL"})
	want := map[string]string{"LITERAL": "=small", "TOKEN": "${TOKEN}", "LEVEL": "=one", "BOTH": "${LEVEL}-${TOKEN}", "PASSED": ""}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
