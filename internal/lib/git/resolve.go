package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	fullID  = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	shortID = regexp.MustCompile(`^[0-9a-f]{4,63}$`)
	// refName is the name of a branch or tag, a little stricter than git: git-check-ref-format(1).
	refName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+@/#=-]*$`)
)

// IsID reports whether rev is a full commit id, which needs no resolving.
func IsID(rev string) bool { return fullID.MatchString(rev) }

// IsAbbreviated reports whether rev looks like an abbreviated commit id.
func IsAbbreviated(rev string) bool { return shortID.MatchString(rev) && !IsID(rev) }

// CheckRevision returns an error if rev is no revision that a registry may name: a full or
// abbreviated commit id, a branch, a tag, HEAD or "".
func CheckRevision(rev string) error {
	switch {
	case rev == "", IsID(rev):
		return nil
	case len(rev) > 200, !refName.MatchString(rev), strings.Contains(rev, ".."), strings.Contains(rev, "@{"),
		strings.Contains(rev, "//"), strings.HasSuffix(rev, "/"), strings.HasSuffix(rev, "."), strings.HasSuffix(rev, ".lock"):
		return fmt.Errorf("%q is neither a commit nor the name of a branch or tag", safe(rev))
	}
	return nil
}

// ErrNoCommit means that the repository answered, but that no commit, branch or tag matches, or
// several do.
var ErrNoCommit = errors.New("no such commit")

// NoCommitError is an ErrNoCommit with details.
type NoCommitError struct{ Remote, Message string }

func (e *NoCommitError) Error() string { return e.Remote + ": " + e.Message }

// Is reports whether target is ErrNoCommit.
func (e *NoCommitError) Is(target error) bool { return target == ErrNoCommit }

// Resolve returns the full id of the commit that rev names in the repository now. scratch is a
// directory for temporary files, which the caller removes.
func (g *Client) Resolve(ctx context.Context, r Remote, rev, scratch string) (id string, failed error) {
	if IsID(rev) {
		return rev, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.Timeout, errTimeout)
	defer cancel()
	defer func() { failed = timeoutError(ctx, r, failed) }()
	if err := CheckRevision(rev); err != nil {
		return "", err
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return "", err
	}
	if rev == "" {
		rev = "HEAD"
	}
	id, err := g.advertised(ctx, r, rev, scratch)
	if err != nil || id != "" {
		return id, err
	}
	if !IsAbbreviated(rev) {
		return "", &NoCommitError{r.shown, fmt.Sprintf("there is no branch or tag %q", safe(rev))}
	}
	return g.complete(ctx, r, rev, scratch)
}

// advertised returns the commit of a branch or tag, or of HEAD, or "" if there is none. As in git,
// a tag wins over a branch of the same name.
func (g *Client) advertised(ctx context.Context, r Remote, rev, scratch string) (string, error) {
	names := []string{rev}
	if rev != "HEAD" {
		names = []string{"refs/tags/" + rev + "^{}", "refs/tags/" + rev, "refs/heads/" + rev}
		if strings.HasPrefix(rev, "refs/") {
			names = append([]string{rev + "^{}", rev}, names...)
		}
	}
	var out []byte
	err := g.retry(ctx, func() error {
		var err error
		out, err = g.run(ctx, call{dir: scratch, remote: r, network: true, args: append([]string{"ls-remote", "--quiet", "origin"}, names...)})
		return err
	})
	if err != nil {
		return "", err
	}
	ids := map[string]string{}
	for line := range strings.Lines(string(out)) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if IsID(id) {
			ids[ref] = id
		}
	}
	for _, name := range names {
		if ids[name] != "" {
			return ids[name], nil
		}
	}
	if rev == "HEAD" {
		return "", &NoCommitError{r.shown, "the repository has no HEAD: it is empty, or its default branch is missing"}
	}
	return "", nil
}

// complete finds the commit whose id begins with prefix. Servers cannot search for prefixes, so it
// fetches all commits of branches and tags, without their contents if the server supports filters.
func (g *Client) complete(ctx context.Context, r Remote, prefix, scratch string) (string, error) {
	for _, filter := range []string{"--filter=tree:0", "--no-filter"} {
		repo := filepath.Join(scratch, "commits"+filter)
		err := g.create(ctx, r, repo, false)
		if err == nil {
			err = g.retry(ctx, func() error { return g.fetch(ctx, r, repo, filter, heads, tags) })
		}
		if err == nil {
			return g.only(ctx, r, repo, prefix)
		}
		if ctx.Err() != nil || filter == "--no-filter" || !g.reachable(ctx, r, scratch) {
			return "", err
		}
	}
	panic("not reached")
}

// only returns the one commit of the repository whose id begins with prefix.
func (g *Client) only(ctx context.Context, r Remote, repo, prefix string) (string, error) {
	out, err := g.run(ctx, call{dir: repo, remote: r, args: []string{"rev-parse", "--disambiguate=" + prefix}})
	if err != nil {
		return "", err
	}
	out, err = g.run(ctx, call{dir: repo, remote: r, stdin: strings.NewReader(string(out)), args: []string{"cat-file", "--batch-check"}})
	if err != nil {
		return "", err
	}
	var commits []string
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 3 && words[1] == "commit" && IsID(words[0]) {
			commits = append(commits, words[0])
		}
	}
	switch len(commits) {
	case 0:
		return "", &NoCommitError{r.shown, fmt.Sprintf("no commit of a branch or tag begins with %s", prefix)}
	case 1:
		return commits[0], nil
	}
	return "", &NoCommitError{r.shown, fmt.Sprintf("%s is the beginning of several commits: %s (write one in full)", prefix, strings.Join(commits[:min(5, len(commits))], ", "))}
}
