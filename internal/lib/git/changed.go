package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Changed returns the files of the working tree at top that differ from the merge base of HEAD and
// since: changed, added or removed, committed or not. The names are sorted and use forward slashes;
// ignored files are left out. since is a commit, branch or tag; a branch that only origin has
// works, too.
//
// It runs no command from the repository's configuration, regardless of the repository's owner. If
// since does not exist, the error is an ErrNoCommit.
func (g *Client) Changed(ctx context.Context, top, since string) ([]string, error) {
	w, base, err := g.since(ctx, top, since)
	if err != nil {
		return nil, err
	}
	return w.uncommitted(ctx, base)
}

// since returns the working tree at top and the merge base of its HEAD and since.
func (g *Client) since(ctx context.Context, top, since string) (w *worktree, base string, err error) {
	if err := checkLocal(since); err != nil {
		return nil, "", &NoCommitError{Remote: top, Message: err.Error()}
	}
	w = &worktree{Client: g, top: top, config: [][2]string{{"diff.autoRefreshIndex", "true"}}}
	if err := w.disarm(ctx); err != nil {
		return nil, "", err
	}
	base, err = w.base(ctx, since)
	return w, base, err
}

// uncommitted returns the files of the working tree that differ from a commit, sorted: also
// submodules that are checked out at another commit. Changes inside a submodule do not count,
// because git would run commands that the submodule's configuration names.
func (w *worktree) uncommitted(ctx context.Context, base string) ([]string, error) {
	// Unlike diff-index, git diff compares the contents of files of which only the times differ.
	changed, err := w.git(ctx, "diff", "-O/dev/null", "--no-color", "--no-relative", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", base, "--")
	if err != nil {
		return nil, err
	}
	added, err := w.git(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	return namesIn(changed + added), nil
}

// namesIn returns the names that git lists with a zero byte after each, sorted.
func namesIn(listed string) []string {
	names := strings.FieldsFunc(listed, func(r rune) bool { return r == 0 })
	slices.Sort(names)
	return slices.Compact(names)
}

// Changes are the files that changed since a commit.
type Changes struct {
	Base  string   // the merge base of HEAD and the commit
	Files []string // sorted, from the root of the repository, with forward slashes
}

// Changes returns the files that the commits from the merge base of HEAD and since to HEAD changed,
// added or removed: also submodules that have another commit. With workTree it adds those of
// Changed, which are not committed yet. It is otherwise like Changed.
func (g *Client) Changes(ctx context.Context, top, since string, workTree bool) (Changes, error) {
	w, base, err := g.since(ctx, top, since)
	if err != nil {
		return Changes{}, err
	}
	// Unlike git diff, diff-tree does not read how the repository's configuration wants diffs
	// shown.
	committed, err := w.git(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", base, "HEAD", "--")
	if err != nil {
		return Changes{}, err
	}
	c := Changes{Base: base, Files: namesIn(committed)}
	if !workTree {
		return c, nil
	}
	more, err := w.uncommitted(ctx, base)
	c.Files = append(c.Files, more...)
	slices.Sort(c.Files)
	c.Files = slices.Compact(c.Files)
	return c, err
}

// worktree is the working tree of a repository that is not trusted.
type worktree struct {
	*Client
	top    string
	config [][2]string
}

// disarm overrides all filters that the repository's configuration defines. Otherwise git would run
// their commands to compare contents.
func (w *worktree) disarm(ctx context.Context) error {
	names, err := w.git(ctx, "config", "-z", "--name-only", "--list")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(names, "\x00") {
		if strings.HasPrefix(name, "filter.") {
			value := ""
			if strings.HasSuffix(name, ".required") {
				value = "false"
			}
			w.config = append(w.config, [2]string{name, value})
		}
	}
	return nil
}

// git runs git in the working tree. GIT_DIR and GIT_WORK_TREE spare git the search for the
// repository, and so the check of its owner, which fails in containers.
func (w *worktree) git(ctx context.Context, args ...string) (string, error) {
	out, err := w.run(ctx, call{
		dir: w.top, remote: Remote{shown: "in " + safe(w.top)}, args: args, config: w.config, memory: w.Memory,
		env: []string{"GIT_DIR=" + filepath.Join(w.top, ".git"), "GIT_WORK_TREE=" + w.top},
	})
	return string(out), err
}

// base returns the merge base of HEAD and since.
func (w *worktree) base(ctx context.Context, since string) (string, error) {
	for _, name := range []string{since, "refs/remotes/origin/" + since} {
		id, err := w.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if _, failed := errors.AsType[*Error](err); failed && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return "", err
		}
		base, err := w.git(ctx, "merge-base", strings.TrimSpace(id), "HEAD")
		if err != nil && ctx.Err() == nil {
			return "", &NoCommitError{Remote: w.top, Message: fmt.Sprintf("%s and HEAD have no commit in common here: fetch more of the history (actions/checkout: fetch-depth: 0)", safe(since))}
		}
		return strings.TrimSpace(base), err
	}
	return "", &NoCommitError{Remote: w.top, Message: fmt.Sprintf("there is no commit, branch or tag %s here: fetch it (actions/checkout: fetch-depth: 0)", safe(since))}
}
