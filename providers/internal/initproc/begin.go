//go:build linux

package initproc

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// Self is this program, even if its file was replaced or removed.
const Self = "/proc/self/exe"

// The roles in which this program is started to be process 1, as the name that it is started with.
const (
	Role       = "rollout-sandbox"
	RoleMapped = "rollout-sandbox-mapped" // waits for its ids first, see WaitForIDs
)

// Process 1 starts here and not in main. Go initialises a program's packages one by one, and main
// is the last. Most packages of rollout (clients of engines and registries, their protocols) come
// after this one, whose imports are few. Starting here halves a sandbox's memory and saves some
// milliseconds; "go run ./bench --only sandbox" measures both.
func init() {
	switch os.Args[0] {
	case Role:
		serveAndExit()
	case RoleMapped:
		WaitForIDs(Role)
	}
}

// WaitForIDs serves a process that was started before its ids were set. It waits for the end of the
// file that its argument names, and executes the program again in its role: the rights of root come
// with execve. It does not return.
func WaitForIDs(role string) {
	gate, err := strconv.Atoi(os.Args[1])
	if err == nil {
		file := os.NewFile(uintptr(gate), "gate")
		_, err = io.Copy(io.Discard, file)
		file.Close()
	}
	if err == nil {
		err = syscall.Exec(Self, []string{role}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "start anew with other ids:", err)
	os.Exit(1)
}
