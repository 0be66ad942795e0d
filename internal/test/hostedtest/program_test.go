package hostedtest

import "testing"

// Each test that starts a machine uploads the program to it.
func TestProgramIsSmall(t *testing.T) {
	program, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	if len(program) > 20_000_000 {
		t.Errorf("the program has %d bytes, so it is not that of pods", len(program))
	}
}
