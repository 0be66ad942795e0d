package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/mine"
)

// mine measures looking at a history before anything is built.
func (b *bench) mine(ctx context.Context) error {
	repository := filepath.Join(b.dir, "mine")
	if err := writeHistory(ctx, repository); err != nil {
		return err
	}
	look := timed(func(ctx context.Context) error { return lookAt(ctx, repository) })
	return b.measure(ctx, measuring{"mine.look", look, process("git", "-C", repository, "log", "--first-parent", "--raw", "--patch", "--no-ext-diff", "--no-textconv", "HEAD")})
}

// lookAt classifies all commits of a repository.
func lookAt(ctx context.Context, repository string) (err error) {
	scratch, err := os.MkdirTemp(filepath.Dir(repository), "look-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	repo, err := git.New(git.Options{}).Local(ctx, repository, filepath.Join(repository, ".git", "objects"), "HEAD", scratch)
	if err != nil {
		return err
	}
	commits, err := repo.History(ctx, git.HistoryOptions{Commits: mineCommits, Changes: mine.MaxFiles + 1})
	if err != nil {
		return err
	}
	candidates, err := mine.Look(ctx, repo, commits, mine.Options{Limit: mineCommits})
	promising := 0
	for _, c := range candidates {
		if c.Reason == mine.Promising {
			promising++
		}
	}
	if err == nil && (len(candidates) != mineCommits || promising != mineCommits/2) {
		err = fmt.Errorf("%d of %d commits are promising", promising, len(candidates))
	}
	return err
}

// writeHistory writes a repository with 500 files of 200 lines and a history of mineCommits more
// commits. Half of them change code and tests together, as in the history of Rollout itself.
func writeHistory(ctx context.Context, dir string) error {
	var in bytes.Buffer
	mark := 0
	begin := func() {
		mark++
		message := fmt.Sprintf("Change number %d, with a subject of usual length", mark)
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter A <a@example.com> %d +0000\ndata %d\n%s\n", mark, 1_700_000_000+mark, len(message), message)
		if mark > 1 {
			fmt.Fprintf(&in, "from :%d\n", mark-1)
		}
	}
	put := func(name string, version int) {
		var text bytes.Buffer
		fmt.Fprintf(&text, "package p // %s\n", name)
		for line := range 200 {
			changed := 0
			if line%20 == version%20 {
				changed = version
			}
			fmt.Fprintf(&text, "// Line %d is of version %d.\n", line, changed)
		}
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, text.Len(), text.Bytes())
	}
	begin()
	put("go.mod", 0)
	for n := range 250 {
		put(fmt.Sprintf("p%d/code.go", n), 0)
		put(fmt.Sprintf("p%d/code_test.go", n), 0)
	}
	for n := range mineCommits {
		begin()
		code, test, document := fmt.Sprintf("p%d/code.go", n%250), fmt.Sprintf("p%d/code_test.go", n%250), fmt.Sprintf("docs/page%d.md", n%20)
		put([]string{code, document, code, test, code, code, code, document, code, test}[n%10], n+1)
		if n%2 == 0 {
			put(test, n+1)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "--quiet", "-b", "main"}, {"fast-import", "--quiet"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		if args[0] == "fast-import" {
			cmd.Stdin = &in
		}
		if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%w: %w", errUnmeasurable, err)
		} else if err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}
