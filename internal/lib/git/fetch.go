package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	heads = "+refs/heads/*:refs/heads/*"
	tags  = "+refs/tags/*:refs/tags/*"
)

// tries is the number of attempts at a fetch.
const tries = 3

// retry repeats do after any failure: git does not report which failures are transient.
func (g *Client) retry(ctx context.Context, do func() error) error {
	delay := g.RetryDelay
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == tries || ctx.Err() != nil || errors.Is(err, ErrNoGit) || errors.Is(err, errTooMuch) || errors.Is(err, errTimeout) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
		}
		delay *= 2
	}
}

// timeoutError returns err, or an error with errTimeout if the timeout of ctx caused it.
func timeoutError(ctx context.Context, r Remote, err error) error {
	if err == nil || errors.Is(err, errTimeout) || !errors.Is(context.Cause(ctx), errTimeout) {
		return err
	}
	return &Error{Doing: "fetch", Remote: r.shown, Err: errTimeout}
}

// reachable reports whether the repository answers.
func (g *Client) reachable(ctx context.Context, r Remote, scratch string) bool {
	_, err := g.run(ctx, call{dir: scratch, remote: r, network: true, args: []string{"ls-remote", "--quiet", "origin", "HEAD"}})
	return err == nil
}

// create creates a bare repository.
func (g *Client) create(ctx context.Context, r Remote, repo string, sha256 bool) error {
	if err := os.RemoveAll(repo); err != nil {
		return err
	}
	if err := os.MkdirAll(repo, 0o700); err != nil {
		return err
	}
	format := "--object-format=sha1"
	if sha256 {
		format = "--object-format=sha256"
	}
	_, err := g.run(ctx, call{dir: repo, remote: r, args: []string{"init", "--quiet", "--bare", "--template=", format}})
	return err
}

// fetch fetches args, which the caller has checked, and nothing else: no tags, no submodules.
func (g *Client) fetch(ctx context.Context, r Remote, repo string, args ...string) error {
	args = append([]string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance"}, args...)
	at := len(args)
	for at > 0 && !strings.HasPrefix(args[at-1], "-") {
		at--
	}
	args = append(args[:at:at], append([]string{"origin"}, args[at:]...)...)
	_, err := g.run(ctx, call{dir: repo, remote: r, network: true, args: args, grows: repo})
	return err
}

// source is a fetched commit in a separate repository.
type source struct {
	*Client
	remote  Remote
	repo    string
	id      string
	partial bool  // the contents of files may still be missing
	memory  int64 // the limit of each git that reads it, as in call
}

// ways lists how to fetch a commit, cheapest first. Not every server supports each.
var ways = []struct {
	name    string
	partial bool
	args    func(id string) []string
}{
	{"partial", true, func(id string) []string { return []string{"--depth=1", "--filter=blob:none", id} }},
	{"shallow", false, func(id string) []string { return []string{"--depth=1", id} }},
	{"full", false, func(string) []string { return []string{heads, tags} }},
}

// withCommit fetches the commit in the cheapest way with which use succeeds. It leaves a directory
// in scratch, which the caller removes.
func (g *Client) withCommit(ctx context.Context, r Remote, id, scratch string, use func(source) error) error {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	var first error
	for i, way := range ways {
		s := source{Client: g, remote: r, repo: filepath.Join(scratch, way.name), id: id, partial: way.partial}
		err := g.retryUnreachable(ctx, r, scratch, func() error {
			if err := g.create(ctx, r, s.repo, len(id) == 64); err != nil {
				return err
			}
			if err := g.fetch(ctx, r, s.repo, way.args(id)...); err != nil {
				return err
			}
			if err := s.hasCommit(ctx); err != nil {
				return err
			}
			return use(s)
		})
		if first == nil {
			first = err
		}
		var unreachable *unreachableError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &unreachable):
			return unreachable.err
		case errors.Is(err, ErrNoGit), errors.Is(err, errTooMuch), errors.Is(err, errTimeout), errors.Is(err, errNotWritten):
			return err
		case i == len(ways)-1:
			return err
		}
		_ = os.RemoveAll(s.repo)
	}
	return first
}

// unreachableError means that the repository does not answer.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }

// retryUnreachable repeats do while the repository does not answer. If it answers, it returns the
// failure: then another way to fetch may work.
func (g *Client) retryUnreachable(ctx context.Context, r Remote, scratch string, do func() error) error {
	delay := g.RetryDelay
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrNoGit) || errors.Is(err, ErrNoCommit) ||
			errors.Is(err, errTooMuch) || errors.Is(err, errTimeout) || errors.Is(err, errNotWritten) || g.reachable(ctx, r, scratch) {
			return err
		}
		if try == tries {
			return &unreachableError{err}
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
		}
		delay *= 2
	}
}

// hasCommit returns an error if the fetched object is missing or is not a commit.
func (s source) hasCommit(ctx context.Context) error {
	out, err := s.git(ctx, nil, "cat-file", "-t", s.id)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &NoCommitError{s.remote.shown, fmt.Sprintf("commit %s is not in the repository, or on none of its branches and tags", s.id)}
	}
	if kind := strings.TrimSpace(string(out)); kind != "commit" && kind != "tag" {
		return &NoCommitError{s.remote.shown, fmt.Sprintf("%s is a %s, not a commit", s.id, safe(kind))}
	}
	return nil
}

// git runs git without network.
func (s source) git(ctx context.Context, stdin *strings.Reader, args ...string) ([]byte, error) {
	c := call{dir: s.repo, remote: s.remote, args: args, memory: s.memory}
	if stdin != nil {
		c.stdin = stdin
	}
	return s.run(ctx, c)
}

// sizeOf returns the size in bytes of all files below dir. Files that it cannot read do not count.
func sizeOf(dir string) int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // git adds and removes files meanwhile
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
