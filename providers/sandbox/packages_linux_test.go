package sandbox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// networkTime bounds commands that use mirrors.
const networkTime = 4 * time.Minute

// needOutside skips the test if the script fails on this machine itself, in an empty directory:
// package managers are missing, or their mirrors cannot be reached. The script's output is the
// reason.
func needOutside(t *testing.T, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), networkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+defaultPath)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs a machine that can do this itself: %s: %v: %.1000s", script, err, out)
	}
}

// networkEnv returns the variables with which this machine's programs reach the network: proxies
// and additional certificate authorities.
func networkEnv() map[string]string {
	env := map[string]string{}
	for _, v := range os.Environ() {
		key, value, _ := strings.Cut(v, "=")
		lower := strings.ToLower(key)
		if strings.HasSuffix(lower, "_proxy") || value == authorities {
			env[key] = value
		}
	}
	return env
}

// authorities is Debian's file of trusted certificates.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// networkFiles returns this machine's authorities, for images with other ones.
func networkFiles() []environment.Copy {
	bundle, err := os.ReadFile(authorities)
	if err != nil {
		return nil
	}
	return []environment.Copy{{Src: fstest.MapFS{"ca-certificates.crt": {Data: bundle, Mode: 0o644}}, Dst: "/etc/ssl/certs"}}
}

// network returns an environment with this machine's access to the network.
func network(t *testing.T, cfg map[string]any) environment.Environment {
	t.Helper()
	cfg["dir"] = storeFor(t, cfg)
	return create(t, newProvider(t, cfg), environment.CreateOptions{Image: testImage, Env: networkEnv(), Files: networkFiles()})
}

const aptOutside = `mkdir lists cache
apt-get -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o APT::Update::Post-Invoke-Success= -o APT::Update::Post-Invoke= \
	-o DPkg::Post-Invoke= -o Acquire::Retries=0 update 2>&1 | tee log
! grep -qE '^(E|Err|W: (Failed|Some))[: ]' log`

func TestApt(t *testing.T) {
	needOutside(t, aptOutside)
	for _, base := range []string{baseHost, baseImage} {
		t.Run("base "+base, func(t *testing.T) {
			cfg := map[string]any{"base": baseHost}
			if base == baseImage {
				cfg = realImage(t)
			}
			e := network(t, cfg)
			before := machineState(t)
			// The second has a program with a separate group; the third replaces installed files.
			got := runAs(t, e, environment.ExecOptions{Timeout: networkTime, Env: map[string]string{"DEBIAN_FRONTEND": "noninteractive"}}, `set -e
				apt-get -q update
				apt-get -q install -y --no-install-recommends --reinstall hello openssh-client curl
				hello; curl --version; ssh -V
				dpkg -s hello openssh-client curl | grep Status
				dpkg --verify hello openssh-client curl
				apt-get -q purge -y hello
				hash -r; ! command -v hello
				stat -c 'agent %a %G' /usr/bin/ssh-agent`)
			want := "agent 2755 _ssh\n"
			if e.(*sandboxEnv).p.store.mode == modeOne {
				want = "agent 2755 root\n" // there is no other
			}
			if !strings.Contains(got, "Hello, world!\n") || !strings.Contains(got, want) {
				t.Errorf("this was printed, want %q in it:\n%s", want, got)
			}
			if after := machineState(t); after != before {
				t.Errorf("the machine was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// machineState returns the state of this machine that installing packages would change.
func machineState(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	script := `stat -c '%n %a %u %s %Y' /usr/bin /usr/bin/hello /usr/bin/curl /usr/bin/ssh-agent /var/lib/dpkg/status /var/lib/apt/lists /etc /etc/passwd \
		/usr/local/bin /usr/local/lib /usr/local/lib/* /usr/lib/node_modules /usr/lib/python3/dist-packages 2>&1
		dpkg-query -W 2>&1 | sha256sum`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // some of it is not there
	return out.String()
}

func TestPip(t *testing.T) {
	needOutside(t, "python3 -m pip -q download --no-deps -d . six")
	e := network(t, map[string]any{"base": baseHost})
	before := machineState(t)
	got := runAs(t, e, environment.ExecOptions{Timeout: networkTime}, `set -e
		python3 -m pip install --quiet --ignore-installed six httpie 2>&1
		python3 -c 'import six; print(six.__file__)'
		command -v http; http --version
		python3 -m pip uninstall --quiet -y httpie; hash -r; ! command -v http`)
	if !strings.HasPrefix(got, "/usr/local/lib/") {
		t.Errorf("printed\n%s", got)
	}
	if after := machineState(t); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
}

func TestNpm(t *testing.T) {
	needOutside(t, "npm view semver version")
	e := network(t, map[string]any{"base": baseHost})
	before := machineState(t)
	got := runAs(t, e, environment.ExecOptions{Timeout: networkTime}, `set -e
		npm install --global --silent semver cowsay
		semver 1.2.3; cowsay -f tux moo; command -v cowsay
		npm uninstall --global --silent semver; hash -r; ! command -v semver`)
	if !strings.Contains(got, "1.2.3\n") || !strings.Contains(got, "< moo >") {
		t.Errorf("printed\n%s", got)
	}
	if after := machineState(t); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
}
