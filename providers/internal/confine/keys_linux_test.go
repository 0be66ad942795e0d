package confine

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testenv"
)

const keyName = "confine-test-key"

func TestCallersKeysAreUnreachable(t *testing.T) {
	if _, err := os.Stat("/proc/keys"); err != nil {
		testenv.Lacks(t, "keys", "a kernel that lists keys: "+err.Error())
	}
	everywhere(t, func(t *testing.T, p place) {
		what := plan{Commands: [][]string{{"cat", "/proc/keys"}}, Free: true}
		if r := p.run(t, "addkey", what); !strings.Contains(r.stdout, keyName) {
			t.Fatalf("the caller does not have the key itself: %s%s", r.stdout, r.stderr)
		}
		what.Free = false
		r := p.run(t, "addkey", what)
		if r.code != 0 || strings.Contains(r.stdout, keyName) {
			t.Errorf("exit code %d, the key is in reach: %s%s", r.code, r.stdout, r.stderr)
		}
		if strings.Contains(r.stderr, "note:") {
			t.Errorf("noted: %s", r.stderr)
		}
	})
}

// addKeyAnd puts a key into a new session keyring that only its possessor can see, and goes on as
// confine.
func addKeyAnd(args []string) error {
	if err := leaveKeyring(); err != nil {
		return err
	}
	key, err := unix.AddKey("user", keyName, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	if err != nil {
		return err
	}
	const possessorAll = 0x3f000000 // <linux/key.h>
	if err := unix.KeyctlSetperm(key, possessorAll); err != nil {
		return err
	}
	return confine(args)
}
