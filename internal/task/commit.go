package task

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
	"time"
)

// commits finds the commits of the repositories that tasks are in, each once.
//
// It reads the repository's files itself. That needs no process for each of thousands of tasks and
// no git at all, obeys no configuration of a stranger's repository, and is not misled by GIT_DIR and
// its like or by who owns the files. Only for refs that are not kept in files is git asked.
type commits struct {
	mu    sync.Mutex
	byDir map[string]func() repository
}

// repository is a working tree. The zero value is none.
type repository struct {
	top     string  // its root, without symbolic links
	commit  *string // what HEAD stands for
	objects string  // the directory of its objects
}

// of is the repository around dir, and dir's path below its top; both are empty if there is none.
func (c *commits) of(dir string) (repo repository, below string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return repository{}, ""
	}
	repo = c.around(real)
	if repo.top == "" {
		return repo, ""
	}
	below, err = filepath.Rel(repo.top, real)
	if err != nil {
		return repo, ""
	}
	return repo, filepath.ToSlash(below)
}

func (c *commits) around(dir string) repository {
	c.mu.Lock()
	find, known := c.byDir[dir]
	if !known {
		find = sync.OnceValue(func() repository {
			if gitDir, ok := gitDirIn(dir); ok {
				return repository{top: dir, commit: head(gitDir), objects: filepath.Join(commonDir(gitDir), "objects")}
			}
			if parent := filepath.Dir(dir); parent != dir {
				return c.around(parent)
			}
			return repository{}
		})
		if c.byDir == nil {
			c.byDir = map[string]func() repository{}
		}
		c.byDir[dir] = find
	}
	c.mu.Unlock()
	return find()
}

// gitDirIn is the git directory of the working tree whose root is dir; !ok means that dir is none.
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
	// Worktrees and submodules have a file that names the directory.
	target, ok := strings.CutPrefix(firstLine(git), "gitdir: ")
	if !ok {
		return "", false
	}
	return from(dir, target), true
}

// commonDir is where a repository keeps what all its worktrees share: refs and objects.
func commonDir(gitDir string) string {
	if common := firstLine(filepath.Join(gitDir, "commondir")); common != "" {
		return from(gitDir, common)
	}
	return gitDir
}

// head is the commit of HEAD, or nil.
func head(gitDir string) *string {
	refs := commonDir(gitDir)
	if info, err := os.Stat(filepath.Join(refs, "reftable")); err == nil && info.IsDir() {
		return askGit(gitDir)
	}
	value := firstLine(filepath.Join(gitDir, "HEAD"))
	for range 5 { // git's limit for refs that name refs
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

// packedRef is the commit of ref in a packed-refs file, or "".
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

// askGit is for repositories whose refs are in git's newer binary format. Naming the directory spares git
// the search, and with it the refusal of a repository that belongs to another user.
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

// envWithoutGit is our environment without what would point git to another repository, as it is in
// hooks.
func envWithoutGit() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// commitID is s if it is a SHA-1 or SHA-256 in hexadecimal, else nil.
func commitID(s string) *string {
	if raw, err := hex.DecodeString(s); err != nil || len(raw) != 20 && len(raw) != 32 {
		return nil
	}
	return &s
}

// firstLine is the first line of a small file, without white space around it, or "".
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

// openRegular opens a file, and nothing that would block or has no end.
func openRegular(path string) (fs.File, error) {
	f, err := Tree(filepath.Dir(path)).Open(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		f.Close()
		return nil, errors.Join(err, errNotRegular)
	}
	return f, nil
}

// from is target as seen from dir.
func from(dir, target string) string {
	if filepath.IsAbs(target) {
		return target
	}
	return filepath.Join(dir, target)
}
