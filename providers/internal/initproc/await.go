//go:build linux

package initproc

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/rollout-action/providers/internal/initwire"
)

const (
	awaitMin = time.Millisecond // between looks
	awaitMax = 50 * time.Millisecond
)

// await serves a WaitFor request: see initwire.Answer.
func (c *children) await(request initwire.Request) (begun, running bool) {
	since := time.Now()
	for wait := awaitMin; ; wait = min(2*wait, awaitMax) {
		if request.Command != nil && anyRuns(request.Command.Args) {
			return true, true
		}
		if !c.runs(request.Target) {
			return false, false
		}
		if time.Since(since) > request.Within {
			return false, true
		}
		time.Sleep(wait)
	}
}

// anyRuns reports whether any process runs the program with these arguments, in whatever directory
// the program is.
func anyRuns(args []string) bool {
	lists, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is sound
	for _, list := range lists {
		line, err := os.ReadFile(list)
		if err == nil && runs(line, args) { // else it has ended
			return true
		}
	}
	return false
}

// runs reports whether a process with this cmdline runs the program with these arguments.
func runs(cmdline []byte, args []string) bool {
	var has []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(cmdline, []byte{0}), []byte{0}) {
		has = append(has, string(arg))
	}
	return len(args) > 0 && len(has) == len(args) && path.Base(has[0]) == args[0] && slices.Equal(has[1:], args[1:])
}
