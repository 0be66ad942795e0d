//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/providers/internal/initclient"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/sandbox/internal/cgroup"
)

// sandboxEnv implements environment.Environment.
type sandboxEnv struct {
	p          *Provider
	id         string
	kept       string // the environment whose files this one starts with; "": none
	process    *sandboxProcess
	img        *image
	env        map[string]string
	pids       int64 // limit of processes
	perUser    int64 // the same, if it applies to each user; 0: the group enforces it
	group      *cgroup.Group
	unenforced []string
	network    networking
	entrypoint entrypointProcess

	mu      sync.Mutex
	removed bool
}

var _ environment.Environment = (*sandboxEnv)(nil)

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkLimits(opts.Limits); err != nil {
		return nil, err
	}
	img, err := p.image(ctx, opts.Image, nil)
	if err == nil {
		err = environment.CheckVolumes(img.Volumes)
	}
	if err != nil {
		return nil, err
	}
	return p.begin(ctx, &sandboxEnv{p: p, id: newID(), img: img, env: opts.Env}, opts)
}

// begin creates an environment. If it fails, it cleans up.
func (p *Provider) begin(ctx context.Context, e *sandboxEnv, opts environment.CreateOptions) (environment.Environment, error) {
	if err := e.create(ctx, opts); err != nil {
		cleanup, cancel := awake.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
		defer cancel()
		if destroying := e.Destroy(cleanup); destroying != nil {
			err = errors.Join(err, destroying)
		}
		return nil, err
	}
	return e, nil
}

// destroyTimeout bounds the removal of an environment that could not be created.
const destroyTimeout = 30 * time.Second

func (e *sandboxEnv) create(ctx context.Context, opts environment.CreateOptions) error {
	dir := e.dir()
	err := e.writeMeta(opts)
	if err != nil {
		return startFailed(ctx, err)
	}
	if err := e.p.checkNetwork(opts.Network); err != nil {
		return err
	}
	setup, err := e.p.setup(e.img, dir, e.p.mountOptions(opts.Limits))
	if err != nil {
		return startFailed(ctx, err)
	}
	e.continueWith(e.kept, setup.Mounts)
	setup.WorkDir, setup.Dirs, setup.Account = e.img.WorkDir, e.img.Volumes, e.img.User
	setup.Needs, setup.Env = "bash", environ(e.img.Env, opts.Env)
	if err := e.limit(opts.Limits); err != nil {
		return &environment.Error{Kind: environment.KindResources, Err: fmt.Errorf("limit a sandbox: %w", err)}
	}
	if err := e.launch(ctx, setup); err != nil {
		if missing := e.p.store.complete(e.img); missing != nil && ctx.Err() == nil {
			e.p.resolved.forget(opts.Image)
			err = fmt.Errorf("%s: %w: %w", opts.Image, environment.ErrNoImage, missing)
		}
		return startFailed(ctx, err)
	}
	if err := e.SetNetwork(ctx, opts.Network); err != nil {
		return err
	}
	if len(opts.Files) > 0 {
		if err := e.CopyTo(ctx, opts.Files...); err != nil {
			return err
		}
	}
	return e.runEntrypoint(ctx)
}

func (e *sandboxEnv) launch(ctx context.Context, setup initwire.Setup) error {
	tasks, err := e.group.OpenTasks()
	if err != nil {
		return err
	}
	defer func() {
		for _, file := range tasks {
			file.Close()
		}
	}()
	whole := false // process 1 is in the group, too
	e.process, err = launch(ctx, e.p.store.mode, setup, func(pid int) error {
		var err error
		whole, err = e.group.AddUnified(pid)
		return errors.Join(writeProcess(filepath.Join(e.dir(), "init"), pid), err)
	}, tasks...)
	if err != nil {
		return err
	}
	go func() { // for any cause of the end
		<-e.process.Ended()
		e.network.close()
	}()
	own := threads(e.process.cmd.Process.Pid)
	if e.perUser > 0 {
		e.perUser = e.pids + own // process 1 counts as well, but only commands are limited
	}
	if !whole {
		return nil
	}
	const more = 3 // reserve of threads that process 1 may still need
	return e.group.SetPids(e.pids + own + more)
}

// threads returns the number of a process's threads.
func threads(pid int) int64 {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return initThreads
	}
	return int64(len(tasks))
}

func (e *sandboxEnv) dir() string { return e.p.store.path("env", e.id) }

// writeMeta creates the environment's directory, with the labels in it from the start.
func (e *sandboxEnv) writeMeta(opts environment.CreateOptions) error {
	d, err := e.p.store.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	m := meta{Labels: opts.Labels.Map(), Base: e.img.Base, Layers: e.p.layersOf(e.img), Image: recordName(opts.Image), Kept: e.kept}
	if e.img.Host != nil {
		m.Host = e.img.Host.Key
	}
	if err := writeJSON(filepath.Join(d.dir, "meta.json"), m); err != nil {
		return err
	}
	return os.Rename(d.dir, e.dir())
}

// initThreads bounds the threads that process 1 may need. They are added to the limit where process
// 1 counts against it.
const initThreads = 24

// limit creates the control group and records the limits that it cannot apply.
func (e *sandboxEnv) limit(l environment.Limits) error {
	pids := l.Pids
	if pids == 0 {
		pids = e.p.config.pidsLimit
	}
	group, unenforced, err := e.p.groups.New(e.p.store.group(e.id), cgroup.Limits{MilliCPUs: l.MilliCPUs, Memory: l.Memory, Pids: pids})
	if err != nil {
		return err
	}
	e.group, e.pids = group, pids
	for _, name := range unenforced {
		// Before Linux 5.14 it would count all processes of this user.
		if name == cgroup.Pids && e.p.store.mode.usesUserNamespace() && !kernelBefore(5, 14) {
			e.perUser = pids // the kernel counts the processes in the user namespace
			continue
		}
		if name != cgroup.Pids || l.Pids > 0 || e.p.config.askedPids {
			e.unenforced = append(e.unenforced, name)
		}
	}
	if l.Storage > 0 && !e.p.memory {
		e.unenforced = append(e.unenforced, "storage")
	}
	slices.Sort(e.unenforced)
	return nil
}

// ID implements environment.Environment.
func (e *sandboxEnv) ID() string { return e.id }

// Cost implements environment.Environment. This machine costs nothing extra.
func (e *sandboxEnv) Cost() float64 { return 0 }

// Unenforced implements environment.LimitReporter.
func (e *sandboxEnv) Unenforced() []string { return slices.Clone(e.unenforced) }

// OOMKills implements environment.MemoryReporter.
func (e *sandboxEnv) OOMKills(context.Context) int {
	kills, _ := e.group.OOMKills() // 0 if unknown
	return kills
}

// Processes implements environment.ProcessReporter.
func (e *sandboxEnv) Processes(context.Context) (n, limit int64) {
	if e.perUser > 0 {
		return processesWith(e.process.cmd.Process.Pid), e.perUser
	}
	n, limit, _ = e.group.Processes() // 0, 0 if unknown
	return n, limit
}

// processesWith returns the number of threads in the process-id namespace of a process; 0 if
// unknown.
func processesWith(pid int) (n int64) {
	namespace := func(pid string) string {
		name, _ := os.Readlink("/proc/" + pid + "/ns/pid")
		return name
	}
	own := namespace(strconv.Itoa(pid))
	all, _ := os.ReadDir("/proc")
	for _, p := range all {
		if id, err := strconv.Atoi(p.Name()); err == nil && own != "" && namespace(p.Name()) == own {
			tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", id))
			n += int64(len(tasks))
		}
	}
	return n
}

// Base implements environment.BaseReporter.
func (e *sandboxEnv) Base() *environment.Base { return e.img.Base }

// Stop implements environment.Environment.
func (e *sandboxEnv) Stop(ctx context.Context) error {
	err := os.WriteFile(filepath.Join(e.dir(), "kept"), nil, 0o600)
	e.process.End()
	e.network.close()
	if err := errors.Join(err, e.group.Remove(ctx)); err != nil {
		return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("stop the sandbox: %w", err)}
	}
	return nil
}

// Destroy implements environment.Environment.
func (e *sandboxEnv) Destroy(ctx context.Context) error {
	if e.process != nil {
		e.process.End()
	}
	e.network.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.removed {
		return nil
	}
	var errs []error
	if e.group != nil {
		errs = append(errs, e.group.Remove(ctx))
	}
	if err := errors.Join(append(errs, e.p.store.remove(ctx, e.id))...); err != nil {
		return &environment.Error{Kind: environment.KindTeardown, Err: fmt.Errorf("remove sandbox %s: %w", e.id, err)}
	}
	e.removed = true
	return nil
}

// CopyTo implements environment.Environment.
func (e *sandboxEnv) CopyTo(ctx context.Context, files ...environment.Copy) error {
	if len(files) == 0 {
		return nil
	}
	replace := slices.ContainsFunc(files, func(c environment.Copy) bool { return c.Clean })
	reading, err := e.process.Put(ctx, replace, func(w io.Writer) error { return environment.Pack(w, files...) })
	if reading != nil {
		return &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy into the sandbox: %w", reading)}
	}
	return e.requestFailed(ctx, environment.KindCopy, "copy into the sandbox", err)
}

// CopyFrom implements environment.Environment.
func (e *sandboxEnv) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	if _, err := os.Stat(dst); err != nil {
		return environment.Extracted{}, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy out of the sandbox: %w", err)}
	}
	name := path.Base(path.Clean("/" + src))
	strip := name
	if name == "/" {
		name, strip = "", ""
	}
	var out environment.Extracted
	extracting, err := e.process.Get(ctx, initwire.Request{Op: initwire.Pack, Path: path.Clean("/" + src), Prefix: name, Plain: true, Itself: true}, func(r io.Reader) error {
		var err error
		out, err = environment.Extract(r, dst, strip, opts)
		return err
	})
	// The reader's own error is the cause if it kept the sandbox from writing. If the stream ended
	// early, the cause is the sandbox's error.
	if extracting != nil && (err == nil || !errors.Is(extracting, io.ErrUnexpectedEOF)) {
		return out, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy %s out of the sandbox: %w", src, extracting)}
	}
	return out, e.requestFailed(ctx, environment.KindCopy, "copy "+src+" out of the sandbox", err)
}

// requestFailed returns the environment.Error for the error of a request to the sandbox. It returns
// nil if err is nil.
func (e *sandboxEnv) requestFailed(ctx context.Context, kind environment.Kind, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.Is(err, initclient.ErrGone) || !e.process.Running():
		return e.lost(doing)
	}
	return &environment.Error{Kind: kind, Err: fmt.Errorf("%s: %w", doing, err)}
}

// lost returns the error of an environment that has ended.
func (e *sandboxEnv) lost(doing string) error {
	err := fmt.Errorf("%s: %w", doing, initclient.ErrGone)
	if text := e.process.Stderr.String(); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	kind := environment.KindLost
	if e.OOMKills(context.Background()) > 0 {
		err = fmt.Errorf("%w: %w", err, environment.ErrOutOfMemory)
		if e.entrypoint.done != nil && !e.entrypoint.ran.Load() {
			kind = environment.KindStart // the kernel ended process 1 with the ENTRYPOINT, before any command ran
		}
	}
	if failure := e.entrypointError(); failure != nil {
		return failure
	}
	return &environment.Error{Kind: kind, Err: err}
}

// hintAtUser is the hint for an image that lacks its USER.
const hintAtUser = "the image's USER must be in its /etc/passwd, and the group in its /etc/group"

// startFailed returns the environment.Error for a sandbox that could not be created. It returns nil
// if err is nil.
func startFailed(ctx context.Context, err error) error {
	switch known := new(environment.Error); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("make a sandbox: %w", ctx.Err())
	case errors.As(err, &known):
		return err
	}
	e := &environment.Error{
		Kind: environment.KindStart, Err: fmt.Errorf("make a sandbox: %w", err),
		Hint: "make sure that the directory for sandboxes is writable and has free space: environment.provider_config.dir, or the user's cache directory",
	}
	setup := new(initclient.SetupError)
	switch {
	case errors.As(err, &setup) && setup.WorkDir:
		e.Hint = "the image's WORKDIR must be a directory, or a path at which one can be created"
	case errors.As(err, &setup) && setup.Account:
		e.Hint = hintAtUser
	case errors.As(err, &setup) && setup.Lacking:
		e.Hint = "the image needs bash"
	}
	return e
}

// statFields returns the fields of a line of /proc/PID/stat, from the third one. The second field
// may contain spaces and parentheses.
func statFields(line string) []string {
	return strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
}
