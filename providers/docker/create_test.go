package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestUnusableImages(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	for _, test := range []struct {
		name, dockerfile string
		says             []string
	}{
		{"an ENTRYPOINT that does not run its arguments is named, with its code and output",
			"ENTRYPOINT [\"bash\", \"-c\", \"echo I do my own thing; exit 5\"]", []string{"exit code 5", "I do my own thing", "ENTRYPOINT", `exec "$@"`}},
		{"an ENTRYPOINT that does not exist cannot be started",
			"ENTRYPOINT [\"/no/such/file\"]", []string{"/no/such/file", "ENTRYPOINT"}},
		{"a USER who does not exist is named", "USER no-such-user", []string{"USER, no-such-user"}},
		{"so is a group", "USER root:no-such-group", []string{"USER, root:no-such-group"}},
		{"an image without bash says what it needs", "ENV PATH=/none", []string{"needs bash"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ref := buildImage(t, p, map[string]string{"Dockerfile": "FROM " + testImage + "\n" + test.dockerfile + "\n"})
			env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: ref, Labels: testLabels(t)})
			if err == nil {
				defer env.Destroy(context.Background())
				waitStopped(t, p, env)
				_, err = env.Exec(t.Context(), "true", environment.ExecOptions{})
			}
			if environment.KindOf(err) != environment.KindStart || environment.IsTransient(err) {
				t.Errorf("kind %q, transient %t, want start, not transient", environment.KindOf(err), environment.IsTransient(err))
			}
			for _, text := range test.says {
				if !strings.Contains(fmt.Sprint(err), text) {
					t.Errorf("the error does not say %q: %v", text, err)
				}
			}
		})
	}
}

// An engine without GPUs gives none, and says so.
func TestGPUs(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage, Labels: testLabels(t), Limits: environment.Limits{GPUs: 2, GPUTypes: "H100"}})
	if err == nil { // it has them
		defer env.Destroy(context.Background())
		return
	}
	known := new(environment.Error)
	if environment.KindOf(err) != environment.KindResources || !errors.As(err, &known) || !strings.Contains(known.Hint, "NVIDIA Container Toolkit") {
		t.Errorf("kind %q: %v", environment.KindOf(err), err)
	}
}

// GPUs are asked for as the engine's client asks for them with --gpus.
func TestGPUsAreADeviceRequest(t *testing.T) {
	g, err := new(Provider).grant(environment.Limits{GPUs: 2})
	if err != nil || len(g.resources.DeviceRequests) != 1 {
		t.Fatalf("%+v, %v", g.resources, err)
	}
	if r := g.resources.DeviceRequests[0]; r.Count != 2 || len(r.Capabilities) != 1 || !slices.Equal(r.Capabilities[0], []string{"gpu"}) {
		t.Errorf("the request is %+v", r)
	}
	if none := noGPU(environment.Limits{}, errors.New(`could not select device driver "" with capabilities: [[gpu]]`)); none != nil {
		t.Errorf("without a GPU in the limits: %v", none)
	}
}

// An engine pulls an image of another platform if its registry has no other. Without an emulator,
// nothing runs in it.
func TestAnImageOfAnotherPlatformIsNamed(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	other := "linux/arm64"
	if p.platform() == other {
		other = "linux/amd64"
	}
	system, arch, _ := strings.Cut(other, "/")
	ref := name.MustParseReference("rollout-test/other-platform:1").(name.Tag)
	load(t, p, ref, v1.ConfigFile{OS: system, Architecture: arch}, map[string]string{"bin/bash": "\x7fELF for another processor\n"})
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: ref.String(), Labels: testLabels(t)})
	if err == nil {
		defer env.Destroy(context.Background())
		waitStopped(t, p, env)
		_, err = env.Exec(t.Context(), "true", environment.ExecOptions{})
	}
	want := "the image is for " + other + ", and the engine runs " + p.platform()
	if environment.KindOf(err) != environment.KindStart || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%q is not in the error: %v", want, err)
	}
}

// load gives the engine an image with some programs, for as long as the test runs.
func load(t *testing.T, p *Provider, ref name.Tag, config v1.ConfigFile, programs map[string]string) {
	t.Helper()
	var layer, archive bytes.Buffer
	files := tar.NewWriter(&layer)
	for path, content := range programs {
		err := files.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(content))})
		if _, written := io.WriteString(files, content); errors.Join(err, written) != nil {
			t.Fatal(err, written)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	made, err := mutate.ConfigFile(empty.Image, &config)
	if err != nil {
		t.Fatal(err)
	}
	if made, err = mutate.AppendLayers(made, static.NewLayer(layer.Bytes(), types.DockerUncompressedLayer)); err != nil {
		t.Fatal(err)
	}
	if err := tarball.Write(ref, made, &archive); err != nil {
		t.Fatal(err)
	}
	loaded, err := p.api.ImageLoad(t.Context(), &archive)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, loaded.Body)
	loaded.Body.Close()
	t.Cleanup(func() { _, _ = p.api.ImageRemove(context.Background(), ref.String(), image.RemoveOptions{Force: true}) })
}

func waitStopped(t *testing.T, p *Provider, env environment.Environment) {
	t.Helper()
	wait, errs := p.api.ContainerWait(t.Context(), env.ID(), container.WaitConditionNotRunning)
	select {
	case <-wait:
	case err := <-errs:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("the container does not stop")
	}
}

func TestEntrypointServices(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	ref := buildImage(t, p, map[string]string{
		"Dockerfile": "FROM " + testImage + "\nCOPY entry.sh /entry.sh\nENTRYPOINT [\"bash\", \"/entry.sh\"]\nCMD [\"never\", \"run\"]\n",
		"entry.sh":   "sleep 600 & echo $! > /service\nexec \"$@\"\n",
	})
	env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
	run(t, env, "until [ -s /service ]; do sleep 0.02; done; kill -0 $(cat /service)")
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	run(t, env, "for i in {1..20}; do (setsid sleep 0.01 &); done")
	got := run(t, env, `for i in {1..100}; do
		zombies=$(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null)
		[ -z "$zombies" ] && exit
		sleep 0.05
	done; echo $zombies`)
	if got != "" {
		t.Errorf("zombies: %s", got)
	}
	// The agent may kill all that it can: process 1 waits with nothing else.
	run(t, env, "sleep 100 & kill -9 -1")
	run(t, env, "rm $(which sleep)")
	run(t, env, "true")
}

func TestProviderConfig(t *testing.T) {
	t.Parallel()
	p := newProvider(t, map[string]any{
		"network":    "none",
		"pids_limit": 100,
		"mounts": []any{
			"/usr/share:/shared:ro",
			map[string]any{"source": "/usr/share", "target": "/also", "read_only": true},
		},
	})
	env := newEnvironment(t, p, environment.CreateOptions{})
	got := run(t, env, "ls /sys/class/net; ls /shared >/dev/null && ls /also >/dev/null && ! touch /shared/x 2>/dev/null && echo mounted")
	if got != "lo\nmounted\n" {
		t.Errorf("got %q", got)
	}
	state, err := p.api.ContainerInspect(t.Context(), env.ID())
	if err != nil || *state.HostConfig.PidsLimit != 100 {
		t.Errorf("pids limit %v, %v", state.HostConfig.PidsLimit, err)
	}
}

func TestUnknownNetworkAndRuntime(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"network": "no-such-network", "runtime": "no-such-runtime"} {
		p := newProvider(t, map[string]any{key: value})
		_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage, Labels: testLabels(t)})
		if environment.KindOf(err) != environment.KindStart || environment.IsTransient(err) || !strings.Contains(err.Error(), value) || strings.Contains(err.Error(), "pulled") {
			t.Errorf("%s: %v (transient: %t)", key, err, environment.IsTransient(err))
		}
	}
}

func TestGrant(t *testing.T) {
	able := system.Info{NCPU: 4, MemTotal: 8 << 30, CPUCfsQuota: true, MemoryLimit: true, PidsLimit: true, Driver: "btrfs"}
	overlay := func(backing string) system.Info {
		info := able
		info.Driver, info.DriverStatus = "overlay2", [][2]string{{"Backing Filesystem", backing}}
		return info
	}
	for _, test := range []struct {
		name       string
		info       system.Info
		limits     environment.Limits
		unenforced string
		err        string
	}{
		{"all limits", able, environment.Limits{MilliCPUs: 4000, Memory: 8 << 30, Storage: 1 << 30, Pids: 10}, "[]", ""},
		{"no limits", system.Info{}, environment.Limits{}, "[]", ""},
		{"an engine that cannot limit anything says so", system.Info{NCPU: 4},
			environment.Limits{MilliCPUs: 1000, Memory: 1 << 30, Storage: 1 << 30, Pids: 10}, "[cpus memory pids storage]", ""},
		{"storage on overlay2 and ext4 is not limited", overlay("extfs"), environment.Limits{Storage: 1}, "[storage]", ""},
		{"storage on overlay2 and xfs is", overlay("xfs"), environment.Limits{Storage: 1}, "[]", ""},
		{"more processors than there are", able, environment.Limits{MilliCPUs: 4001}, "", "override_cpus"},
		{"less than the smallest share of one", able, environment.Limits{MilliCPUs: 9}, "", "override_cpus"},
		{"more memory than there is", able, environment.Limits{Memory: 8<<30 + 1}, "", "override_memory"},
		{"less memory than a container needs", able, environment.Limits{Memory: 1 << 20}, "", "override_memory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &Provider{info: test.info, config: config{pidsLimit: defaultPids}}
			got, err := p.grant(test.limits)
			if test.err != "" {
				if environment.KindOf(err) != environment.KindResources || environment.IsTransient(err) || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one that names %s", err, test.err)
				}
				return
			}
			if err != nil || fmt.Sprint(got.unenforced) != test.unenforced {
				t.Errorf("unenforced %v, %v; want %s", got.unenforced, err, test.unenforced)
			}
		})
	}
}

// Engines on overlay2 and xfs refuse a storage limit unless the file system has project quotas.
func TestStorageLimitIsDroppedIfRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	p.info.Driver, p.info.DriverStatus = "overlay2", [][2]string{{"Backing Filesystem", "xfs"}}
	for range 2 {
		env := newEnvironment(t, p, environment.CreateOptions{Limits: environment.Limits{Storage: 1 << 30}})
		if limited := len(environment.Unenforced(env)) == 0; limited && p.noStorage.Load() {
			t.Error("the limit was refused, and nothing says so")
		}
		run(t, env, "true")
	}
}

func TestLongAndOddScripts(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{Env: map[string]string{"BASH_ENV": "/noise"}})
	run(t, env, "echo 'echo noise; echo noise >&2' > /noise")
	var out, errs bytes.Buffer
	script := "#!/bin/bash\nset -u\n# " + strings.Repeat("ü", 600<<10) + "\nprintf '%q %s %s' \"$IFS\" $# $0; echo end >&2"
	code, err := env.Exec(t.Context(), script, environment.ExecOptions{Stdout: &out, Stderr: &errs})
	if err != nil || code != 0 {
		t.Fatal(code, err)
	}
	if out.String() != "noise\n$' \\t\\n' 0 bash" || errs.String() != "noise\nend\n" {
		t.Errorf("stdout %q, stderr %q", &out, &errs)
	}
	for name, script := range map[string]string{
		"too long": strings.Repeat("x", 2<<20), "NUL": "echo \x00", "not UTF-8": "echo \xff",
	} {
		if _, err := env.Exec(t.Context(), script, environment.ExecOptions{}); environment.KindOf(err) != environment.KindExec {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A command may close its output long before it ends.
func TestCommandWithoutOutputIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	code, err := env.Exec(t.Context(), "exec >/dev/null 2>&1; sleep 1; touch /end; exit 4", environment.ExecOptions{})
	if err != nil || code != 4 {
		t.Fatal(code, err)
	}
	run(t, env, "test -e /end")
	if err := timesOut(t, env, "exec >/dev/null 2>&1; sleep 600", time.Second); !errors.Is(err, environment.ErrTimeout) {
		t.Error(err)
	}
}

type brokenReader struct{ text string }

func (b *brokenReader) Read(p []byte) (int, error) {
	n := copy(p, b.text)
	b.text = b.text[n:]
	if n == 0 {
		return 0, errors.New("the disk is gone")
	}
	return n, nil
}

func TestBrokenInputIsReported(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	var out bytes.Buffer
	_, err := env.Exec(t.Context(), "cat", environment.ExecOptions{Stdin: &brokenReader{"half"}, Stdout: &out})
	if err == nil || !strings.Contains(err.Error(), "the disk is gone") || out.String() != "half" {
		t.Errorf("%v, output %q", err, &out)
	}
}
