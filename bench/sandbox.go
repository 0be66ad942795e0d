package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/docker"
	"github.com/org/rollout-action/providers/sandbox"
)

// nobody is an ordinary user, who need not be in /etc/passwd.
const nobody = 65534

// outside is the address of downloads as sandboxes see it: one for documentation (RFC 5737). Connections to it go to a server in
// this process.
const outside = "192.0.2.1"

// sandbox measures hello trials and their parts in sandboxes of this machine.
func (b *bench) sandbox(ctx context.Context) error {
	dir := filepath.Join(b.dir, "sandbox")
	ours, err := b.newSandboxes(ctx, dir, nil, sandbox.Options{})
	if err != nil {
		return err
	}
	defer ours.Close()
	for _, step := range []func(context.Context, *sandboxes) error{
		b.sandboxTrial, b.sandboxNetwork, b.sandboxDownload, b.sandboxDocker, b.sandboxParallel, b.sandboxExec, b.sandboxCreate,
	} {
		if err := step(ctx, ours); err != nil {
			return err
		}
	}
	return nil
}

// sandboxes is the hello job in sandboxes.
type sandboxes struct {
	*stage
	environment.Provider
	dir   string
	image string
}

// newSandboxes returns the hello job on a provider with a store in dir, so nothing remains of it. It pulls the image.
func (b *bench) newSandboxes(ctx context.Context, dir string, config map[string]any, opts sandbox.Options) (*sandboxes, error) {
	config = maps.Clone(config)
	if config == nil {
		config = map[string]any{}
	}
	config["dir"] = filepath.Join(dir, "store")
	opts.Hide = []string{dir}
	provider, err := sandbox.New(ctx, config, opts)
	if environment.KindOf(err) == environment.KindUnavailable {
		return nil, fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	if err != nil {
		return nil, err
	}
	return sandboxesOf(ctx, provider, dir, b.image)
}

func sandboxesOf(ctx context.Context, provider environment.Provider, dir, image string) (*sandboxes, error) {
	if err := provider.PullImage(ctx, image, nil); err != nil {
		return nil, err
	}
	jobs, err := os.MkdirTemp(dir, "jobs-")
	if err != nil {
		return nil, err
	}
	job, err := newStage(ctx, jobs, image, 1, provider)
	return &sandboxes{job, provider, dir, image}, err
}

// create creates a sandbox with the default limits of tasks.
func (s *sandboxes) create(ctx context.Context) (environment.Environment, error) {
	return s.CreateEnvironment(ctx, environment.CreateOptions{
		Image:  s.image,
		Limits: environment.Limits{MilliCPUs: 1000, Memory: 2 << 30},
		Labels: environment.Labels{Job: "bench", Trial: "bench", Owner: environment.Self()},
	})
}

// within calls do with a new sandbox, which it destroys.
func (s *sandboxes) within(ctx context.Context, do func(run func(ctx context.Context, script string) error) error) (err error) {
	env, err := s.create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Destroy(context.WithoutCancel(ctx))) }()
	return do(func(ctx context.Context, script string) error {
		code, err := env.Exec(ctx, script, environment.ExecOptions{Stdout: io.Discard, Stderr: io.Discard})
		if err == nil && code != 0 {
			err = fmt.Errorf("%s ended with %d", script, code)
		}
		return err
	})
}

// sandboxTrial measures single trials as root, and as an ordinary user in a separate process; only as this user if it is not root.
func (b *bench) sandboxTrial(ctx context.Context, ours *sandboxes) error {
	if os.Geteuid() != 0 {
		b.missing("sandbox.trial", errors.New("only root can run it"))
		return b.measure(ctx, "sandbox.user", ours.trials(1, 1), nil)
	}
	if err := b.measure(ctx, "sandbox.trial", ours.trials(1, 1), nil); err != nil {
		return err
	}
	home := filepath.Join(b.dir, "user")
	if err := errors.Join(os.Chmod(b.dir, 0o711), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	report, err := b.startChild(cmd, "sandbox", home)
	if errors.Is(err, errUnmeasurable) {
		b.missing("sandbox.user", err)
		return nil
	}
	if err == nil {
		b.add("sandbox.user", report.Values)
	}
	return err
}

// trialsInSandboxes measures single trials. It runs in a child of another user.
func trialsInSandboxes(ctx context.Context, b *bench) ([]float64, error) {
	ours, err := b.newSandboxes(ctx, b.dir, nil, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	n := find("sandbox.user").pairs
	values, err := turns(ctx, n.warmups, b.rounds, ours.trials(1, 1))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// sandboxNetwork measures what a network of its own costs a hello trial, which does not use it.
func (b *bench) sandboxNetwork(ctx context.Context, ours *sandboxes) error {
	shared, err := b.newSandboxes(ctx, ours.dir, map[string]any{"network": "host"}, sandbox.Options{})
	if err != nil {
		return err
	}
	defer shared.Close()
	return b.measure(ctx, "sandbox.network", ours.trials(1, 1), shared.trials(1, 1))
}

// sandboxDownload measures downloads from a server in this process.
func (b *bench) sandboxDownload(ctx context.Context, ours *sandboxes) error {
	server, err := serveZeros(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	connected, err := b.newSandboxes(ctx, ours.dir, nil, sandbox.Options{Dial: dialing(server)})
	if err != nil {
		return err
	}
	defer connected.Close()
	return b.downloads(ctx, connected, server)
}

func (b *bench) downloads(ctx context.Context, ours *sandboxes, server net.Listener) error {
	address := server.Addr().(*net.TCPAddr)
	client := func(host string) string {
		return fmt.Sprintf(`[ "$(wc -c < /dev/tcp/%s/%d)" = %d ]`, host, address.Port, download)
	}
	return ours.within(ctx, func(run func(context.Context, string) error) error {
		return b.measure(ctx, "sandbox.download",
			perSecond(download/1e6, timed(func(ctx context.Context) error { return run(ctx, client(outside)) })),
			perSecond(download/1e6, process("bash", "-c", client(address.IP.String()))))
	})
}

// dialing returns a function that connects to server, whatever the address.
func dialing(server net.Listener) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Addr().String())
	}
}

// serveZeros starts a server on this machine's loopback device that writes zeros to every client.
func serveZeros(ctx context.Context) (net.Listener, error) {
	server, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				piece := make([]byte, 1<<20)
				for range download / len(piece) {
					if _, err := conn.Write(piece); err != nil {
						return // the client counts, and fails
					}
				}
			}()
		}
	}()
	return server, nil
}

// sandboxDocker compares trials in sandboxes with the same trials on a Docker engine.
func (b *bench) sandboxDocker(ctx context.Context, ours *sandboxes) error {
	engine, err := docker.New(ctx, nil)
	if err != nil {
		b.missing("sandbox.docker", err)
		return nil
	}
	defer engine.Close()
	theirs, err := newStage(ctx, filepath.Join(ours.dir, "docker"), b.image, 1, engine)
	if err != nil {
		return err
	}
	return b.measure(ctx, "sandbox.docker", ours.trials(1, 1), theirs.trials(1, 1))
}

func (b *bench) sandboxParallel(ctx context.Context, ours *sandboxes) error {
	return b.measure(ctx, "sandbox.parallel", perSecond(sandboxTrials, ours.trials(sandboxTrials, workers)), nil)
}

func (b *bench) sandboxExec(ctx context.Context, ours *sandboxes) error {
	return ours.within(ctx, func(run func(context.Context, string) error) error {
		return b.measure(ctx, "sandbox.exec", timed(func(ctx context.Context) error { return run(ctx, "true") }), process("bash", "-c", "true"))
	})
}

// sandboxCreate measures many sandboxes at the same time: the time to create them, and their memory.
func (b *bench) sandboxCreate(ctx context.Context, ours *sandboxes) error {
	var memory []float64
	if err := b.measure(ctx, "sandbox.create", ours.many(alive, &memory), nil); err != nil {
		return err
	}
	b.add("sandbox.memory", memory[find("sandbox.create").pairs.warmups:])
	return nil
}

// many measures the time to create n sandboxes that are alive together, appends the memory of each, in millions of bytes, and
// destroys them.
func (s *sandboxes) many(n int, memory *[]float64) measured {
	return func(ctx context.Context) (took float64, err error) {
		made := make([]environment.Environment, n)
		defer func() {
			err = errors.Join(err, each(context.WithoutCancel(ctx), n, func(ctx context.Context, i int) error {
				if made[i] == nil {
					return nil
				}
				return made[i].Destroy(ctx)
			}))
		}()
		took, err = timed(func(ctx context.Context) error {
			return each(ctx, n, func(ctx context.Context, i int) (err error) {
				made[i], err = s.create(ctx)
				return err
			})
		})(ctx)
		if err != nil {
			return 0, err
		}
		total, err := descendantsMemory(os.Getpid())
		*memory = append(*memory, total/float64(n))
		return took, err
	}
}

// descendantsMemory returns the proportional set size of all processes that descend from pid, in millions of bytes: a page that
// several processes share counts for each by its share. Source: proc(5), smaps_rollup and children.
func descendantsMemory(pid int) (float64, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread ended
		}
		if err != nil {
			return 0, err
		}
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return 0, err
			}
			own, err := memoryOf(fmt.Sprintf("/proc/%d/smaps_rollup", child), "\nPss:")
			if err != nil {
				return 0, err
			}
			below, err := descendantsMemory(child)
			if err != nil {
				return 0, err
			}
			total += own + below
		}
	}
	return total, nil
}
