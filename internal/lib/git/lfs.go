package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/nofollow"
)

// pointer is a file that stands for a content kept by git-lfs.
type pointer struct {
	place
	oid  string // SHA-256 of the content
	size int64
	text string
}

// maxPointer is the size limit of a pointer, in bytes. Source: git-lfs, docs/spec.md.
const maxPointer = 1024

var (
	pointerOID  = regexp.MustCompile(`(?m)^oid sha256:([0-9a-f]{64})$`)
	pointerSize = regexp.MustCompile(`(?m)^size ([0-9]{1,18})$`)
)

func parsePointer(text []byte) (oid string, size int64, ok bool) {
	if len(text) >= maxPointer || !strings.HasPrefix(string(text), "version https://git-lfs.github.com/spec/v1\n") {
		return "", 0, false
	}
	id, length := pointerOID.FindSubmatch(text), pointerSize.FindSubmatch(text)
	if id == nil || length == nil {
		return "", 0, false
	}
	size, err := strconv.ParseInt(string(length[1]), 10, 64)
	return string(id[1]), size, err == nil
}

// replacePointers replaces pointers with their contents, where .gitattributes assigns them to
// git-lfs. If git-lfs is not installed, the directory gets a problem: a task with pointers in place
// of its files would be another task.
func (e *export) replacePointers(ctx context.Context, pointers []pointer) error {
	pointers, err := e.filtered(ctx, pointers)
	if err != nil || len(pointers) == 0 {
		return err
	}
	slices.SortFunc(pointers, func(a, b pointer) int { return strings.Compare(a.path()+"\x00"+a.dir, b.path()+"\x00"+b.dir) })
	if e.stored != "" {
		return e.takeStored(ctx, pointers)
	}
	if _, err := e.run(ctx, call{dir: e.repo, remote: e.remote, args: []string{"lfs", "version"}}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		missingLFS(pointers, "git-lfs is not installed, and these files are only its pointers: %s")
		return nil
	}
	for _, p := range pointers {
		if !e.fits(p) {
			continue
		}
		if err := e.smudge(ctx, p); err != nil {
			if ctx.Err() != nil || errors.Is(err, errNotWritten) {
				return err
			}
			p.directory.Transient = true
			p.directory.problem("git-lfs does not give %s: %v", safe(p.entry.name), err)
		}
	}
	return nil
}

// fits adds the size of the pointer's content to its directory, and reports whether to write it.
func (e *export) fits(p pointer) bool {
	if p.directory.bytes += p.size; p.directory.bytes > e.MaxBytes {
		p.directory.problem("is larger than the %d MiB that are allowed, with %s from git-lfs", e.MaxBytes>>20, safe(p.entry.name))
	}
	return p.directory.ok()
}

// takeStored replaces pointers with contents that git-lfs keeps in the repository on this machine.
// It runs no git-lfs, which would read the repository's configuration. A content that is missing,
// or does not match its pointer, is a problem of the directory.
func (e *export) takeStored(ctx context.Context, pointers []pointer) error {
	var missing []pointer
	for _, p := range pointers {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !e.fits(p) {
			continue
		}
		err := p.replace(func(to io.Writer) error {
			// Source: git-lfs, docs/spec.md, "Local storage".
			f, err := nofollow.Open(filepath.Join(e.stored, p.oid[:2], p.oid[2:4], p.oid))
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(to, f)
			return err
		})
		switch {
		case errors.Is(err, errNotWritten):
			return err
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, p)
		case err != nil:
			p.directory.problem("git-lfs keeps a broken file here for %s: %v", safe(p.entry.name), err)
		}
	}
	missingLFS(missing, "these files are only pointers of git-lfs, which keeps no files for them here: %s; run git lfs fetch origin "+e.id)
	return nil
}

// path returns the pointer's path in the commit.
func (p pointer) path() string { return path.Join(p.directory.path, p.entry.name) }

// missingLFS adds a problem to each directory that has pointers. says is a format with a verb for
// their names.
func missingLFS(pointers []pointer, says string) {
	names := map[*directory][]string{}
	var order []*directory
	for _, p := range pointers {
		if names[p.directory] == nil {
			order = append(order, p.directory)
		}
		names[p.directory] = append(names[p.directory], safe(p.entry.name))
	}
	for _, f := range order {
		files := names[f]
		f.Transient = true
		f.problem(says, PointersText(files))
	}
}

// filtered returns the pointers for which .gitattributes sets filter=lfs. Other files only look
// like pointers.
func (e *export) filtered(ctx context.Context, pointers []pointer) ([]pointer, error) {
	if len(pointers) == 0 {
		return nil, nil
	}
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(e.repo, "rollout-index")}
	if _, err := e.run(ctx, call{dir: e.repo, remote: e.remote, env: index, args: []string{"read-tree", e.id}}); err != nil {
		return nil, err
	}
	var input strings.Builder
	for _, p := range pointers {
		input.WriteString(p.path() + "\x00")
	}
	// git fetches the .gitattributes files outside of the directories, which may still be missing.
	out, err := e.run(ctx, call{
		dir: e.repo, remote: e.remote, network: e.partial, env: index, stdin: strings.NewReader(input.String()),
		args: []string{"check-attr", "--cached", "--stdin", "-z", "filter"},
	})
	if err != nil {
		return nil, err
	}
	lfs := map[string]bool{}
	words := strings.Split(string(out), "\x00")
	for i := 0; i+2 < len(words); i += 3 {
		lfs[words[i]] = words[i+2] == "lfs"
	}
	return slices.DeleteFunc(pointers, func(p pointer) bool { return !lfs[p.path()] }), nil
}

// smudge overwrites the pointer with its content, which git-lfs writes.
func (e *export) smudge(ctx context.Context, p pointer) error {
	return p.replace(func(to io.Writer) error {
		_, err := e.run(ctx, call{
			dir: e.repo, remote: e.remote, network: true, stdin: strings.NewReader(p.text), stdout: to,
			env: []string{"GIT_LFS_SKIP_SMUDGE=0"}, args: []string{"lfs", "smudge", "--", p.path()},
		})
		return err
	})
}

// replace overwrites the pointer with the content that give writes, and returns an error unless it
// is the pointer's content.
func (p pointer) replace(give func(io.Writer) error) error {
	return inside(p.dir, func(root *os.Root) error {
		f, err := root.OpenFile(p.entry.name, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return fmt.Errorf("%w: %w", errNotWritten, err)
		}
		defer f.Close()
		sum := sha256.New()
		content := &counted{left: p.size, to: func(b []byte) error {
			sum.Write(b)
			if _, err := f.Write(b); err != nil {
				return fmt.Errorf("%w: %w", errNotWritten, err)
			}
			return nil
		}}
		err = give(content)
		switch {
		case content.failed != nil:
			return content.failed
		case err != nil:
			return err
		case content.left != 0 || hex.EncodeToString(sum.Sum(nil)) != p.oid:
			return errors.New("the content does not match the pointer")
		}
		return f.Close()
	})
}

// counted is a writer that passes on at most left bytes; more is an error.
type counted struct {
	left   int64
	to     func([]byte) error
	failed error
}

func (c *counted) Write(b []byte) (int, error) {
	if c.left -= int64(len(b)); c.left < 0 {
		return 0, errTooMuch
	}
	if c.failed = c.to(b); c.failed != nil {
		return 0, c.failed
	}
	return len(b), nil
}
