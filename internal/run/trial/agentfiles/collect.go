package agentfiles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/quantity"
)

// The limits for the files of one agent. They travel into every environment of the agent.
const (
	maxFiles = 20_000
	maxBytes = 256 << 20
	maxDepth = 100 // of directories; the target of a link counts where the link is
)

// Problem is a reason why the files of an entry cannot be used.
type Problem struct {
	Message, Hint string
	Missing       string // the path, as users write it, that does not exist; "" if this is not the problem
}

func (p *Problem) Error() string { return p.Message }

func problem(hint, format string, args ...any) error {
	return &Problem{Message: fmt.Sprintf(format, args...), Hint: hint}
}

// file is a file or an empty directory, by its path in the environment.
type file struct {
	dir        string // the directory that it was found in; links are followed inside of it
	name       string // in dir
	empty      bool   // an empty directory
	executable bool
	size       int64
	sum        [sha256.Size]byte
}

// collector finds the files of one agent.
type collector struct {
	files map[string]file // by path in the environment, without the leading slash
	from  map[string]string
	bytes int64
	// pointers lists the git-lfs pointers whose files git-lfs has not fetched.
	pointers []string
	// alike lists files that look like pointers, but are not known to be.
	alike []string
}

// source is one entry of the key files while its files are collected.
type source struct {
	*collector
	shown   string // dir as users write it, for messages
	dir     string // absolute; all files of the entry are below it
	tree    task.Tree
	target  string   // the directory in the environment that corresponds to dir, or to the file; without the leading slash
	pattern string   // for names in dir; "": all
	ignored *ignored // nil: no file is
	skipped int      // number of ignored directory entries
	matched bool
}

// add collects the files of one entry. at is the absolute path of its source, or of the directory
// in which its glob begins.
func (c *collector) add(ctx context.Context, entry agent.File, at string) error {
	shown, pattern := agent.SplitGlob(entry.Source)
	s := &source{collector: c, shown: shown, dir: at, pattern: pattern}
	if pattern != "" && !doublestar.ValidatePattern(pattern) {
		return problem("use *, ?, [a-z], {a,b} and **", "%q is not a valid glob", entry.Source)
	}
	s.target = strings.TrimPrefix(path.Clean(entry.PutAt()), "/")
	s.tree = task.Tree(filepath.Dir(s.dir))
	info, err := s.tree.Stat(filepath.Base(s.dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{Message: "there is no " + shown, Hint: "paths begin at the job file's directory", Missing: shown}
	case err != nil:
		return s.unreadable(".", err)
	case info.IsDir():
		return s.directory(ctx, entry)
	case pattern != "":
		return problem("", "%s is not a directory", shown)
	}
	target := s.target
	if strings.HasSuffix(entry.Target, "/") {
		target = path.Join(target, filepath.Base(s.dir))
	}
	s.dir, s.shown = filepath.Dir(s.dir), filepath.Dir(shown)
	return s.file(filepath.Base(at), target, info)
}

// directory collects the files of a directory that match the pattern.
func (s *source) directory(ctx context.Context, entry agent.File) error {
	s.tree = task.Tree(s.dir)
	if entry.Gitignore {
		var err error
		if s.ignored, err = ignoredIn(s.dir); err != nil {
			return err
		}
	}
	if err := s.walk(ctx, ".", nil); err != nil {
		return err
	}
	if s.matched {
		return nil
	}
	hint := ""
	if s.skipped > 0 {
		hint = "write gitignore: false to take them anyway"
	}
	switch {
	case s.pattern != "" && s.skipped > 0:
		return problem(hint, "nothing in %s matches %s but what .gitignore leaves out", s.shown, s.pattern)
	case s.pattern != "":
		return problem("the glob is compared with paths in that directory; ** stands for any directories", "nothing in %s matches %s", s.shown, s.pattern)
	case s.skipped > 0:
		return problem(hint, "%s has no files but those that .gitignore leaves out", s.shown)
	}
	return problem("", "%s is empty", s.shown)
}

// walk collects the content of the directory name. behind holds the directories that lead to it,
// without links.
func (s *source) walk(ctx context.Context, name string, behind []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		return s.unreadable(name, err)
	}
	if slices.Contains(behind, real) {
		return problem("", "%s is a link to a directory that contains it", s.at(name))
	}
	if behind = append(slices.Clip(behind), real); len(behind) > maxDepth {
		return problem("", "%s: there are more than %d directories in one another", s.at(name), maxDepth)
	}
	entries, err := fs.ReadDir(s.tree, name)
	if err != nil {
		return s.unreadable(name, err)
	}
	if s.ignored != nil {
		if err := s.ignored.read(s.tree, name); err != nil {
			return s.unreadable(path.Join(name, ignoreFile), err)
		}
	}
	if len(entries) == 0 && s.pattern == "" && name != "." {
		return s.put(path.Join(s.target, name), file{dir: s.dir, name: name, empty: true})
	}
	for _, e := range entries {
		if err := s.entry(ctx, path.Join(name, e.Name()), e, behind); err != nil {
			return err
		}
	}
	return nil
}

// entry collects one entry of a directory, including its content.
func (s *source) entry(ctx context.Context, name string, e fs.DirEntry, behind []string) error {
	if e.Name() == ".git" {
		return nil
	}
	info, err := s.tree.Stat(name)
	if err != nil && e.Type()&fs.ModeSymlink != 0 && (s.ignored == nil || !s.ignored.match(name, false)) {
		return s.badLink(name, err)
	}
	if err == nil && s.ignored != nil && s.ignored.match(name, info.IsDir()) || err != nil && s.ignored != nil {
		s.skipped++
		return nil
	}
	switch {
	case err != nil:
		return s.unreadable(name, err)
	case info.IsDir():
		return s.walk(ctx, name, behind)
	case s.pattern != "" && !doublestar.MatchUnvalidated(s.pattern, name):
		return nil
	case !info.Mode().IsRegular():
		return problem("remove it, or name it in .gitignore", "%s is neither a file nor a directory", s.at(name))
	}
	return s.file(name, path.Join(s.target, name), info)
}

func (s *source) badLink(name string, err error) error {
	to, _ := s.tree.ReadLink(name)
	if errors.Is(err, fs.ErrNotExist) {
		return problem("remove it, or name it in .gitignore", "%s is a link to %s, which does not exist", s.at(name), to)
	}
	return problem("add the link's target as another entry of files, or name the link in .gitignore", "%s is a link to %s: links must stay in %s, and be relative", s.at(name), to, s.shown)
}

// file collects a file.
func (s *source) file(name, target string, info fs.FileInfo) error {
	s.matched = true
	switch {
	case task.IsPointer(s.dir, name, info.Size()):
		s.pointers = append(s.pointers, s.at(name))
	case task.MayBePointer(s.dir, name, info.Size()):
		s.alike = append(s.alike, s.at(name))
	}
	f := file{dir: s.dir, name: name, executable: info.Mode()&0o111 != 0}
	in, err := task.Tree(s.dir).Open(name)
	if err != nil {
		return s.unreadable(name, err)
	}
	defer in.Close()
	sum := sha256.New()
	f.size, err = io.Copy(sum, io.LimitReader(in, maxBytes+1-s.bytes))
	if err != nil {
		return s.unreadable(name, err)
	}
	sum.Sum(f.sum[:0])
	return s.put(target, f)
}

// put adds a file at its path in the environment.
func (s *source) put(target string, f file) error {
	s.matched = true
	if other, taken := s.from[target]; taken && (!f.empty || !s.files[target].empty) {
		return problem("give one of the entries another target, or remove it", "%s and %s are both put at /%s", other, s.at(f.name), target)
	}
	s.files[target], s.from[target] = f, s.at(f.name)
	s.bytes += f.size
	switch {
	case len(s.files) > maxFiles:
		return s.tooMuch(fmt.Sprintf("more than %d files", maxFiles), func(file) int64 { return 1 })
	case s.bytes > maxBytes:
		return s.tooMuch("more than "+quantity.Text(maxBytes), func(f file) int64 { return f.size })
	}
	return nil
}

// tooMuch returns the problem of an agent with too many files, and names the directory with the
// most of them.
func (s *source) tooMuch(what string, weight func(file) int64) error {
	sums := map[string]int64{}
	for _, f := range s.files {
		if dir, _, below := strings.Cut(f.name, "/"); below && f.dir == s.dir {
			sums[dir] += weight(f)
		}
	}
	where := ""
	if len(sums) > 0 {
		most := slices.MaxFunc(slices.Sorted(maps.Keys(sums)), func(a, b string) int { return int(sums[a] - sums[b]) })
		where = ", most of it in " + s.at(most)
	}
	return problem("name fewer files, or leave some out by .gitignore; put large files into the image, or fetch them in install", "the agent has %s%s", what, where)
}

// unreadable returns the error of a file that cannot be read.
func (s *source) unreadable(name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s cannot be read: %w", s.at(name), err)
}

// at returns the path of a file for messages.
func (s *source) at(name string) string { return filepath.Join(s.shown, filepath.FromSlash(name)) }

// digest returns the digest of the collected files: of names, contents, and which files are
// executable.
func (c *collector) digest() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		f := c.files[name]
		if f.empty {
			fmt.Fprintf(sum, "directory %q\n", name)
			continue
		}
		fmt.Fprintf(sum, "file %q %t %x\n", name, f.executable, f.sum)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// conflict returns the problem of a path that is a file of one entry and a directory of another.
func (c *collector) conflict() error {
	for name := range c.files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if f, ok := c.files[dir]; ok && !f.empty {
				return problem("give one of the entries another target", "%s is put at /%s, where %s needs a directory", c.from[dir], dir, c.from[name])
			}
		}
	}
	return nil
}
