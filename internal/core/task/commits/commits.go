package commits

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Finder finds the working trees that contain directories. It reads each repository once. The zero
// value is ready; it is safe for concurrent use.
//
// It reads the files of the repository instead of running git: this needs no process for each of
// thousands of tasks, works without git, ignores the configuration of untrusted repositories, and
// does not depend on GIT_DIR or on who owns the files. It runs git only for refs that are not
// stored in files.
type Finder struct {
	mu    sync.Mutex
	byDir map[string]func() Checkout
}

// Checkout is a working tree. The zero value means that there is none.
type Checkout struct {
	Top     string  // its root, absolute and without symbolic links
	Commit  *string // the commit of HEAD, or nil
	Objects string  // the directory of the repository's objects
}

// Around returns the working tree that contains the directory dir. It runs no command that the
// repository names.
func Around(dir string) Checkout {
	found, _ := new(Finder).Of(dir)
	return found
}

// Of returns the working tree that contains dir, and dir's path in it, with forward slashes. Both
// are empty if there is none.
func (c *Finder) Of(dir string) (repo Checkout, below string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Checkout{}, ""
	}
	repo = c.around(real)
	if repo.Top == "" {
		return repo, ""
	}
	below, err = filepath.Rel(repo.Top, real)
	if err != nil {
		return repo, ""
	}
	return repo, filepath.ToSlash(below)
}

func (c *Finder) around(dir string) Checkout {
	c.mu.Lock()
	find, known := c.byDir[dir]
	if !known {
		find = sync.OnceValue(func() Checkout {
			if gitDir, ok := gitDirIn(dir); ok {
				return Checkout{Top: dir, Commit: head(gitDir), Objects: filepath.Join(commonDir(gitDir), "objects")}
			}
			if parent := filepath.Dir(dir); parent != dir {
				return c.around(parent)
			}
			return Checkout{}
		})
		if c.byDir == nil {
			c.byDir = map[string]func() Checkout{}
		}
		c.byDir[dir] = find
	}
	c.mu.Unlock()
	return find()
}

// gitDirIn returns the git directory of the working tree with root dir. ok is false if dir is not
// the root of one.
// Source: gitrepository-layout(5).
func gitDirIn(dir string) (gitDir string, ok bool) {
	git := filepath.Join(dir, ".git")
	info, err := os.Stat(git)
	if err != nil {
		return "", false
	}
	if info.IsDir() {
		_, err := os.Lstat(filepath.Join(git, "HEAD"))
		return git, err == nil
	}
	// In worktrees and submodules, .git is a file with the path of the directory.
	target, ok := strings.CutPrefix(firstLine(git), "gitdir: ")
	if !ok {
		return "", false
	}
	return from(dir, target), true
}

// commonDir returns the directory that all worktrees of a repository share, with refs and objects.
func commonDir(gitDir string) string {
	if common := firstLine(filepath.Join(gitDir, "commondir")); common != "" {
		return from(gitDir, common)
	}
	return gitDir
}

// head returns the commit of HEAD, or nil.
func head(gitDir string) *string {
	refs := commonDir(gitDir)
	if info, err := os.Stat(filepath.Join(refs, "reftable")); err == nil && info.IsDir() {
		return askGit(gitDir)
	}
	value := firstLine(filepath.Join(gitDir, "HEAD"))
	for range 5 { // git's limit for symbolic refs
		ref, symbolic := strings.CutPrefix(value, "ref:")
		if !symbolic {
			return commitID(value)
		}
		ref = strings.TrimSpace(ref)
		if !filepath.IsLocal(ref) {
			return nil
		}
		if value = firstLine(filepath.Join(gitDir, ref)); value == "" {
			value = firstLine(filepath.Join(refs, ref))
		}
		if value == "" {
			value = packedRef(filepath.Join(refs, "packed-refs"), ref)
		}
	}
	return nil
}

// packedRef returns the commit of ref in a packed-refs file, or "".
func packedRef(path, ref string) string {
	f, err := openRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id, name, _ := strings.Cut(lines.Text(), " "); name == ref {
			return id
		}
	}
	return ""
}

// askGit runs git, for repositories whose refs are in the reftable format. With GIT_DIR set, git
// skips the search for the repository, and with it the check of its owner.
func askGit(gitDir string) *string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "--git-dir="+gitDir, "rev-parse", "--verify", "--quiet", "HEAD")
	cmd.Env = append(envWithoutGit(), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return commitID(strings.TrimSpace(string(out)))
}

// envWithoutGit returns our environment without the variables that point git to another repository,
// as they are set in hooks.
func envWithoutGit() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// commitID returns s if it is a SHA-1 or SHA-256 in hexadecimal, else nil.
func commitID(s string) *string {
	if raw, err := hex.DecodeString(s); err != nil || len(raw) != 20 && len(raw) != 32 {
		return nil
	}
	return &s
}

// firstLine returns the first line of a small file without surrounding white space, or "".
func firstLine(path string) string {
	f, err := openRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSpace(line)
}

// openRegular opens a regular file. It refuses files that would block or have no end, and links
// that lead out of the file's directory.
func openRegular(path string) (fs.File, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.Base(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	return f, nil
}

// from resolves target relative to dir.
func from(dir, target string) string {
	if filepath.IsAbs(target) {
		return target
	}
	return filepath.Join(dir, target)
}
