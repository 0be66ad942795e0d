package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Changed are the files of the working tree at top that are not what they were in the commit from which HEAD and since (a
// commit, branch or tag; a branch of origin's will do) went apart: those that were changed, added or removed, committed or
// not, sorted, with forward slashes. Files that git ignores are not among them.
//
// It runs nothing that the repository's configuration names, whoever it belongs to. A since that is not there is an ErrNoCommit.
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

// worktree is somebody's working tree.
type worktree struct {
	*Client
	top    string
	config [][2]string
}

// disarm takes the commands from all filters that the repository's configuration has: git would run them to compare
// contents.
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

// git runs git there. Naming the repository spares git the search for it, and with it the refusal of one that belongs to
// another user, as in containers.
func (w *worktree) git(ctx context.Context, args ...string) (string, error) {
	out, err := w.run(ctx, call{
		dir: w.top, remote: Remote{shown: "in " + safe(w.top)}, args: args, config: w.config,
		env: []string{"GIT_DIR=" + filepath.Join(w.top, ".git"), "GIT_WORK_TREE=" + w.top},
	})
	return string(out), err
}

// base is the commit from which HEAD and since went apart.
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
