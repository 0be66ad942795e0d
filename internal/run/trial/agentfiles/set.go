package agentfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/cache"
)

// Set holds the files of one agent. The zero value has none.
type Set struct {
	// Digest is "sha256:…" over the paths in the environment, the contents, and which files are
	// executable. Equal files have equal digests, independent of their location.
	Digest string
	Files  int   // number of files
	Bytes  int64 // of all files
	// Pointers lists the files for which task.MayBePointer is true.
	Pointers []string

	files map[string]file
	held  *cache.Dir // nil until Open, and without a cache
	dir   string     // the copies; "" until Open
	// failed is set if a file has changed, so that a copy elsewhere would fail, too.
	failed bool
}

// Entry is one entry of an agent's files, with the path of its source.
type Entry struct {
	agent.File
	Path string // absolute; of a glob, the directory that it begins in
}

// Load finds the files of an agent and reads them once. If an entry cannot be used, failed is its
// index; the error is a Problem, or that of a file that cannot be read.
func Load(ctx context.Context, entries []Entry) (set *Set, failed int, err error) {
	c := &collector{files: map[string]file{}, from: map[string]string{}}
	for i, e := range entries {
		if err := c.add(ctx, e.File, e.Path); err != nil {
			return nil, i, err
		}
		if len(c.pointers) > 0 {
			message, hint := task.PointersProblem(c.pointers)
			return nil, i, problem(hint, "these files are %s", message)
		}
	}
	if err := c.conflict(); err != nil {
		return nil, len(entries) - 1, err
	}
	set = &Set{Bytes: c.bytes, Pointers: c.alike, files: c.files}
	for _, f := range c.files {
		if !f.empty {
			set.Files++
		}
	}
	if len(c.files) > 0 {
		set.Digest = c.digest()
	}
	return set, 0, nil
}

// errNoCache means that there is no cache.
var errNoCache = errors.New("there is no cache")

// errChanged means that a file has changed since it was loaded.
var errChanged = errors.New("it has changed since it was read: start again")

// Open copies the files, so that all trials get the same ones even if the originals change. It may
// be called once. The copies are in the cache, which may have them already; if it is nil or cannot
// be written, they are in a temporary directory.
func (s *Set) Open(ctx context.Context, store *cache.Cache) error {
	if s == nil || len(s.files) == 0 {
		return nil
	}
	err := s.openCached(ctx, store)
	if err == nil || ctx.Err() != nil || s.failed {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "rollout-agent-"); err != nil {
		return err
	}
	if err := s.write(ctx, filepath.Join(s.dir, partFiles)); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// openCached is Open with copies in the cache. If the cache is not the cause of an error, it sets
// s.failed.
func (s *Set) openCached(ctx context.Context, store *cache.Cache) error {
	if store == nil {
		return errNoCache
	}
	dir, err := store.Open(ctx, cache.Key{Kind: "agent", Text: s.Digest, About: fmt.Sprintf("files of an agent: %d", s.Files)})
	if err != nil {
		return err
	}
	err = dir.Fill(ctx, []string{partFiles}, func(ctx context.Context, draft string, _ []string) error {
		err := s.write(ctx, filepath.Join(draft, partFiles))
		s.failed = errors.Is(err, errChanged)
		return err
	})
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	s.held, s.dir = dir, dir.Path()
	return nil
}

// Sums returns a short digest of each file, by its absolute path in the environment: of its
// contents and whether it is executable. It returns nil if there are more than limit.
func (s *Set) Sums(limit int) map[string]string {
	if s == nil || s.Files == 0 || s.Files > limit {
		return nil
	}
	sums := make(map[string]string, s.Files)
	for name, f := range s.files {
		if f.empty {
			continue
		}
		sum := hex.EncodeToString(f.sum[:6])
		if f.executable {
			sum += "+x"
		}
		sums["/"+name] = sum
	}
	return sums
}

// ID returns the digest; "" without files.
func (s *Set) ID() string {
	if s == nil {
		return ""
	}
	return s.Digest
}

const partFiles = "files"

// Close allows the cache to remove the copies, or removes them.
func (s *Set) Close() error {
	switch {
	case s == nil || s.dir == "":
		return nil
	case s.held != nil:
		return s.held.Close()
	}
	return os.RemoveAll(s.dir)
}

// FS returns the files by their paths in the environment, after Open; nil if there are none.
func (s *Set) FS() fs.FS {
	if s == nil || s.dir == "" {
		return nil
	}
	return task.Tree(filepath.Join(s.dir, partFiles))
}

// write copies the files into a directory.
func (s *Set) write(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil { // the user owns the parent directory
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, f := range s.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.writeTo(root, filepath.FromSlash(name)); err != nil {
			return fmt.Errorf("copy %s: %w", filepath.Join(f.dir, filepath.FromSlash(f.name)), err)
		}
	}
	return openDirs(dir)
}

func (f file) writeTo(root *os.Root, name string) error {
	if f.empty {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	in, err := task.Tree(f.dir).Open(f.name)
	if err != nil {
		return err
	}
	defer in.Close()
	mode := fs.FileMode(0o644)
	if f.executable {
		mode = 0o755
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, f.size+1))
	if err == nil && !bytes.Equal(sum.Sum(nil), f.sum[:]) {
		err = errChanged
	}
	if err == nil {
		err = out.Chmod(mode) // whatever the umask
	}
	return errors.Join(err, out.Close())
}

// openDirs sets the mode that directories have in environments, independent of the umask.
func openDirs(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(name, 0o755) //nolint:gosec // see write
		}
		return err
	})
}
