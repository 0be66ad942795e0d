//go:build linux

package main

import "testing"

func TestViewSaysThatThereAreNoJobsYet(t *testing.T) {
	r := onTerminal(t, t.TempDir(), "view")
	r.await(t, "No jobs yet: there is no directory jobs here")
	r.await(t, "Serving until")
	r.write(t, "\x03")
	if code := r.exit(t); code != 130 {
		t.Errorf("exit code %d", code)
	}
}
