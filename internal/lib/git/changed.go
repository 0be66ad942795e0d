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
	if err := CheckRevision(since); err != nil || since == "" {
		return nil, &NoCommitError{Remote: top, Message: fmt.Sprintf("%q is neither a commit nor the name of a branch or tag", safe(since))}
	}
	w := &worktree{Client: g, top: top}
	if err := w.disarm(ctx); err != nil {
		return nil, err
	}
	base, err := w.base(ctx, since)
	if err != nil {
		return nil, err
	}
	changed, err := w.git(ctx, "diff", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", base, "--")
	if err != nil {
		return nil, err
	}
	added, err := w.git(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	names := strings.FieldsFunc(changed+added, func(r rune) bool { return r == 0 })
	slices.Sort(names)
	return slices.Compact(names), nil
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
		dir: w.top, remote: Remote{shown: "in " + safe(w.top)}, args: args, config: w.config,
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
