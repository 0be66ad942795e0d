//go:build linux

package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/sandbox/internal/cgroup"
)

// store is the folder of one mode's layers, images and environments. Everything in it is written whole or not at
// all, so that many processes can share it.
//
//	l/ID/PART/      a layer: what it changes, in overlayfs's form, for each part of the root file system
//	bases/KEY/      what stands in for an image: see hostBase
//	images/ID.json  what references stand for
//	env/ID/         an environment; see environments.go
//	tmp/            half-made things, each with the lock of its maker
//	locks/
type store struct {
	dir  string
	mode mode
}

// lockPoll is how often a lock that another process holds is asked for.
const lockPoll = 5 * time.Millisecond

func openStore(dir string, m mode) (*store, error) {
	s := &store{dir: filepath.Join(dir, string(m)), mode: m}
	for _, sub := range []string{"l", "bases", "images", "env", "tmp", "locks"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	// What is shown of this machine is told from the store by its path.
	var err error
	if s.dir, err = filepath.EvalSymlinks(s.dir); err != nil {
		return nil, err
	}
	return s, ours(s.dir)
}

// errForeign: others can change the store.
var errForeign = errors.New("it can be changed by other users, and with it what sandboxes run")

// ours sees that nobody else has put anything into the store's folder. Where everybody may make folders, one of its name may
// be there before, or one on the way to it.
func ours(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(stat.Uid) != os.Geteuid() || info.Mode()&0o002 != 0 || !info.IsDir() {
			return fmt.Errorf("%s: %w", at, errForeign)
		}
		if !environment.Within(dir, forAll) || filepath.Dir(at) == forAll {
			return nil
		}
	}
}

// forAll is where a store is when the user's cache folder cannot have it.
const forAll = "/var/tmp"

func (s *store) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

// lock keeps other goroutines and processes from making the same thing at the same time.
func (s *store) lock(ctx context.Context, name string) (unlock func(), err error) {
	held := flock.New(s.path("locks", name))
	if _, err := held.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { _ = held.Unlock() }, nil
}

// draft is a folder for something half-made. Its lock says that its maker lives.
type draft struct {
	dir  string
	lock *flock.Flock
	s    *store
}

func (s *store) draft() (*draft, error) {
	for {
		id := newID()
		d := &draft{dir: s.path("tmp", id), lock: flock.New(s.path("tmp", id+".lock")), s: s}
		locked, err := d.lock.TryLock()
		if err != nil {
			return nil, err
		}
		if !locked || !exists(d.lock.Path()) {
			_ = d.lock.Unlock()
			continue // a sweep came between making the file and locking it, and removes it
		}
		if err := os.Mkdir(d.dir, 0o700); err != nil {
			d.discard()
			return nil, err
		}
		return d, nil
	}
}

// discard removes what is left of the draft.
func (d *draft) discard() {
	_ = d.s.mode.removeAll(d.dir)
	_ = os.Remove(d.lock.Path())
	_ = d.lock.Unlock()
}

// sweepDrafts removes what makers that were killed left behind. A draft without a lock has no maker any more, for
// the lock is the first of it that is made and the last that is removed.
func (s *store) sweepDrafts() {
	entries, _ := os.ReadDir(s.path("tmp"))
	for _, entry := range entries {
		path := s.path("tmp", strings.TrimSuffix(entry.Name(), ".lock"))
		// A lock is never made here: its maker tells by its name whether it still is the draft's.
		lock := flock.New(path+".lock", flock.SetFlag(os.O_RDONLY))
		free, err := lock.TryLock()
		if free || errors.Is(err, fs.ErrNotExist) {
			(&draft{dir: path, lock: lock, s: s}).discard()
		}
	}
}

// publish moves a finished folder to its place, where nothing may be.
func (s *store) publish(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return fmt.Errorf("%s is there already: %w", to, err)
}

// group is the name of an environment's control group. Stores share the groups of a machine, so that it has the
// store in it.
func (s *store) group(id string) string { return digest(s.dir)[:8] + "-" + id }

// sweepGroups removes the control groups of this store's environments that are gone.
func (s *store) sweepGroups(groups *cgroup.Tree) {
	prefix := s.group("")
	_ = groups.Sweep(func(group string) bool { // what still ends is left to the next sweep
		id, ours := strings.CutPrefix(group, prefix)
		return !ours || exists(s.path("env", id))
	})
}

// newID names something that nothing else has the name of.
func newID() string { return strings.ToLower(rand.Text()[:12]) }

// digest names content: 24 hexadecimal digits of its hash. Short, for the paths of all layers of a root file
// system have to fit on one page (see wire.Setup).
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// record writes a file of the store, whole or not at all.
func (s *store) record(path string, value any) error {
	d, err := s.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	temp := filepath.Join(d.dir, "record")
	if err := writeJSON(temp, value); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func readJSON(path string, value any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, value)
}

// syncLayer brings a finished layer to the disk, so that none is there by half after a power cut.
func syncLayer(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// storeDirs are the folders that may hold the store, the best first.
func storeDirs(c config) []string {
	if c.dir != "" {
		dir, err := filepath.Abs(c.dir)
		if err != nil {
			return nil
		}
		return []string{dir}
	}
	var dirs []string
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "rollout", "sandbox"))
	}
	return append(dirs, fmt.Sprintf("%s/rollout-%d/sandbox", forAll, os.Geteuid()))
}
