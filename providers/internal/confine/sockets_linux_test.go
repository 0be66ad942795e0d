package confine

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

func needScopes(t *testing.T) {
	t.Helper()
	if version, err := landlockVersion(); err != nil || version < landlockScopes {
		testenv.Lacks(t, "landlock", fmt.Sprintf("a kernel whose Landlock has scopes; version %d, %v", version, err))
	}
}

func TestMissingKernelFeaturesAreReported(t *testing.T) {
	version, err := landlockVersion()
	want := err != nil || version < landlockScopes
	everywhere(t, func(t *testing.T, p place) {
		r := p.confined(t, Options{}, "true")
		if got := strings.Contains(r.stderr, "note: Commands can reach abstract sockets"); r.code != 0 || got != want {
			t.Errorf("exit code %d, noted: %v, want %v\n%s", r.code, got, want, r.stderr)
		}
	})
}

// listen makes an abstract socket of the machine's.
func listen(t *testing.T) string {
	t.Helper()
	name := "@confine-outside-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid()) + t.Name()[:10]
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return name
}

func TestAbstractSocketsOfTheMachineAreOutOfReach(t *testing.T) {
	needScopes(t)
	name := listen(t)
	everywhere(t, func(t *testing.T, p place) {
		p.free(t, "role:connect", name).want(t, "connected\n")
		if r := p.confined(t, Options{}, "role:connect", name); r.code == 0 || !strings.Contains(r.stderr, "operation not permitted") {
			t.Errorf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
		}
	})
}

func TestAbstractSocketsInsideWork(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		name := fmt.Sprintf("@confine-inside-%d", os.Getpid())
		p.run(t, "confine", plan{Commands: [][]string{{"role:listen", name}, {"role:connect", name}}}).want(t, "connected\n")
	})
}

func TestFilesMoveAndLinkAcrossDirectories(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.confined(t, Options{}, "role:refer", p.writableDir(t)).want(t, "")
	})
}

func tryRefer(args []string) error {
	from, to := filepath.Join(args[0], "from"), filepath.Join(args[0], "to")
	for _, dir := range []string{from, to, filepath.Join(from, "dir")} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(from, "f"), nil, 0o666); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(from, "f"), filepath.Join(to, "link")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(from, "f"), filepath.Join(to, "f")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(from, "dir"), filepath.Join(to, "dir"))
}

func listenAbstract(args []string) error {
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = l.Accept()
	return err
}

func connectAbstract(args []string) error {
	_, err := net.Dial("unix", args[0])
	if err == nil {
		fmt.Println("connected")
	}
	return err
}
