package appletest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
)

// The states of containers. Source: Sources/ContainerResource/Container/RuntimeStatus.swift.
const (
	running = "running"
	stopped = "stopped"
)

// container is a container, with the environment that runs its commands.
type container struct {
	id, image string
	labels    map[string]string
	env       environment.Environment
	ctx       context.Context //nolint:containedctx // as long as the container runs
	cancel    context.CancelFunc
	execs     sync.WaitGroup

	mu    sync.Mutex
	state string
	gone  bool
	cuts  []func()
}

func (c *container) current() (state string, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, c.gone
}

// halt ends the container's processes.
func (c *container) halt() {
	c.mu.Lock()
	c.state = stopped
	c.mu.Unlock()
	c.cancel()
	c.execs.Wait()
}

var containerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)

// run creates a container and starts it.
func (s *Service) run(i *invocation) (int, error) {
	id := i.last("--name")
	if len(i.args) == 0 {
		return 0, usage("run", "Missing expected argument '<image>'")
	}
	if !containerName.MatchString(id) || len(id) > 63 {
		return 0, failed(`invalidArgument: "container ID %s is not a valid container ID"`, id)
	}
	if i.last("--uid") != "0" || i.last("--gid") != "0" || !i.has("--detach") {
		return 0, errors.New("this stand-in only runs detached processes of root")
	}
	labels, err := labelsOf(i.values["--label"])
	if err != nil {
		return 0, err
	}
	opts, err := s.creation(i)
	if err != nil {
		return 0, err
	}
	if c := s.container(id); c != nil {
		return 0, failed(`exists: "container with id %s already exists"`, id)
	}
	env, err := s.runs.CreateEnvironment(i.ctx, opts)
	if err != nil {
		return 0, failed(`internalError: "failed to bootstrap container" (cause: "%v")`, err)
	}
	c := &container{id: id, image: i.args[0], labels: labels, env: env, state: running}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	s.mu.Lock()
	s.containers[id] = c
	s.order = append(s.order, id)
	s.mu.Unlock()
	command := append([]string{i.last("--entrypoint")}, i.args[1:]...)
	c.execs.Add(1)
	go func() {
		_, _ = env.Exec(c.ctx, quoted(command), environment.ExecOptions{WorkDir: i.last("--workdir"), User: "root"})
		c.execs.Done()
		c.halt()
	}()
	_, err = fmt.Fprintln(i.stdout, id)
	return 0, err
}

// labelsOf reads labels as Sources/Services/ContainerAPIService/Client/Parser.swift does.
func labelsOf(all []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, label := range all {
		name, value, _ := strings.Cut(label, "=")
		if strings.Contains(value, "=") {
			return nil, failed(`invalidArgument: "invalid label format %s"`, label)
		}
		labels[name] = value
	}
	return labels, nil
}

// creation returns the environment of a container.
func (s *Service) creation(i *invocation) (environment.CreateOptions, error) {
	opts := environment.CreateOptions{Labels: environment.Labels{Job: "appletest", Owner: environment.Self()}}
	switch network := i.values["--network"]; {
	case len(network) > 1:
		return opts, failed(`unsupported: "no other networks may be created along with network none"`)
	case i.last("--network") == "none":
		opts.Network = environment.Network{Mode: environment.NetworkNone}
	case i.has("--network") && i.last("--network") != "default":
		return opts, failed(`notFound: "network %s not found"`, i.last("--network"))
	}
	cpus, _ := strconv.ParseInt(i.last("--cpus"), 10, 64) // checked by the parser; "" is 0
	opts.Limits.MilliCPUs = 1000 * cpus
	if i.has("--memory") {
		memory, err := strconv.ParseInt(strings.TrimSuffix(i.last("--memory"), "M"), 10, 64)
		if err != nil {
			return opts, failed("invalidSize")
		}
		if memory < 200 {
			return opts, failed(`invalidArgument: "minimum memory amount allowed is 200 MiB (got %d bytes)"`, memory<<20)
		}
		opts.Limits.Memory = memory << 20
	}
	ref, err := s.local(i, i.args[0])
	if err != nil {
		return opts, err
	}
	opts.Image, err = s.images.Bare(i.ctx, s.runs, ref)
	return opts, err
}

// container returns a container that is not gone.
func (s *Service) container(id string) *container {
	s.mu.Lock()
	c := s.containers[id]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	if _, gone := c.current(); gone {
		return nil
	}
	return c
}

// exec runs a command in a container.
func (s *Service) exec(i *invocation) (int, error) {
	if len(i.args) < 2 {
		return 0, usage("exec", "Missing expected argument '<arguments> ...'")
	}
	c := s.container(i.args[0])
	if c == nil {
		return 0, failed(`notFound: "get failed: container %s not found"`, i.args[0])
	}
	c.mu.Lock()
	if c.state != running {
		c.mu.Unlock()
		return 0, failed(`invalidState: "container %s is not running"`, c.id)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.cuts = append(c.cuts, cancel)
	c.execs.Add(1)
	c.mu.Unlock()
	defer c.execs.Done()
	opts := environment.ExecOptions{WorkDir: i.last("--workdir"), User: "root", Stderr: i.stderr}
	out := &cutWriter{s: s, to: i.stdout, left: s.fault().Cut, cut: cancel}
	opts.Stdout = out
	if i.has("--interactive") {
		opts.Stdin = i.stdin
	}
	code, err := c.env.Exec(ctx, quoted(i.args[1:]), opts)
	if err != nil {
		return 0, failed(`internalError: "failed to exec process %v"`, err)
	}
	return code, nil
}

// cutWriter passes output on, up to a limit if there is one.
type cutWriter struct {
	s    *Service
	to   io.Writer
	left int // 0: there is no limit
	cut  func()
}

// Write implements io.Writer.
func (w *cutWriter) Write(p []byte) (int, error) {
	w.s.count(len(p))
	if w.left == 0 {
		return w.to.Write(p)
	}
	n := min(len(p), w.left)
	if _, err := w.to.Write(p[:n]); err != nil {
		return 0, err
	}
	if w.left -= n; w.left == 0 {
		w.cut()
		return n, errGone
	}
	return n, nil
}

// delete deletes containers.
func (s *Service) delete(i *invocation) (int, error) {
	if len(i.args) == 0 {
		return 0, failed(`invalidArgument: "no containers specified and --all not supplied"`)
	}
	for _, id := range i.args {
		c := s.container(id)
		if c == nil {
			return 0, failed(`internalError: "failed to delete container" (cause: "notFound: "container with ID %s not found"")`, id)
		}
		if state, _ := c.current(); state == running && !i.has("--force") {
			return 0, failed(`internalError: "failed to delete container" (cause: "invalidState: "container %s is running and can not be deleted"")`, id)
		}
		if err := s.remove(c); err != nil {
			return 0, err
		}
		fmt.Fprintln(i.stdout, id)
	}
	return 0, nil
}

func (s *Service) remove(c *container) error {
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.halt()
	return c.env.Destroy(context.WithoutCancel(s.ctx))
}

// Vanish deletes a container, as if somebody else had.
func (s *Service) Vanish(id string) {
	if c := s.container(id); c != nil {
		_ = s.remove(c) // the provider's own tests say whether it can
	}
}

// Crash ends a container's processes, as if its machine had failed. It stays, stopped.
func (s *Service) Crash(id string) {
	if c := s.container(id); c != nil {
		c.halt()
	}
}

// BreakExecs ends the execs of a container that run now, and not what they started.
func (s *Service) BreakExecs(id string) {
	if c := s.container(id); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, cut := range c.cuts {
			cut()
		}
		c.cuts = nil
	}
}

// stopContainers stops containers. Their files stay.
func (s *Service) stopContainers(i *invocation) (int, error) {
	for _, id := range i.args {
		c := s.container(id)
		if c == nil {
			return 0, failed(`internalError: "failed to stop container" (cause: "notFound: "container with ID %s not found"")`, id)
		}
		c.halt()
		fmt.Fprintln(i.stdout, id)
	}
	return 0, nil
}

// list prints containers. Source: Sources/ContainerResource/Container/ManagedContainer.swift and
// ContainerConfiguration.swift.
func (s *Service) list(i *invocation) (int, error) {
	if i.last("--format") != "json" {
		return 0, errors.New("this stand-in only prints JSON")
	}
	lag := s.fault().Lag
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []map[string]any{}
	for _, id := range s.order {
		c := s.containers[id]
		state, gone := c.current()
		if lag {
			state, gone = running, false
		}
		if gone || state != running && !i.has("--all") {
			continue
		}
		list = append(list, map[string]any{
			"id": id,
			"configuration": map[string]any{
				"id": id, "labels": c.labels, "image": map[string]any{"reference": c.image}, "runtimeHandler": "container-runtime-linux",
				"networks": []any{}, "mounts": []any{}, "rosetta": false, "platform": map[string]string{"os": "linux", "architecture": architecture},
			},
			"status": map[string]any{"state": state, "networks": []any{}},
		})
	}
	return 0, json.NewEncoder(i.stdout).Encode(list)
}
