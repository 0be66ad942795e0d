//go:build linux

package inside

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// Self is this program, also when its file was replaced or removed meanwhile.
const Self = "/proc/self/exe"

// The roles in which this program is started to be process 1, as the name that it is started with.
const (
	Role       = "rollout-sandbox"
	RoleMapped = "rollout-sandbox-mapped" // waits for its ids first, see WaitForIDs
)

// Process 1 begins here and not in main, because a program's packages are made ready one by one, and main is the last.
// Most of what rollout is made of (clients of engines and registries, their protocols) comes after this package,
// whose imports are few. Without it a sandbox needs less than half the memory and is there some milliseconds
// earlier; "go run ./internal/bench --only sandbox" measures both.
func init() {
	switch os.Args[0] {
	case Role:
		serveForever()
	case RoleMapped:
		WaitForIDs(Role)
	}
}

// WaitForIDs is what a process does that was started before it had its ids: it waits for the end of the file
// that its argument names, and starts anew in its role, for the rights of root come with that. It does not return.
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
