// Package mine makes a dataset of a repository's history: it finds commits that change code and
// tests together, writes tasks of them and keeps those that are proven.
package mine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/run/prove"
)

// Request is the request of Run.
type Request struct {
	Repository string // a directory in the working tree
	Since      time.Time
	Limit      int      // at most so many promising commits
	Paths      []string // globs of code files; empty: all
	Out        string   // the dataset
	Image      string   // for the proposed Dockerfile; "": the language's
	Dockerfile string   // a file in place of the proposed one; "": none
	DryRun     bool     // build and run nothing, and write nothing
	// GitHub is the repository, as OWNER/NAME, whose merged pull requests describe the changes; "":
	// the commits' messages do.
	GitHub  string
	Retry   bool // try commits again that an earlier run left out
	Refresh bool // only commits after the newest one that has a task in the dataset
	Job     stages.JobRequest
}

// Result is the result of Run.
type Result struct {
	Out        string
	Candidates []mine.Candidate // the commits that were looked at, newest first
	Left       int              // how many commits were not looked at
	// Dockerfiles are those of a dry run, by task.
	Dockerfiles map[string]string
	Evidence    []string // the directories of the jobs that ran the tasks
}

// HasTasks reports whether the dataset has a task of a commit that was looked at.
func (r Result) HasTasks() bool {
	return slices.ContainsFunc(r.Candidates, func(c mine.Candidate) bool { return c.Reason == mine.Proven || c.Reason == mine.Exists })
}

// NotRun returns an error if commits could not be run, which says nothing of them.
func (r Result) NotRun() error {
	count, first := 0, ""
	for _, c := range r.Candidates {
		if c.Reason == mine.NotKnown {
			count, first = count+1, cmp.Or(first, c.Detail)
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%s could not be run, and will be tried again next time; the first: %s", plural.Count(count, "commit"), first)
}

// MaxCommits is the number of commits that a run looks at, at most.
const MaxCommits = 1000

const (
	maxDockerfile = 1 << 20
	maxTree       = 256 << 20 // bytes of the files of a commit
	maxTreeFiles  = 30_000
	verifierSec   = 600
	stagingPrefix = ".rollout-mine-"
)

// Run mines a repository. With an error, the result has the commits that were looked at until then.
func Run(ctx context.Context, h *host.Host, req Request) (Result, error) {
	found, err := run(ctx, h, req)
	if ctx.Err() != nil {
		err = host.Cancelled("cancelled before all commits were proven")
	}
	return found, err
}

func run(ctx context.Context, h *host.Host, req Request) (Result, error) {
	m, err := open(ctx, h, req)
	if err != nil {
		return Result{}, err
	}
	defer m.close(ctx)
	commits, err := m.repo.History(ctx, git.HistoryOptions{Commits: MaxCommits, Changes: mine.MaxFiles + 1, Since: req.Since})
	if err != nil {
		return Result{}, err
	}
	if req.Refresh {
		known := mine.NewestKnown(commits, m.exists)
		if known < 0 {
			return m.Result, host.Usagef("--refresh: %s has no task of the newest %s; mine without it", host.Clean(req.Out), plural.Count(len(commits), "commit"))
		}
		commits = commits[:known]
	}
	m.Candidates, err = mine.Look(ctx, m.repo, commits, mine.Options{Limit: req.Limit, Paths: req.Paths, Exists: m.exists, Before: m.before})
	m.Left = len(commits) - len(m.Candidates)
	if err == nil {
		err = m.write(ctx)
	}
	if err == nil && !req.DryRun {
		err = errors.Join(m.prove(ctx), m.writeRecord())
	}
	return m.Result, err
}

// checkSettings checks the settings of the proof. Without it, a wrong one would be reported only
// when the tasks are written.
func checkSettings(h *host.Host, req Request) error {
	if req.DryRun {
		return nil
	}
	opts, err := stages.LoadOptions(h, req.Job)
	if err != nil {
		return err
	}
	_, err = config.LoadImplied(config.Implied{Name: req.Out, Agents: stages.OracleAndNop(), Datasets: []config.Dataset{{Path: "."}}}, opts)
	return err
}

// mining is a running Run.
type mining struct {
	Result
	host *host.Host
	req  Request
	repo *git.Local

	options mine.WriteOptions
	record  record
	tried   map[string]bool // the commits of which tasks were written in this run
	staging string          // the directory of the tasks that are not proven yet
	remove  []func() error
}

// open finds the repository and makes the directories of the tasks.
func open(ctx context.Context, h *host.Host, req Request) (_ *mining, err error) {
	m := &mining{host: h, req: req, Result: Result{Out: req.Out}, tried: map[string]bool{}}
	defer func() {
		if err != nil {
			m.close(ctx)
		}
	}()
	dir, err := filepath.EvalSymlinks(h.Path(req.Repository))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, host.Usagef("%s: there is no such directory", host.Clean(req.Repository))
	}
	checkout := commits.Around(dir)
	if checkout.Top == "" {
		return nil, host.Usagef("%s is in no git repository", host.Clean(req.Repository))
	}
	if req.Dockerfile != "" {
		if m.options.Dockerfile, err = readDockerfile(h.Path(req.Dockerfile)); err != nil {
			return nil, host.Usagef("--dockerfile %s: %w", host.Clean(req.Dockerfile), err)
		}
	}
	if err := checkSettings(h, req); err != nil {
		return nil, err
	}
	scratch, remove, err := cache.Temp("rollout-mine-")
	if err != nil {
		return nil, fmt.Errorf("mine %s: %w", host.Clean(req.Repository), err)
	}
	m.remove = append(m.remove, remove)
	client := git.New(git.Options{Environ: h.AllVariables(), MaxBytes: maxTree, MaxFiles: maxTreeFiles})
	m.repo, err = client.Local(ctx, checkout.Top, checkout.Objects, "HEAD", scratch)
	if errors.Is(err, git.ErrNoCommit) {
		return nil, host.Usagef("%s has no commit", host.Clean(req.Repository))
	}
	if err != nil {
		return nil, err
	}
	if err := m.place(checkout.Top); err != nil {
		return nil, err
	}
	if err := m.readRecord(); err != nil {
		return nil, err
	}
	if err := m.readPulls(); err != nil {
		return nil, err
	}
	return m, nil
}

// place makes the directory in which tasks are written before they are proven: next to the dataset,
// so that proven ones can be renamed. A dry run writes none.
func (m *mining) place(top string) error {
	out, err := filepath.Abs(m.host.Path(m.req.Out))
	if err != nil {
		return err
	}
	if link := m.linkOnTheWay(top); link != "" {
		return host.Usagef("--out %s: %s is a symbolic link of the repository; name a directory without one", host.Clean(m.req.Out), host.Clean(link))
	}
	m.options.Image, m.options.VerifierSec = m.req.Image, verifierSec
	below := ""
	if real, err := filepath.EvalSymlinks(filepath.Dir(out)); err == nil {
		out = filepath.Join(real, filepath.Base(out))
	}
	if rel, err := filepath.Rel(top, out); err == nil && filepath.IsLocal(rel) {
		below = filepath.ToSlash(rel)
	}
	m.options.Skip = func(name string) bool { return below != "" && (below == "." || strings.HasPrefix(name, below+"/")) }
	if m.req.DryRun {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("make the directory of the dataset: %w", err)
	}
	dir, remove, err := cache.TempIn(filepath.Dir(out), stagingPrefix)
	if err != nil {
		return fmt.Errorf("make the directory of the dataset: %w", err)
	}
	m.remove = append(m.remove, remove)
	m.staging = filepath.Join(dir, filepath.Base(out)) // trials are named after it
	return os.Mkdir(m.staging, 0o755)
}

// linkOnTheWay returns the first symbolic link of the repository that the path of the dataset goes
// through, from the top of the repository; "" if there is none. A commit may have put it there, and
// it could lead anywhere.
func (m *mining) linkOnTheWay(top string) string {
	out := m.req.Out
	if !filepath.IsAbs(out) {
		here, err := filepath.EvalSymlinks(m.host.Path("."))
		if err != nil {
			return ""
		}
		out = filepath.Join(here, out)
	}
	rel, err := filepath.Rel(top, out)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	way := ""
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		way = filepath.Join(way, part)
		if info, err := os.Lstat(filepath.Join(top, way)); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return way
		}
	}
	return ""
}

// close removes the directories. A command that was cancelled has little time to print its table,
// so it does not wait for that long: the next run removes the rest.
func (m *mining) close(ctx context.Context) {
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		for _, remove := range slices.Backward(m.remove) {
			_ = remove()
		}
	}()
	select {
	case <-removed:
	case <-ctx.Done():
		select {
		case <-removed:
		case <-time.After(time.Second):
		}
	}
}

// out returns the path of a task of the dataset.
func (m *mining) out(task string) string { return filepath.Join(m.host.Path(m.req.Out), task) }

func (m *mining) exists(task string) bool {
	_, err := os.Lstat(m.out(task))
	return err == nil
}

// dockerfile returns the Dockerfile of a candidate's task.
func (m *mining) dockerfile(c *mine.Candidate) string {
	return cmp.Or(string(m.options.Dockerfile), c.Dockerfile(m.req.Image))
}

// write writes the tasks of the promising candidates; a dry run keeps their Dockerfiles only.
func (m *mining) write(ctx context.Context) error {
	if m.req.DryRun {
		m.Dockerfiles = map[string]string{}
	}
	for i := range m.Candidates {
		c := &m.Candidates[i]
		if c.Reason != mine.Promising {
			continue
		}
		if m.req.DryRun {
			m.Dockerfiles[c.Task] = m.dockerfile(c)
			continue
		}
		m.tried[c.Commit] = true
		dir := filepath.Join(m.staging, c.Task)
		if err := mine.Write(ctx, m.repo, c, dir, m.options); err != nil {
			return err
		}
		if c.Reason == mine.Promising {
			lint(c, dir)
		}
		if c.Reason != mine.Promising {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// lint drops a candidate if a rule of validate finds an error in its files: the proof would find
// it, too, and only after its runs.
func lint(c *mine.Candidate, dir string) {
	if f, found := flaw(prove.Lint(task.Load(dir))); found {
		c.Reason, c.Detail = mine.Flawed, host.Clean(f.Rule+": "+f.Message)
	}
}

// readDockerfile reads the user's Dockerfile.
func readDockerfile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, errors.New("there is no such file")
	case !info.Mode().IsRegular(), info.Size() > maxDockerfile:
		return nil, errors.New("want a regular file of at most 1 MiB")
	}
	return os.ReadFile(name)
}
