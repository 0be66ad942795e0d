package look

import (
	"context"
	"os/exec"
	"runtime"
)

// openBrowser opens an address in the user's browser. It does not wait for the browser's end, and
// calls failed if there is none.
func openBrowser(ctx context.Context, address string, failed func(error)) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, address)
	go func() {
		if err := cmd.Run(); err != nil {
			failed(err)
		}
	}()
}
