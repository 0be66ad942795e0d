package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/registry"
)

// repositoriesAtOnce limits the repositories that are fetched in parallel.
const repositoriesAtOnce = 4

// fetched holds the locations of registry tasks after the fetch.
type fetched struct {
	source *Source
	at     map[*registry.Task]location
}

// location is the directory of a task: one that a path in the registry names, or an export of a
// commit.
type location struct {
	dir       string // absolute
	origin    *task.Origin
	directory git.Directory
}

// request asks for one task of a repository.
type request struct {
	task   *registry.Task
	remote git.Remote
	path   string
}

// snapshot holds all requests for one commit.
type snapshot struct {
	remote   git.Remote
	commit   string
	requests []request
}

// fetchAll fetches the tasks of all picks. picks may contain nil.
func (s *Source) fetchAll(ctx context.Context, picks []*pick) (*fetched, error) {
	f := &fetched{source: s, at: map[*registry.Task]location{}}
	byRevision := map[revision][]request{}
	var order []revision
	var problems diag.List
	for _, p := range picks {
		if p == nil {
			continue
		}
		for _, t := range p.tasks {
			w, problem := p.request(t, git.Trust(!p.registry.Remote() && s.Admit == nil))
			switch {
			case problem != nil && len(problems) < maxProblems:
				problems = append(problems, *problem)
			case problem != nil:
			case w == nil:
				dir := taskDir(p.registry, t.Path)
				if s.Admit != nil {
					var err error
					if dir, err = s.Admit(dir); err != nil {
						return nil, err
					}
				}
				f.at[t] = location{dir: dir}
			default:
				rev := revision{w.remote, t.GitCommitID}
				if byRevision[rev] == nil {
					order = append(order, rev)
				}
				byRevision[rev] = append(byRevision[rev], *w)
			}
		}
	}
	problems.Sort()
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if len(order) == 0 {
		return f, nil
	}
	if s.Cache == nil {
		return nil, fmt.Errorf("fetch datasets: %w", s.CacheErr)
	}
	commits, err := s.resolveAll(ctx, order)
	if err != nil {
		return nil, err
	}
	err = f.snapshots(ctx, snapshotsOf(order, commits, byRevision))
	return f, err
}

// maxProblems limits the registry problems that are reported.
const maxProblems = 20

// request returns the request for a task's repository, or nil for a task without git_url, or the
// problem with the task's location. trust defines whether a repository may be on this machine.
func (p *pick) request(t *registry.Task, trust git.Trust) (*request, *diag.Diagnostic) {
	problem := func(format string, args ...any) (*request, *diag.Diagnostic) {
		d := p.registry.TaskProblem(t, "task %q of %s: %s", t.Name, p.dataset.Label(), fmt.Sprintf(format, args...))
		return nil, &d
	}
	if t.Absent != "" {
		return problem("%s", t.Absent)
	}
	if t.GitURL == "" {
		if p.registry.Remote() {
			return problem("it has no git_url, and a registry behind a URL cannot name directories of this machine")
		}
		if t.Path == "" {
			return problem("it has neither git_url nor path")
		}
		return nil, nil
	}
	remote, err := git.ParseRemote(t.GitURL, p.registry.Dir, trust)
	if err != nil {
		return problem("git_url %v", err)
	}
	if err := git.CheckRevision(t.GitCommitID); err != nil {
		return problem("git_commit_id: %v", err)
	}
	path, err := git.CleanPath(t.Path)
	if err != nil {
		return problem("path %v", err)
	}
	return &request{task: t, remote: remote, path: path}, nil
}

// snapshotsOf groups requests by commit: two revisions may be the same commit.
func snapshotsOf(order []revision, commits map[revision]string, requests map[revision][]request) []*snapshot {
	type name struct{ remote, commit string }
	byName := map[name]*snapshot{}
	var out []*snapshot
	for _, rev := range order {
		n := name{rev.remote.ID(), commits[rev]}
		if byName[n] == nil {
			byName[n] = &snapshot{remote: rev.remote, commit: n.commit}
			out = append(out, byName[n])
		}
		byName[n].requests = append(byName[n].requests, requests[rev]...)
	}
	return out
}

// snapshots fetches all snapshots.
func (f *fetched) snapshots(ctx context.Context, all []*snapshot) error {
	var mu sync.Mutex
	work := event.Begin(ctx, "Fetching datasets", len(all))
	defer work.End()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(repositoriesAtOnce)
	for _, snap := range all {
		group.Go(func() error {
			defer work.Step()
			found, err := f.source.take(ctx, snap)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for t, at := range found {
				f.at[t] = at
			}
			return nil
		})
	}
	return group.Wait()
}

// The files in a part of the cache: the outcome for the path, and the task's directory, if there is
// one.
const (
	notesFile     = "notes.json"
	taskDirectory = "task"
)

// take puts the directories of a snapshot into the cache and returns their locations.
func (s *Source) take(ctx context.Context, snap *snapshot) (map[*registry.Task]location, error) {
	directory, err := s.Cache.Open(ctx, cache.Key{
		Kind: "git", Text: snap.remote.ID() + "\x00" + snap.commit, About: snap.remote.String() + " at " + snap.commit[:12],
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.directories = append(s.directories, directory)
	s.mu.Unlock()
	pathOf, parts := map[string]string{}, []string(nil)
	for _, w := range snap.requests {
		if part := partOf(w.path); pathOf[part] == "" {
			pathOf[part] = w.path
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	transient := map[string]git.Directory{} // failures that are not cached
	err = directory.Fill(ctx, parts, func(ctx context.Context, draft string, missing []string) error {
		return s.export(ctx, snap, draft, missing, pathOf, transient)
	})
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", plural.Count(len(parts), "task"), err)
	}
	out := make(map[*registry.Task]location, len(snap.requests))
	for _, w := range snap.requests {
		at := location{
			dir:    filepath.Join(directory.Part(partOf(w.path)), taskDirectory),
			origin: &task.Origin{URL: snap.remote.String(), Commit: snap.commit, Path: w.path},
		}
		part, notKept := transient[partOf(w.path)]
		if !notKept {
			if part, err = notes(directory.Part(partOf(w.path))); err != nil {
				return nil, err
			}
		}
		at.directory = part
		out[w.task] = at
	}
	return out, nil
}

// export exports the missing parts of the cache. Transient failures go to transient instead.
func (s *Source) export(ctx context.Context, snap *snapshot, draft string, missing []string, pathOf map[string]string, transient map[string]git.Directory) error {
	s.notify("fetching %s of %s at %s", plural.Count(len(missing), "task"), snap.remote, snap.commit[:12])
	paths, names := make([]string, len(missing)), make([]string, len(missing))
	for i, part := range missing {
		paths[i], names[i] = pathOf[part], filepath.Join(part, taskDirectory)
	}
	scratch := filepath.Join(draft, "scratch")
	directories, err := s.Git.Export(ctx, snap.remote, snap.commit, paths, draft, names, scratch)
	if err != nil {
		return err
	}
	for i, part := range missing {
		if directories[i].Transient {
			transient[part] = directories[i]
			if err := os.RemoveAll(filepath.Join(draft, part)); err != nil {
				return err
			}
			continue
		}
		text, err := json.Marshal(directories[i])
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(draft, part), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(draft, part, notesFile), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func notes(dir string) (git.Directory, error) {
	var out git.Directory
	text, err := os.ReadFile(filepath.Join(dir, notesFile))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return out, fmt.Errorf("the cache is damaged (remove %s): %w", filepath.Dir(dir), err)
	}
	return out, nil
}

// partOf returns the name of the part for a path. It is a digest, because a path may be too long
// for a name, or be inside another.
func partOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:12])
}

// revision is a commit as a registry names it.
type revision struct {
	remote git.Remote
	name   string // "" is HEAD
}

// resolveAll returns the commit of each revision.
func (s *Source) resolveAll(ctx context.Context, all []revision) (map[revision]string, error) {
	commits := make(map[revision]string, len(all))
	var mu sync.Mutex
	work := event.Begin(ctx, "Looking up commits of datasets", len(all))
	defer work.End()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(repositoriesAtOnce)
	for _, rev := range all {
		group.Go(func() error {
			defer work.Step()
			commit, err := s.resolve(ctx, rev)
			if err != nil {
				return err
			}
			mu.Lock()
			commits[rev] = commit
			mu.Unlock()
			return nil
		})
	}
	return commits, group.Wait()
}

// resolve asks the repository which commit a revision names now. If that fails, it returns the last
// known commit. An abbreviated id never changes its meaning, so it is looked up once.
func (s *Source) resolve(ctx context.Context, rev revision) (string, error) {
	name := cmp.Or(rev.name, "HEAD")
	if git.IsID(name) {
		return name, nil
	}
	key := cache.Key{Kind: "revision", Text: rev.remote.ID() + "\x00" + name, About: rev.remote.String() + " " + name}
	kept, keptErr := s.Cache.ReadFile(key)
	known := strings.TrimSpace(string(kept.Data))
	if keptErr != nil || !git.IsID(known) {
		known = ""
	}
	if known != "" && git.IsAbbreviated(name) && strings.HasPrefix(known, name) {
		return known, nil
	}
	scratch, err := os.MkdirTemp("", "rollout-git-")
	if err != nil {
		return "", fmt.Errorf("make a directory for %s: %w", rev.remote, err)
	}
	defer os.RemoveAll(scratch)
	commit, err := s.Git.Resolve(ctx, rev.remote, rev.name, scratch)
	switch {
	case err == nil:
		if commit == known {
			return commit, nil
		}
		return commit, s.Cache.WriteFile(key, []byte(commit+"\n"))
	case known == "" || ctx.Err() != nil || errors.Is(err, git.ErrNoCommit):
		return "", err
	}
	s.notify("%v; using %s = %s as of %s", err, name, known[:12], kept.At.UTC().Format("2006-01-02 15:04 UTC"))
	return known, nil
}

// load loads the fetched tasks of a pick. The error is a fault of this machine.
func (f *fetched) load(ctx context.Context, p *pick) ([]*task.Task, error) {
	tasks := make([]*task.Task, len(p.tasks))
	loader := task.Loader{Options: p.ref.Options}
	work := event.Begin(ctx, "Reading tasks", len(p.tasks))
	defer work.End()
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i, t := range p.tasks {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			var err error
			tasks[i], err = f.one(ctx, &loader, p, t)
			work.Step()
			return err
		})
	}
	return tasks, group.Wait()
}

// one loads a task. The error is that of ctx, or a fault of this machine.
func (f *fetched) one(ctx context.Context, loader *task.Loader, p *pick, t *registry.Task) (*task.Task, error) {
	out := f.read(loader, p, t)
	if err := unread(out); err != nil {
		return out, err
	}
	if t.Digest == "" || out.Missing || len(f.at[t].directory.Problems) > 0 {
		return out, nil
	}
	problem, err := checkDigest(ctx, out, t.Digest)
	if problem != nil {
		out.Problems = append(out.Problems, *problem)
		out.Problems.Sort()
	}
	return out, err
}

func (f *fetched) read(loader *task.Loader, p *pick, t *registry.Task) *task.Task {
	at := f.at[t]
	out := loader.LoadAs(at.dir, t.Name, at.origin)
	if at.origin == nil {
		if out.Missing {
			out.Nearest = nearestBeside(p.registry, t.Path)
		}
		return out
	}
	out.GitCommitID = &at.origin.Commit
	for _, text := range at.directory.Problems {
		out.Missing = false
		out.Problems = append(out.Problems, diag.Diagnostic{File: out.File(""), Message: text})
	}
	for _, text := range at.directory.Warnings {
		out.Problems = append(out.Problems, diag.Diagnostic{File: out.File(""), Message: text, Severity: diag.Warning})
	}
	out.Nearest = at.directory.Nearest
	return out
}

// nearestBeside returns the path of a directory whose name is similar to that of the missing
// directory path, or "".
func nearestBeside(reg *registry.Registry, path string) string {
	dir, base := filepath.Split(filepath.Clean(taskDir(reg, path)))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			names = append(names, e.Name())
		}
	}
	if near := diag.Nearest(base, names); near != "" {
		return filepath.Join(dir, near)
	}
	return ""
}
