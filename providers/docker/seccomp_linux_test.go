package docker

import (
	"encoding/json"
	"reflect"
	"testing"

	mobyseccomp "github.com/moby/profiles/seccomp"
)

// The module is required for this test alone, so that its updates show here.
func TestTheProfileIsThatOfCurrentEngines(t *testing.T) {
	text, err := json.Marshal(mobyseccomp.DefaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs any
	if err := json.Unmarshal(defaultSeccomp, &ours); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &theirs); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(ours, theirs) {
		t.Error("seccomp.json is not default.json of the module github.com/moby/profiles/seccomp that go.mod requires: copy it, and name its version in seccomp.go")
	}
}
