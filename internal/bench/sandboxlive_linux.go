package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/org/rollout-action/internal/environment"
)

const (
	// commands is the least number of commands to time.
	commands = 60
	// alive is how many sandboxes are alive at the same time.
	alive = 100
)

// sandboxExec measures a command in an existing sandbox.
func (b *bench) sandboxExec(ctx context.Context, ours *onSandbox, _ *unboxed) (err error) {
	env, err := ours.create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Destroy(context.WithoutCancel(ctx))) }()
	values, err := turns(ctx, 5, max(b.rounds, commands),
		timed(func(ctx context.Context) error {
			code, err := env.Exec(ctx, "true", environment.ExecOptions{Stdout: io.Discard, Stderr: io.Discard})
			if err == nil && code != 0 {
				err = fmt.Errorf("true ended with %d", code)
			}
			return err
		}),
		process("bash", "-c", "true"))
	if err != nil {
		return err
	}
	b.add(newResult("sandbox.exec", "ms",
		series{"a script that does nothing, in a live sandbox", values[0]},
		series{"bash -c true as a process", values[1]},
		atMost("ours", 3)))
	return nil
}

// sandboxCreate measures many sandboxes at the same time: the time to create them, and their memory.
func (b *bench) sandboxCreate(ctx context.Context, ours *onSandbox, _ *unboxed) error {
	blocks := b.fewer(5, 3)
	b.logf("sandbox: %d times %d sandboxes, and bare processes in namespaces, in turn", blocks, alive)
	var memory, bareMemory []float64
	values, err := turns(ctx, 1, blocks, many(&memory, alive, ours.ender), many(&bareMemory, alive, namespaced))
	if err != nil {
		return err
	}
	const line = "cat in namespaces of its own, without a file system"
	b.add(
		newResult("sandbox.create", "ms",
			series{fmt.Sprintf("%d sandboxes created by %d workers", alive, sandboxWorkers), values[0]},
			series{fmt.Sprintf("%d times %s", alive, line), values[1]},
			atMost("ours", 2000)),
		newResult("sandbox.memory", "MB",
			series{fmt.Sprintf("an idle sandbox, one of %d (PSS)", alive), memory[1:]}, // the first is a warm-up
			series{line + " (PSS)", bareMemory[1:]},
			atMost("ours", 5)))
	return nil
}

// many measures the time to create n things that are alive together, appends the memory of each, in millions of bytes, and ends
// them.
func many(memory *[]float64, n int, create func(context.Context) (end func() error, err error)) measured {
	return func(ctx context.Context) (_ float64, err error) {
		ends := make([]func() error, n)
		defer func() {
			ended := each(context.WithoutCancel(ctx), n, func(_ context.Context, i int) error {
				if ends[i] == nil {
					return nil
				}
				return ends[i]()
			})
			err = errors.Join(err, ended)
		}()
		took, err := timed(func(ctx context.Context) error {
			return each(ctx, n, func(ctx context.Context, i int) error {
				var err error
				ends[i], err = create(ctx)
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

func (o *onSandbox) ender(ctx context.Context) (func() error, error) {
	env, err := o.create(ctx)
	if err != nil {
		return nil, err
	}
	return func() error { return env.Destroy(context.WithoutCancel(ctx)) }, nil
}

// namespaced starts a minimal process in namespaces like a sandbox's.
func namespaced(ctx context.Context) (func() error, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(input.Close(), cmd.Wait()) }, nil
}

// descendantsMemory returns the proportional set size of all processes that descend from pid, in millions of bytes: a page that
// several processes share counts for each by its share. Source: proc(5), smaps_rollup.
func descendantsMemory(pid int) (float64, error) {
	parents, err := processParents()
	if err != nil {
		return 0, err
	}
	var total float64
	for child := range parents {
		if !descends(parents, child, pid) {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", child))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		var kib float64
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			return 0, fmt.Errorf("read Pss of process %d: %w", child, err)
		}
		total += kib * 1024 / 1e6
	}
	return total, nil
}

// descends reports whether a process has an ancestor.
func descends(parents map[int]int, pid, ancestor int) bool {
	for range parents { // a list made while processes end may have a loop
		parent, known := parents[pid]
		if !known || parent == ancestor {
			return known
		}
		pid = parent
	}
	return false
}

// processParents returns the parent of every process. Processes that end meanwhile are left out.
func processParents() (map[int]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name may contain anything; the parent is the second field after it.
		line := string(text)
		fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			return nil, fmt.Errorf("read the parent of process %d: %w", pid, err)
		}
	}
	return parents, nil
}
