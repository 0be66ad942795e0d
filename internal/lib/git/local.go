package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Local is a commit in the repository of a working tree. It is read from the repository's objects
// alone, through a separate empty repository: configuration, hooks, filters, attributes and grafts
// have no effect, and nothing is fetched or checked out. Only pointers of git-lfs are replaced with
// the files that git-lfs keeps in the repository.
type Local struct {
	ID     string // the full id
	source source
	stored string // the directory of the files that git-lfs keeps
	// objects is the repository's objects directory.
	objects string
}

// Local returns the commit that rev names in the repository whose working tree is at top: a commit,
// branch or tag; a branch that only origin has works, too. objects is the repository's objects
// directory. scratch is a directory for temporary files, which the caller removes. If there is no
// such commit, the error is an ErrNoCommit.
func (g *Client) Local(ctx context.Context, top, objects, rev, scratch string) (*Local, error) {
	none := &NoCommitError{Remote: safe(top), Message: fmt.Sprintf("there is no commit, branch or tag %s here: fetch it (actions/checkout: fetch-depth: 0)", safe(rev))}
	if err := checkLocal(rev); err != nil {
		return nil, &NoCommitError{Remote: safe(top), Message: err.Error()}
	}
	w := &worktree{Client: g, top: top}
	id := ""
	for _, name := range []string{rev, "refs/remotes/origin/" + rev} {
		out, err := w.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if _, failed := errors.AsType[*Error](err); failed && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		id = strings.TrimSpace(out)
		break
	}
	if !IsID(id) {
		if _, err := w.git(ctx, "rev-parse", "--git-dir"); err != nil { // such as a file .git that leads nowhere
			return nil, err
		}
		return nil, none
	}
	l := &Local{ID: id, objects: objects, stored: filepath.Join(filepath.Dir(objects), "lfs", "objects"), source: source{Client: g, remote: Remote{shown: "in " + safe(top)}, repo: filepath.Join(scratch, "own"), id: id, memory: g.Memory}}
	if err := g.create(ctx, l.source.remote, l.source.repo, len(id) == 64); err != nil {
		return nil, err
	}
	info := filepath.Join(l.source.repo, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return nil, err
	}
	if strings.ContainsAny(objects, "\n\"") {
		return nil, fmt.Errorf("%s: this path cannot be given to git", safe(objects))
	}
	if err := os.WriteFile(filepath.Join(info, "alternates"), []byte(objects+"\n"), 0o600); err != nil {
		return nil, err
	}
	if err := l.source.hasCommit(ctx); err != nil {
		if errors.Is(err, ErrNoCommit) {
			return nil, none
		}
		return nil, err
	}
	return l, nil
}

// checkLocal returns an error if rev is not a valid revision of a local repository: one that
// CheckRevision accepts, followed by any number of ~ and ^.
func checkLocal(rev string) error {
	name := strings.TrimRight(rev, "~^0123456789")
	if !strings.ContainsAny(rev[len(name):], "~^") {
		name = rev
	}
	if err := CheckRevision(name); err != nil || name == "" {
		return fmt.Errorf("%q is neither a commit nor the name of a branch or tag", safe(rev))
	}
	return nil
}

// Export writes the files of the commit for whose names keep returns true below into, as
// Client.Export does. Names are relative to the root of the repository, with forward slashes. It
// returns how many there are, and warnings about left-out files.
func (l *Local) Export(ctx context.Context, keep func(name string) bool, into string) (files int, warnings []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.source.Timeout, errTimeout)
	defer cancel()
	parent, name := filepath.Split(filepath.Clean(into))
	e := &export{source: l.source, into: parent, names: []string{name}, directories: []directory{{}}, keep: keep, stored: l.stored}
	if err := e.write(ctx); errors.Is(err, errTooMuch) {
		return 0, nil, &TreeError{Commit: l.ID, Problems: []string{"has too many files to list them"}}
	} else if err != nil {
		return 0, nil, err
	}
	out := e.results()[0]
	if len(out.Problems) > 0 {
		return 0, nil, &TreeError{Commit: l.ID, Problems: out.Problems}
	}
	return len(e.directories[0].entries), out.Warnings, nil
}

// TreeError means that files of a commit cannot be written: they are too many, too large, or have
// names that are not allowed.
type TreeError struct {
	Commit   string
	Problems []string // safe to print
}

func (e *TreeError) Error() string {
	return "commit " + e.Commit[:12] + ": " + strings.Join(e.Problems, "; ")
}

// filter removes the entries for whose names keep returns false.
func (e *export) filter() {
	if e.keep == nil {
		return
	}
	for i := range e.directories {
		f := &e.directories[i]
		kept := f.entries[:0]
		for _, entry := range f.entries {
			if e.keep(path.Join(f.path, entry.name)) {
				kept = append(kept, entry)
			}
		}
		f.entries = kept
	}
}
