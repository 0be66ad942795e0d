package testprogram

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Programs can be executed at once while other goroutines fork.
func TestProgramsCanBeExecutedAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				program := filepath.Join(dir, strconv.Itoa(i), strconv.Itoa(n))
				Write(t, program, "#!/bin/sh\necho ran\n")
				if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "ran\n" {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	all.Wait()
}
