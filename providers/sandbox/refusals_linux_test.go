package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/org/rollout-action/providers/internal/initclient"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

func TestRemedies(t *testing.T) {
	noNamespaces := &startError{&os.PathError{Op: "fork/exec", Path: self, Err: syscall.EPERM}}
	noOverlay := &initclient.SetupError{Refused: true, Problem: "mount an overlay at /: invalid argument"}
	for _, tc := range []struct {
		name      string
		mode      mode
		err       error
		container bool
		settings  map[string]string
		old       bool
		want      string
	}{
		{"a container", modeOne, noNamespaces, true, nil, false, "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"},
		{"a container whose root cannot hold changes", modeRoot, noOverlay, true, nil, false, "-v rollout:/root/.cache/rollout"},
		{"a pod", modeOne, noNamespaces, false, nil, false, "capabilities: {add: [SYS_ADMIN, NET_ADMIN]}"},
		{"a pod whose root cannot hold changes", modeRoot, noOverlay, false, nil, false, "emptyDir volume at ~/.cache/rollout"},
		{"Ubuntu's AppArmor", modeOne, noOverlay, false, map[string]string{"kernel.apparmor_restrict_unprivileged_userns": "1"}, false,
			"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"Debian's old switch", modeOne, noNamespaces, false, map[string]string{"kernel.unprivileged_userns_clone": "0"}, false, "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"no user namespaces", modeIDs, noNamespaces, false, map[string]string{"user.max_user_namespaces": "0"}, false, "sudo sysctl -w user.max_user_namespaces="},
		{"an old kernel", modeOne, noOverlay, false, nil, true, "Linux before 5.11"},
		{"too many namespaces", modeRoot, &startError{syscall.ENOSPC}, false, nil, false, "/proc/sys/user/max_*_namespaces"},
		{"an ordinary user, for another reason", modeOne, noNamespaces, false, nil, false, "run rollout with sudo"},
		{"root on a file system that cannot hold changes", modeRoot, noOverlay, false, nil, false, "environment.provider_config.dir"},
		{"a store that others can change", modeRoot, errForeign, true, nil, false, "choose your own directory"},
		{"root, for another reason", modeRoot, noNamespaces, false, nil, false, "refuses here"},
		{"switches of user namespaces are nothing to root", modeRoot, noNamespaces, false, map[string]string{"user.max_user_namespaces": "0"}, true, "refuses here"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := hostFacts{container: tc.container, pod: strings.HasPrefix(tc.name, "a pod"), setting: func(name string) string { return tc.settings[name] }, olderThan: func(int, int) bool { return tc.old }}
			got := c.remedy(tc.mode, errors.Join(tc.err))
			if !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestUnusableStoreDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	_, err := New(t.Context(), map[string]any{"dir": file + "/store"}, Options{})
	if environment.KindOf(err) != environment.KindUnavailable || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names the directory", err)
	}
}

// TestInContainers runs this program in containers, to check that the suggested remedy works.
func TestInContainers(t *testing.T) {
	t.Parallel()
	testenv.Long(t, "sandboxes in containers with several rights")
	testenv.NeedDocker(t)
	for _, program := range []string{"docker", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs the command %s", program)
		}
	}
	program := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const volume = "/root/.cache/rollout" // one without a name, which goes with the container
	unconfined := []string{"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--security-opt", "systempaths=unconfined"}
	for _, tc := range []struct {
		name  string
		flags []string
		works bool
	}{
		{"with default options", nil, false},
		{"with default options and a volume", []string{"-v", volume}, false},
		{"with masked paths", []string{"-v", volume, "--security-opt", "seccomp=unconfined"}, false},
		{"as the remedy says", append([]string{"-v", volume}, unconfined...), true},
		{"as root that may mount, but make no network", append([]string{"-v", volume, "--cap-add", "SYS_ADMIN"}, unconfined[:4]...), false},
		{"as root that may mount, on the container's network", append([]string{"-v", volume, "--cap-add", "SYS_ADMIN", "-e", creatorKey + `={"base":"host","network":"host"}`}, unconfined[:4]...), true},
		{"as root that may mount and make networks", append([]string{"-v", volume, "--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN"}, unconfined[:4]...), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			create := append([]string{"create", "-e", creatorKey + `={"base":"host"}`}, tc.flags...)
			id, err := exec.CommandContext(t.Context(), "docker", append(create, testImage, "/program")...).Output()
			must(t, err)
			name := strings.TrimSpace(string(id))
			defer func() { _ = exec.Command("docker", "rm", "--force", "--volumes", name).Run() }()
			if out, err := exec.CommandContext(t.Context(), "docker", "cp", program, name+":/program").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := exec.CommandContext(t.Context(), "docker", "start", "--attach", name).CombinedOutput()
			said := string(out)
			switch {
			case tc.works && (err != nil || !strings.Contains(said, "\nok: ")):
				t.Errorf("it does not work: %v: %s", err, said)
			case strings.Contains(tc.name, "make no network") && !strings.Contains(said, "network: host"):
				t.Errorf("it does not name the ways out: %s", said)
			case !tc.works && (err == nil || !strings.Contains(said, "systempaths=unconfined") || !strings.Contains(said, volume)):
				t.Errorf("it does not refuse with the way out: %v: %s", err, said)
			}
		})
	}
}
