// Command podprogram is the program of pods alone: the guest and the probe of networks. Released
// binaries embed it, so that a pod does not copy all of Rollout. The name under which it is started
// selects its role.
package main

import (
	"fmt"
	"os"

	_ "github.com/org/rollout-action/providers/internal/podinit"          // process 1, its connector and its installer
	_ "github.com/org/rollout-action/providers/kubernetes/internal/probe" // proves restrictions of the network
)

// main runs if no package took the process over when it was initialized.
func main() {
	fmt.Fprintln(os.Stderr, "this program runs in pods of rollout, under other names")
	os.Exit(2)
}
