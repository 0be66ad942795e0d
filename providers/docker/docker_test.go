package docker

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

const testImage = testenv.Image

// newProvider connects to the engine, or skips.
func newProvider(t testing.TB, cfg map[string]any) *Provider {
	t.Helper()
	testenv.NeedDocker(t)
	p, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func testLabels(t testing.TB) environment.Labels {
	return environment.Labels{Job: "docker-test-" + strconv.Itoa(os.Getpid()), Trial: t.Name(), Owner: environment.Self()}
}

// newEnvironment makes an environment that ends with the test.
func newEnvironment(t testing.TB, p *Provider, opts environment.CreateOptions) environment.Environment {
	t.Helper()
	if opts.Image == "" {
		opts.Image = testImage
	}
	opts.Labels = testLabels(t)
	env, err := p.CreateEnvironment(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := env.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	return env
}

// buildImage builds an image that is removed at the end of the test.
func buildImage(t testing.TB, p *Provider, files map[string]string) string {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Context: tree, Name: "docker-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = p.api.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true, PruneChildren: true})
	})
	return ref
}

// gateway returns the machine's address in the engine's own network.
func (p *Provider) gateway(t testing.TB) string {
	t.Helper()
	state, err := p.api.NetworkInspect(t.Context(), networkBridge, network.InspectOptions{})
	if err != nil || len(state.IPAM.Config) == 0 {
		t.Fatalf("the engine's bridge: %+v, %v", state.IPAM, err)
	}
	if gateway := state.IPAM.Config[0].Gateway; gateway != "" {
		return gateway
	}
	bridge, err := net.InterfaceByName(state.Options["com.docker.network.bridge.name"]) // not every engine says
	if err != nil {
		t.Fatalf("the engine's bridge: %v", err)
	}
	addrs, err := bridge.Addrs()
	if err != nil || len(addrs) == 0 {
		t.Fatalf("the engine's bridge has addresses %v, error %v", addrs, err)
	}
	return addrs[0].(*net.IPNet).IP.String()
}

func run(t testing.TB, env environment.Environment, script string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code, err := env.Exec(t.Context(), script, environment.ExecOptions{Stdout: &out, Stderr: &errs})
	if err != nil || code != 0 {
		t.Fatalf("%s: code %d, %v\n%s%s", script, code, err, &out, &errs)
	}
	return out.String()
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{
		Env: map[string]string{"A": "1"},
		Files: []environment.Copy{
			{Src: fstest.MapFS{"instruction.md": {Data: []byte("do it"), Mode: 0o644}}, Dst: "/tmp"},
			{Src: fstest.MapFS{}, Dst: "/logs/agent", Mode: 0o777},
		},
	})
	if got := run(t, env, "cat /tmp/instruction.md; stat -c %a /tmp /logs /logs/agent; echo $A $0 $# x${REPLY}x"); got != "do it1777\n755\n777\n1 bash 0 xx\n" {
		t.Errorf("got %q", got)
	}
	run(t, env, "mkdir /tests; ln -s /etc /tests/x; echo hi >/logs/agent/log")
	if err := env.CopyTo(t.Context(), environment.Copy{Src: fstest.MapFS{"test.sh": {Data: []byte("echo ok"), Mode: 0o755}}, Dst: "/tests", Clean: true}); err != nil {
		t.Fatal(err)
	}
	if got := run(t, env, "ls /tests; /tests/test.sh; stat -c %a /tests"); got != "test.sh\nok\n755\n" {
		t.Errorf("got %q", got)
	}
	dir := t.TempDir()
	out, err := env.CopyFrom(t.Context(), "/logs", dir, environment.ExtractOptions{})
	if err != nil || out.Files != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	start := time.Now()
	_, err = env.Exec(t.Context(), "sleep 1000 & setsid nohup sleep 1001 & (env -i setsid sleep 1002 &) ; sleep 1003", environment.ExecOptions{Timeout: time.Second})
	if !errors.Is(err, environment.ErrTimeout) {
		t.Error(err)
	}
	t.Log(time.Since(start))
	if got := run(t, env, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(got, "sleep 100") {
		t.Errorf("left: %s", got)
	}
}

func TestStopTwice(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	for i := range 2 {
		if err := env.Stop(t.Context()); err != nil {
			t.Errorf("time %d: %v", i+1, err)
		}
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := env.Stop(t.Context()); environment.KindOf(err) != environment.KindTeardown || environment.IsTransient(err) {
		t.Errorf("of a container that is gone: %v", err)
	}
}

// A command that ends as if it was killed, or was not started, makes the provider ask whether the
// container still lives. It must not wait for the end of a container that does.
func TestRunningContainerCanStartCommands(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	if !p.container(env).canStart(t.Context()) {
		t.Error("a container that runs does not answer")
	}
	if err := p.api.ContainerKill(t.Context(), env.ID(), "KILL"); err != nil {
		t.Fatal(err)
	}
	waitStopped(t, p, env)
	if p.container(env).canStart(t.Context()) {
		t.Error("a container that was killed answers")
	}
}
