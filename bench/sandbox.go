package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/sandbox"
)

const (
	nobody  = 65534       // an ordinary user, who need not be in /etc/passwd
	outside = "192.0.2.1" // the server of downloads, as sandboxes see it: an address for documentation (RFC 5737)
)

// sandbox measures hello trials and their parts in sandboxes of this machine.
func (b *bench) sandbox(ctx context.Context) error {
	server, err := serveZeros(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	dir := filepath.Join(b.dir, "sandbox")
	ours, err := b.inSandboxes(ctx, dir, "", sandbox.Options{Dial: server.dial})
	if err != nil {
		return err
	}
	defer ours.provider.Close()
	shared, err := b.inSandboxes(ctx, dir, "host", sandbox.Options{})
	if err != nil {
		return err
	}
	defer shared.provider.Close()
	theirs := func(context.Context) (float64, error) { return 0, err }
	onDocker, err := b.onDocker(ctx, filepath.Join(dir, "docker"))
	if err == nil {
		defer onDocker.provider.Close()
		theirs = onDocker.trials(1, 1)
	}
	one := ours.trials(1, 1)
	var memory []float64
	for _, step := range []func() error{
		func() error { return b.users(ctx, one) },
		func() error { return b.measure(ctx, measuring{"sandbox.network", one, shared.trials(1, 1)}) },
		func() error {
			return b.measure(ctx, measuring{"sandbox.fresh", ours.withFreshTests().trials(1, 1), one})
		},
		func() error { return b.downloads(ctx, ours, server) },
		func() error {
			parallel := perSecond(sandboxTrials, ours.trials(sandboxTrials, workers))
			return b.measure(ctx, measuring{"sandbox.docker", one, theirs}, measuring{"sandbox.parallel", parallel, nil})
		},
		func() error {
			return ours.inside(ctx, "true", func(run measured) error {
				return b.measure(ctx, measuring{"sandbox.exec", run, process("bash", "-c", "true")})
			})
		},
		func() error { return b.measure(ctx, measuring{"sandbox.create", ours.many(alive, &memory), nil}) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	b.add("sandbox.memory", memory[find("sandbox.create").pairs.warmups:])
	return nil
}

// inSandboxes returns the hello job on a provider with a store in dir, so nothing remains of it. It
// pulls the image.
func (b *bench) inSandboxes(ctx context.Context, dir, network string, opts sandbox.Options) (*stage, error) {
	config := map[string]any{"dir": filepath.Join(dir, "store")}
	if network != "" {
		config["network"] = network
	}
	opts.Hide = []string{dir}
	provider, err := sandbox.New(ctx, config, opts)
	if environment.KindOf(err) == environment.KindUnavailable {
		err = fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	if err != nil {
		return nil, err
	}
	if err := provider.PullImage(ctx, b.image, nil); err != nil {
		return nil, err
	}
	jobs, err := os.MkdirTemp(dir, "jobs-")
	if err != nil {
		return nil, err
	}
	return newStage(ctx, jobs, b.image, 1, provider)
}

// inside creates a sandbox, calls do with a measurement of script in it, and destroys the sandbox.
func (s *stage) inside(ctx context.Context, script string, do func(run measured) error) error {
	env, err := s.create(ctx)
	if err != nil {
		return err
	}
	err = do(timed(func(ctx context.Context) error {
		code, err := env.Exec(ctx, script, environment.ExecOptions{Stdout: io.Discard, Stderr: io.Discard})
		if err == nil && code != 0 {
			err = fmt.Errorf("%s ended with %d", script, code)
		}
		return err
	}))
	return errors.Join(err, env.Destroy(context.WithoutCancel(ctx)))
}

// create creates a sandbox with the default limits of tasks.
func (s *stage) create(ctx context.Context) (environment.Environment, error) {
	return s.provider.CreateEnvironment(ctx, environment.CreateOptions{
		Image: s.image, Limits: environment.Limits{MilliCPUs: 1000, Memory: 2 << 30},
		Labels: environment.Labels{Job: "bench", Trial: "bench", Owner: environment.Self()},
	})
}

// users measures single trials as root, and as an ordinary user in a separate process; only as the
// current user if that is not root.
func (b *bench) users(ctx context.Context, one measured) error {
	if os.Geteuid() != 0 {
		return errors.Join(b.unlessMissing("sandbox.trial", fmt.Errorf("%w: only root can run it", errUnmeasurable)),
			b.measure(ctx, measuring{"sandbox.user", one, nil}))
	}
	home := filepath.Join(b.dir, "user")
	err := b.measure(ctx, measuring{"sandbox.trial", one, nil})
	if err := errors.Join(err, os.Chmod(b.dir, 0o711), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Dir, cmd.Env = home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	report, err := b.startChild(cmd, "sandbox", home)
	if err == nil {
		b.add("sandbox.user", report.Values)
	}
	return b.unlessMissing("sandbox.user", err)
}

// trialsInSandboxes measures single trials. It runs in a child of another user.
func trialsInSandboxes(ctx context.Context, b *bench) ([]float64, error) {
	ours, err := b.inSandboxes(ctx, b.dir, "", sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer ours.provider.Close()
	values, err := turns(ctx, find("sandbox.user").pairs.warmups, b.rounds, ours.trials(1, 1))
	return slices.Concat(values...), err
}

// downloads measures downloads from a server in this process.
func (b *bench) downloads(ctx context.Context, ours *stage, server zeros) error {
	address := server.Addr().(*net.TCPAddr)
	client := func(host string) string {
		return fmt.Sprintf(`[ "$(wc -c < /dev/tcp/%s/%d)" = %d ]`, host, address.Port, download)
	}
	return ours.inside(ctx, client(outside), func(run measured) error {
		floor := process("bash", "-c", client(address.IP.String()))
		return b.measure(ctx, measuring{"sandbox.download", perSecond(download/1e6, run), perSecond(download/1e6, floor)})
	})
}

// zeros is a server on this machine's loopback device that writes zeros to every client, which
// counts them.
type zeros struct{ net.Listener }

func serveZeros(ctx context.Context) (zeros, error) {
	server, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return zeros{}, err
	}
	all := make([]byte, download)
	go func() {
		for conn, err := server.Accept(); err == nil; conn, err = server.Accept() {
			go func() {
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				_, _ = conn.Write(all)
				_ = conn.Close()
			}()
		}
	}()
	return zeros{server}, nil
}

// dial connects to the server, whatever the address.
func (z zeros) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, z.Addr().String())
}

// many returns a measurement of the time to create n sandboxes that exist at the same time. It
// appends the memory of each, in millions of bytes, to memory and destroys them.
func (s *stage) many(n int, memory *[]float64) measured {
	return func(ctx context.Context) (float64, error) {
		made := make([]environment.Environment, n)
		took, err := timed(func(ctx context.Context) error {
			return each(ctx, workers, n, func(ctx context.Context, i int) (err error) {
				made[i], err = s.create(ctx)
				return err
			})
		})(ctx)
		total, memoryErr := descendantsMemory("self")
		*memory = append(*memory, total/float64(n))
		return took, errors.Join(err, memoryErr, each(context.WithoutCancel(ctx), workers, n, func(ctx context.Context, i int) error {
			if made[i] == nil {
				return nil
			}
			return made[i].Destroy(ctx)
		}))
	}
}

// descendantsMemory returns the proportional set size of all processes that descend from one, in
// millions of bytes: a page that several processes share counts for each by its share. Source:
// proc(5), smaps_rollup and children.
func descendantsMemory(process string) (total float64, err error) {
	lists, err := filepath.Glob("/proc/" + process + "/task/*/children")
	for _, list := range lists {
		text, listErr := os.ReadFile(list)
		if errors.Is(listErr, os.ErrNotExist) {
			continue // the thread ended
		}
		err = errors.Join(err, listErr)
		for _, child := range strings.Fields(string(text)) {
			own, ownErr := memoryOf("/proc/"+child+"/smaps_rollup", "\nPss:")
			below, belowErr := descendantsMemory(child)
			total, err = total+own+below, errors.Join(err, ownErr, belowErr)
		}
	}
	return total, err
}
