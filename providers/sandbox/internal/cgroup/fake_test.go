package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// fakeKernel simulates the kernel's groups in directories, with the rules that matter here. Version
// 1 hierarchies have the files of split, version 2 those of the controllers that the parent
// enabled.
type fakeKernel struct {
	kernelFiles
	mu      sync.Mutex
	split   map[string][]string // by mount point
	unified string              // mount point; "" is: none
	refuse  func(op, path string) error
	before  func(op, path string) // may call the kernel itself
}

// unifiedFiles lists the files of a version 2 controller.
var unifiedFiles = map[string][]string{
	"cpu": {"cpu.max"}, "memory": {"memory.max", "memory.swap.max", "memory.events"}, "pids": {"pids.max"},
}

var splitFiles = map[string][]string{
	"cpu":    {"cpu.cfs_period_us", "cpu.cfs_quota_us"},
	"memory": {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"},
	"pids":   {"pids.max"},
}

func (k *fakeKernel) enter(op, path string) (leave func(), err error) {
	if k.before != nil {
		k.before(op, path)
	}
	k.mu.Lock()
	if k.refuse != nil {
		if err := k.refuse(op, path); err != nil {
			k.mu.Unlock()
			return nil, &fs.PathError{Op: op, Path: path, Err: err}
		}
	}
	return k.mu.Unlock, nil
}

func (k *fakeKernel) mkdir(dir string) error {
	leave, err := k.enter("mkdir", dir)
	if err != nil {
		return err
	}
	defer leave()
	return k.make(dir)
}

func (k *fakeKernel) make(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if k.isUnified(dir) {
		enabled := readWords(k.kernelFiles, filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"))
		put(dir, "cgroup.type", "domain")
		put(dir, "cgroup.controllers", strings.Join(enabled, " "))
		put(dir, "cgroup.subtree_control", "")
		for _, c := range enabled {
			putAll(dir, unifiedFiles[c])
		}
	} else {
		for point, files := range k.split {
			if strings.HasPrefix(dir, point+"/") {
				putAll(dir, files)
			}
		}
	}
	put(dir, "cgroup.procs", "")
	return nil
}

func (k *fakeKernel) isUnified(dir string) bool {
	return k.unified != "" && strings.HasPrefix(dir, k.unified)
}

func (k *fakeKernel) rmdir(dir string) error {
	leave, err := k.enter("rmdir", dir)
	if err != nil {
		return err
	}
	defer leave()
	names, err := k.kernelFiles.list(dir)
	if err != nil {
		return err
	}
	if len(names) > 0 || len(readWords(k.kernelFiles, filepath.Join(dir, "cgroup.procs"))) > 0 {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: syscall.EBUSY}
	}
	return os.RemoveAll(dir)
}

func (k *fakeKernel) read(file string) (string, error) {
	leave, err := k.enter("read", file)
	if err != nil {
		return "", err
	}
	defer leave()
	return k.kernelFiles.read(file)
}

func (k *fakeKernel) write(file, value string) error {
	leave, err := k.enter("write", file)
	if err != nil {
		return err
	}
	defer leave()
	dir := filepath.Dir(file)
	if _, err := os.Stat(file); err != nil {
		return err
	}
	switch filepath.Base(file) {
	case "cgroup.subtree_control":
		return k.control(dir, value)
	case "cgroup.procs":
		return k.move(dir, value)
	}
	return k.kernelFiles.write(file, value)
}

// control enables a controller for the children of dir.
func (k *fakeKernel) control(dir, value string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	name := strings.TrimPrefix(value, "+")
	switch {
	case !slices.Contains(readWords(k.kernelFiles, filepath.Join(dir, "cgroup.controllers")), name):
		return &fs.PathError{Op: "write", Path: file, Err: syscall.ENOENT}
	case dir != k.unified && len(readWords(k.kernelFiles, filepath.Join(dir, "cgroup.procs"))) > 0:
		return &fs.PathError{Op: "write", Path: file, Err: syscall.EBUSY}
	}
	put(dir, "cgroup.subtree_control", strings.Join(append(readWords(k.kernelFiles, file), name), " "))
	children, _ := k.kernelFiles.list(dir)
	for _, child := range children {
		child = filepath.Join(dir, child)
		available := append(readWords(k.kernelFiles, filepath.Join(child, "cgroup.controllers")), name)
		put(child, "cgroup.controllers", strings.Join(available, " "))
		putAll(child, unifiedFiles[name])
	}
	return nil
}

// move takes a process out of every group of the hierarchy and puts it into dir.
func (k *fakeKernel) move(dir, pid string) error {
	top := k.unified
	for point := range k.split {
		if dir == point || strings.HasPrefix(dir, point+"/") {
			top = point
		}
	}
	if k.isUnified(dir) && dir != k.unified && len(readWords(k.kernelFiles, filepath.Join(dir, "cgroup.subtree_control"))) > 0 {
		return &fs.PathError{Op: "write", Path: dir, Err: syscall.EBUSY}
	}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "cgroup.procs" {
			stay := slices.DeleteFunc(readWords(k.kernelFiles, path), func(p string) bool { return p == pid })
			put(filepath.Dir(path), "cgroup.procs", strings.Join(stay, "\n"))
		}
		return err
	})
	put(dir, "cgroup.procs", strings.Join(append(readWords(k.kernelFiles, filepath.Join(dir, "cgroup.procs")), pid), "\n"))
	return err
}

func put(dir, file, text string) {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
		panic(err)
	}
}

func putAll(dir string, files []string) {
	for _, f := range files {
		put(dir, f, "")
	}
}

// machine is a fake kernel with its mounts, and a process on it.
type machine struct {
	t      *testing.T
	kernel *fakeKernel
	mounts []mount
	self   process
}

func newMachine(t *testing.T) *machine {
	k := &fakeKernel{split: make(map[string][]string)}
	return &machine{t: t, kernel: k, self: process{pid: 42, root: true, own: make(map[string]string)}}
}

// splitMount mounts version 1 controllers at one point.
func (m *machine) splitMount(controllers ...string) string {
	point := filepath.Join(m.t.TempDir(), strings.Join(controllers, ","))
	var files []string
	for _, c := range controllers {
		files = append(files, splitFiles[c]...)
		m.self.own[c] = "/"
	}
	m.kernel.split[point] = files
	m.must(os.Mkdir(point, 0o755))
	put(point, "cgroup.procs", "42")
	m.mounts = append(m.mounts, mount{root: "/", point: point, controllers: append([]string{"rw"}, controllers...)})
	return point
}

// unifiedMount mounts version 2, with other processes at its root.
func (m *machine) unifiedMount(controllers ...string) string {
	point := filepath.Join(m.t.TempDir(), "unified")
	m.kernel.unified = point
	m.must(os.Mkdir(point, 0o755))
	put(point, "cgroup.controllers", strings.Join(controllers, " "))
	put(point, "cgroup.subtree_control", "")
	put(point, "cgroup.procs", "1\n42")
	m.self.own[""] = "/"
	m.mounts = append(m.mounts, mount{root: "/", point: point, unified: true})
	return point
}

// delegate gives the process a separate group, the only one it may write to. others are further
// processes in it.
func (m *machine) delegate(others ...string) string {
	m.self.root = false
	for _, c := range []string{"cpu", "memory", "pids"} {
		m.must(m.kernel.control(m.kernel.unified, "+"+c))
	}
	own := filepath.Join(m.kernel.unified, "user.scope")
	m.must(m.kernel.make(own))
	for _, pid := range append(others, "42") {
		m.must(m.kernel.move(own, pid))
	}
	m.self.own[""] = "/user.scope"
	m.kernel.refuse = func(op, path string) error {
		if strings.HasPrefix(path, own+"/") {
			return nil
		}
		return syscall.EACCES
	}
	return own
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) open() *Tree { return open(m.kernel, "rollout", m.mounts, m.self) }

// contents returns the content of file, or "absent".
func contents(file string) string {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	return string(data)
}

func (m *machine) want(file, text string) {
	m.t.Helper()
	if got := contents(file); got != text {
		m.t.Errorf("%s: %q, want %q", file, got, text)
	}
}
