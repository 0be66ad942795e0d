package action

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/samefiles"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// guard decides what the Action may execute: see github.Guard. It serves one command and is not
// safe for concurrent use.
type guard struct {
	ctx    context.Context //nolint:containedctx // functions that admit files take none
	facts  github.Actions
	level  github.Guard
	client *github.Client
	git    *git.Client
	// workspace is the location of a checkout without .git.
	workspace string
	here      string // the current directory, absolute

	judged map[string]error // by the top of a checkout, under OwnCheckout

	// Under EveryFile:
	checker  *samefiles.Checker
	commit   string       // what files are compared with
	top      string       // of the checkout, for messages
	copied   string       // the top of the copy
	temp     string       // holds the copy
	remove   func() error // removes temp
	cacheDir string
}

// newGuard returns the guard of a step; nil: anything may be executed.
func newGuard(ctx context.Context, h *host.Host, in inputs, env github.Environment) (_ *guard, err error) {
	facts := env.Actions
	g := &guard{ctx: ctx, facts: facts, level: facts.Guard(), judged: map[string]error{}, workspace: facts.Workspace}
	needsEvent := g.level != github.OwnCheckout || strings.HasPrefix(facts.Event, "pull_request")
	switch {
	case env.Err != nil && needsEvent:
		return nil, g.refusal("Rollout cannot tell whose changes the event is about: %v", env.Err)
	case g.level == github.NoGuard:
		return nil, nil
	}
	if g.workspace == "" {
		g.workspace = h.Path(".")
	}
	if g.here, err = filepath.Abs(h.Path(".")); err != nil {
		return nil, fmt.Errorf("find the current directory: %w", err)
	}
	opts := git.Options{Timeout: 30 * time.Second}
	if h.Environ != nil {
		opts.Environ = h.Environ()
	}
	g.git = git.New(opts)
	if g.client, err = github.New(in.value("github-token"), facts.APIURL); err != nil {
		return nil, err
	}
	if g.level == github.EveryFile {
		if in.value("changed") != "" {
			return nil, g.refusal("the input changed asks the checkout's own history, which may be a stranger's")
		}
		if g.temp, g.remove, err = host.TempDir("rollout-checked-"); err != nil {
			return nil, fmt.Errorf("make a directory for checked files: %w", err)
		}
		g.cacheDir = filepath.Join(g.temp, "cache") // which only this step writes to
	}
	return g, nil
}

// Close removes the copy. It may be called on nil.
func (g *guard) Close() error {
	if g == nil {
		return nil
	}
	var err error
	if g.checker != nil {
		err = g.checker.Close()
	}
	if g.temp != "" {
		err = errors.Join(err, g.remove())
	}
	return err
}

// refusal returns the error that nothing is executed, with the reason.
func (g *guard) refusal(format string, args ...any) error {
	event, why := untrusted.Line(g.facts.Event), untrusted.Line(fmt.Sprintf(format, args...))
	rule := fmt.Sprintf("the event %s gives this workflow the repository's secrets, which a fork's changes could read; %s", event, why)
	if g.level == github.EveryFile {
		rule = fmt.Sprintf("the event %s may be about a stranger's changes, and gives this workflow the repository's secrets. "+
			"There, everything that runs must be what a commit of %s has, file by file; but %s", event, untrusted.Line(g.facts.Repository), why)
	}
	return usage("refused to run anything: %s. "+
		"Run changes of forks on pull_request, which has no secrets, and report on workflow_run (examples/workflows/fork-run.yml and fork-report.yml). "+
		"If a person you trust has read the files of this checkout, set the input allow-fork-checkout: true", rule)
}

// Admit implements host.Guard.
func (g *guard) Admit(path string) (string, error) {
	if g.level == github.OwnCheckout {
		return path, g.own(path)
	}
	if g.checker == nil {
		if err := g.begin(path); err != nil {
			return "", err
		}
	}
	admitted, err := g.checker.Admit(g.ctx, path)
	var refused *samefiles.Refusal
	switch {
	case errors.As(err, &refused):
		return "", g.refusal("%v (it was compared with commit %s)", refused, host.ShortCommit(g.commit))
	case err != nil:
		return "", fmt.Errorf("compare %s with commit %s: %w", untrusted.Line(path), host.ShortCommit(g.commit), err)
	}
	return admitted, nil
}

// begin chooses the commit that files are compared with. The commit that the checkout names is only
// a hint.
func (g *guard) begin(path string) error {
	top := topAround(path, g.workspace)
	if top == "" {
		return g.refusal("%s lies neither in a checkout nor in the workspace", path)
	}
	commit, err := g.choose(commits.Around(top))
	if err != nil {
		return g.refusal("Rollout cannot tell which commit that is: %v", err)
	}
	root, err := g.client.RootTree(g.ctx, g.facts.Repository, commit)
	if err != nil {
		return g.refusal("GitHub does not show it: %v", err)
	}
	// A dataset may be named after the directory at the top.
	copied := filepath.Join(g.temp, "files", filepath.Base(top))
	if err := os.MkdirAll(copied, 0o755); err != nil {
		return fmt.Errorf("make a directory for checked files: %w", err)
	}
	checker, err := samefiles.New(trees{g.client, g.facts.Repository}, root, top, copied)
	if err != nil {
		return fmt.Errorf("open %s: %w", untrusted.Line(top), err)
	}
	// Results then name the commit that was compared with.
	if err := errors.Join(os.Mkdir(filepath.Join(copied, ".git"), 0o755),
		os.WriteFile(filepath.Join(copied, ".git", "HEAD"), []byte(commit+"\n"), 0o644)); err != nil {
		return fmt.Errorf("make a directory for checked files: %w", err)
	}
	g.checker, g.commit, g.top, g.copied = checker, commit, top, copied
	return nil
}

// choose returns a commit that GitHub confirms as the repository's own: the one that the checkout
// names if it is one, else the event's.
func (g *guard) choose(checkout commits.Checkout) (string, error) {
	own := g.facts.OwnCommits()
	if checkout.Commit != nil {
		if slices.Contains(own, *checkout.Commit) {
			return *checkout.Commit, nil
		}
		whose, err := g.client.Ownership(g.ctx, g.facts.Repository, *checkout.Commit, g.facts.DefaultBranch, g.facts.BaseRef)
		if err != nil {
			return "", err
		}
		if whose == github.Own {
			return *checkout.Commit, nil
		}
	}
	if len(own) > 0 {
		return own[0], nil
	}
	if g.facts.DefaultBranch == "" {
		return "", errors.New("the event does not name the repository's default branch")
	}
	return g.client.BranchHead(g.ctx, g.facts.Repository, g.facts.DefaultBranch)
}

// trees provides the trees of a repository on GitHub.
type trees struct {
	client *github.Client
	repo   string
}

func (t trees) Tree(ctx context.Context, id string, deep bool) ([]samefiles.Entry, bool, error) {
	listed, whole, err := t.client.Tree(ctx, t.repo, id, deep)
	entries := make([]samefiles.Entry, len(listed))
	for i, e := range listed {
		entries[i] = samefiles.Entry(e)
	}
	return entries, whole, err
}

// topAround returns the top of the checkout that contains a path, spelled as the path is; without
// one, the workspace that contains it, or "".
func topAround(path, workspace string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if below, err := filepath.Rel(workspace, path); err == nil && filepath.IsLocal(below) {
		return workspace
	}
	return ""
}

// maxEntries bounds how many entries of a directory are searched for checkouts.
const maxEntries = 2_000_000

// own refuses a path if a checkout that contains it, or one below it, is of a commit that only
// forks have.
func (g *guard) own(path string) error {
	if err := g.around(path); err != nil {
		return err
	}
	var refused error
	seen := 0
	_ = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		if seen++; seen > maxEntries {
			refused = g.refusal("there is too much in %s to find all checkouts", path)
			return filepath.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // what cannot be read cannot be run either
		}
		inside := filepath.Dir(at)
		if entry.Type()&fs.ModeSymlink != 0 {
			inside = at
		} else if entry.Name() != ".git" {
			return nil
		}
		if refused = g.around(inside); refused != nil {
			return filepath.SkipAll
		}
		if entry.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
	return refused
}

// around judges the checkout that contains a path, if there is one.
func (g *guard) around(path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = filepath.Dir(real)
		}
	}
	checkout := commits.Around(path)
	if checkout.Commit == nil {
		return nil
	}
	if _, known := g.judged[checkout.Top]; !known {
		g.judged[checkout.Top] = g.judge(*checkout.Commit, checkout.Objects, "which is checked out in "+checkout.Top)
	}
	return g.judged[checkout.Top]
}

// AdmitCommit implements host.Guard.
func (g *guard) AdmitCommit(commit, objects string) error {
	return g.judge(commit, objects, "whose files were to run")
}

// judge refuses a commit that GitHub knows but that is on no branch of this repository: it belongs
// to a fork. objects is the object directory of a repository that contains it; what says why it
// matters.
func (g *guard) judge(commit, objects, what string) error {
	own := g.facts.OwnCommits()
	if slices.Contains(own, commit) {
		return nil
	}
	if g.facts.Number != 0 && strings.HasPrefix(g.facts.Event, "pull_request") && !g.facts.Fork {
		// The merge commit may have been recreated since the event.
		merge, head, err := g.client.PullMerge(g.ctx, g.facts.Repository, g.facts.Number)
		if err == nil && merge == commit && strings.EqualFold(head, g.facts.Repository) {
			return nil
		}
	}
	pending, seen := []string{commit}, map[string]bool{}
	for len(pending) > 0 && len(seen) < maxLocal {
		commit := pending[0]
		pending = pending[1:]
		if seen[commit] || slices.Contains(own, commit) {
			continue
		}
		seen[commit] = true
		whose, err := g.client.Ownership(g.ctx, g.facts.Repository, commit, g.facts.DefaultBranch, g.facts.BaseRef, strings.TrimPrefix(g.facts.Ref, "refs/heads/"))
		switch {
		case err != nil:
			return g.refusal("Rollout cannot tell whose commit %s is, %s: %v", host.ShortCommit(commit), what, err)
		case whose == github.Foreign:
			return g.refusal("commit %s, %s, is on no branch of the repository, as those of forks", host.ShortCommit(commit), what)
		case whose == github.Own:
			continue
		}
		// The commit is another repository's or was made here: judge its parents.
		if parents, err := g.git.Parents(g.ctx, objects, commit); err == nil {
			pending = append(pending, parents...)
		}
	}
	return nil
}

// maxLocal bounds how many locally made commits are examined.
const maxLocal = 20

// Commit implements host.Guard.
func (g *guard) Commit() string { return g.commit }

// Settings implements host.Guard.
func (g *guard) Settings(known []environment.ConfigKey, cfg map[string]any) (map[string]any, error) {
	admit := func(name string) (string, error) {
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("find %s of environment.provider_config: %w", untrusted.Line(name), err)
			}
			name = filepath.Join(home, rest)
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(g.here, name)
		}
		return g.Admit(name)
	}
	refuse := func(key string) error {
		if g.level != github.EveryFile {
			return nil
		}
		return g.refusal("environment.provider_config.%s names files of this machine, which may be a stranger's and cannot be compared", key)
	}
	return environment.AdmitFiles(known, cfg, admit, refuse)
}

// known implements host.Paths.Known: it replaces the copy's directory in a text by that of the
// checkout.
func (g *guard) known(text string) string {
	if g == nil || g.copied == "" {
		return text
	}
	return strings.ReplaceAll(text, g.copied, g.top)
}

// inKnown returns err with the copy's paths in its problems replaced by those of the checkout.
func (g *guard) inKnown(err error) error {
	var problems diag.List
	if g == nil || !errors.As(err, &problems) {
		return err
	}
	shown := slices.Clone(problems)
	for i, p := range shown {
		shown[i].File, shown[i].Message, shown[i].Hint = g.known(p.File), g.known(p.Message), g.known(p.Hint)
	}
	return shown
}
