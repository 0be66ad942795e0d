package look

import (
	"context"
	"os/exec"
	"runtime"
)

// openBrowser opens an address in the user's browser. It does not wait for the browser's end.
func openBrowser(ctx context.Context, address string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, address)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // whatever it says
	return nil
}
