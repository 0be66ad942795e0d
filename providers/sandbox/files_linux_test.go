package sandbox

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
)

// TestCommandsInheritNoFiles: shells and CI runners start programs with files open that are meant
// for other processes.
func TestCommandsInheritNoFiles(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	secret, err := os.CreateTemp(t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	const fd = 77
	if err := unix.Dup3(int(secret.Fd()), fd, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = env.Destroy(t.Context()) }()
	var out strings.Builder
	if _, err := env.Exec(t.Context(), `cd /proc/$$/fd && echo *`, environment.ExecOptions{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "0 1 2 3\n" { // 3 is bash's own, for reading the directory
		t.Errorf("a command has the files %q open", out.String())
	}
}
