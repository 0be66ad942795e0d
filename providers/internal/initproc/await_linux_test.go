package initproc

import "testing"

func TestRuns(t *testing.T) {
	args := []string{"bash", "-c", "wait for ever"}
	for _, tc := range []struct {
		name, cmdline string
		want          bool
	}{
		{"the program", "bash\x00-c\x00wait for ever\x00", true},
		{"the program by its path", "/usr/bin/bash\x00-c\x00wait for ever\x00", true},
		{"another program", "mybash\x00-c\x00wait for ever\x00", false},
		{"a script that is yet to run it", "/bin/sh\x00/entry.sh\x00bash\x00-c\x00wait for ever\x00", false},
		{"other arguments", "bash\x00-c\x00true\x00", false},
		{"more arguments", "bash\x00-c\x00wait for ever\x00x\x00", false},
		{"a process without any", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := runs([]byte(tc.cmdline), args); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
