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

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/sandbox/internal/cgroup"
)

// store is the directory with the layers, images and environments of one mode. Every entry is
// written atomically, so many processes can share it.
//
//	l/ID/PART/      a layer: its changes, in overlayfs's form, for each part of the root
//	                file system
//	bases/KEY/      stand-ins for images: see hostBase
//	images/ID.json  the images that references name
//	env/ID/         an environment; see environments.go
//	tmp/            unfinished things, each with the lock of its maker
//	locks/
type store struct {
	dir  string
	mode mode
}

// lockPoll is the interval between attempts to take a lock that another process holds.
const lockPoll = 5 * time.Millisecond

func openStore(dir string, m mode) (*store, error) {
	s := &store{dir: filepath.Join(dir, string(m)), mode: m}
	if err := checkLinks(s.dir); err != nil { // before creating anything behind them
		return nil, err
	}
	for _, sub := range []string{"l", "bases", "images", "env", "tmp", "locks"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	err := checkLinks(s.dir)
	if err != nil {
		return nil, err
	}
	// Paths of this machine are compared with the store's.
	if s.dir, err = filepath.EvalSymlinks(s.dir); err != nil {
		return nil, err
	}
	return s, checkOwner(s.dir)
}

// errForeign reports a store that other users can change.
var errForeign = errors.New("other users can change it, and so what sandboxes run")

// checkLinks returns an error if a path leads through a link that another user made in a
// world-writable directory. Missing elements are no error.
func checkLinks(dir string) error {
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if info.Mode()&fs.ModeSymlink == 0 || ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid()) {
			continue
		}
		parent, err := os.Stat(filepath.Dir(at))
		if err != nil {
			return err
		}
		if parent.Mode()&0o002 != 0 {
			return fmt.Errorf("%s is a link of another user: %w", at, errForeign)
		}
	}
	return nil
}

// checkOwner returns an error if other users could have put files into the store's directory: below
// a world-writable directory, another user may have created it or one of its parents first.
func checkOwner(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(stat.Uid) != os.Geteuid() || info.Mode()&0o002 != 0 || !info.IsDir() {
			return fmt.Errorf("%s: %w", at, errForeign)
		}
		if !environment.Within(dir, sharedTemp) || filepath.Dir(at) == sharedTemp {
			return nil
		}
	}
}

// sharedTemp is the parent directory of the store if the user's cache directory cannot hold it.
const sharedTemp = "/var/tmp"

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

// draft is a directory for unfinished work. Its lock shows that the process that made it is alive.
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
			continue // a sweep removed the file before it was locked
		}
		if err := os.Mkdir(d.dir, 0o700); err != nil {
			d.discard()
			return nil, err
		}
		return d, nil
	}
}

// discard removes the draft and the files still in it.
func (d *draft) discard() {
	_ = d.s.mode.removeAll(d.dir)
	_ = os.Remove(d.lock.Path())
	_ = d.lock.Unlock()
}

// sweepDrafts removes the drafts of processes that were killed. A draft without a lock has no
// owner: the lock is created first and removed last.
func (s *store) sweepDrafts() {
	entries, _ := os.ReadDir(s.path("tmp"))
	for _, entry := range entries {
		path := s.path("tmp", strings.TrimSuffix(entry.Name(), ".lock"))
		// This must not create the lock: its maker checks by name whether it is still the draft's.
		lock := flock.New(path+".lock", flock.SetFlag(os.O_RDONLY))
		free, err := lock.TryLock()
		if free || errors.Is(err, fs.ErrNotExist) {
			(&draft{dir: path, lock: lock, s: s}).discard()
		}
	}
}

// publish moves a finished directory to its place. It returns an error if that path exists.
func (s *store) publish(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return fmt.Errorf("%s is there already: %w", to, err)
}

// group returns the name of an environment's control group. It contains a digest of the store,
// because stores share the machine's groups.
func (s *store) group(id string) string { return digest(s.dir)[:8] + "-" + id }

// sweepGroups removes the control groups of this store's environments that no longer exist.
func (s *store) sweepGroups(groups *cgroup.Tree) {
	prefix := s.group("")
	_ = groups.Sweep(func(group string) bool { // the next sweep removes ending ones
		id, ours := strings.CutPrefix(group, prefix)
		return !ours || exists(s.path("env", id))
	})
}

// newID returns a new random name.
func newID() string { return strings.ToLower(rand.Text()[:12]) }

// digest returns a name for content: 24 hexadecimal digits of its hash. It is short because the
// paths of all layers of a root file system have to fit on one page (see initwire.Setup).
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// record writes a JSON file of the store atomically.
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

// syncLayer writes a finished layer to the disk, so that a power failure does not leave half of it.
func syncLayer(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// storeDirs returns the directories that may contain the store, the preferred one first.
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
	return append(dirs, fmt.Sprintf("%s/rollout-%d/sandbox", sharedTemp, os.Geteuid()))
}
