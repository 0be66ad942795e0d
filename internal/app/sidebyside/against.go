package sidebyside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// earlier holds a job file and its agents' files as they were in a commit, written to a directory
// of the cache or to a temporary one.
type earlier struct {
	given  string // the flag and its value, for errors
	commit string
	dir    string // the root of the repository
	file   string // the job file, relative to dir
	close  func()
}

// against returns the job that the job file of a commit describes, with the tasks of p, to be run
// alongside p.
func against(ctx context.Context, p *stages.Planned, req stages.JobRequest, flag, ref string) (_ *stages.Planned, err error) {
	h, given := p.Host, flag+" "+host.Clean(ref)
	switch {
	case p.Implied, p.Path == "-":
		return nil, host.Usagef("%s takes the job file of a commit: it needs a job file in a git repository", flag)
	case h.Guard != nil && h.Guard.Commit() != "":
		return nil, host.Usagef("%s: for changes from a fork with secrets, Rollout runs nothing but the files of a commit that it compared", given)
	}
	opts, err := stages.LoadOptions(h, req)
	if err != nil {
		return nil, err
	}
	opts.Selection, opts.Admit, opts.Commit, opts.AnyAgents, opts.Name = config.Selection{}, nil, nil, true, p.Job.Name
	opts.OnlyAgents, opts.AlsoModels = nil, stages.JudgeModels(p.Sets)
	for _, a := range p.Job.Agents {
		opts.OnlyAgents = append(opts.OnlyAgents, a.Name)
	}
	if opts.Overrides, err = sameTasks(p, opts.Overrides); err != nil {
		return nil, err
	}
	was, err := earlierFiles(ctx, h, p.Path, given, ref, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			was.close()
		}
	}()
	l, err := loadEarlier(ctx, p, was, opts)
	if err != nil {
		return nil, err
	}
	b := &stages.Planned{Loaded: l, Pairing: stages.Pairing{Commit: was.commit}, Orders: stages.Orders{Report: reporting.ReportOptions{GitHub: "off"}}}
	b.LeftBySelection = p.LeftBySelection
	b.Specs = job.Plan(l.Job, p.Sets, l.Env)
	b.LeaveOutLike(result.Plan{NotAffected: p.NotAffected})
	rank := map[result.Key]int{}
	for i, s := range p.Specs {
		rank[s.Key] = i
	}
	slices.SortStableFunc(b.Specs, func(x, y trial.Spec) int { return rank[x.Key] - rank[y.Key] })
	for i, s := range b.Specs {
		b.Specs[i].Files = l.Files[s.Key.Agent]
		if p.Shard != nil {
			b.ShardOf = append(b.ShardOf, p.ShardOf[rank[s.Key]])
		}
	}
	l.Judged(b.Specs)
	b.Shard = p.Shard
	return b, nil
}

// sameTasks appends the overrides that give a job file the tasks, attempts and place of p.
func sameTasks(p *stages.Planned, overrides []config.Override) ([]config.Override, error) {
	datasets := slices.Clone(p.Job.Datasets)
	for i := range datasets {
		if r := datasets[i].Registry; r == nil {
			datasets[i].Path = p.DatasetDirs[i]
		} else if r.Path != "" {
			datasets[i].Registry = &config.Registry{Path: p.Registries[i]}
		}
	}
	out := slices.Clone(overrides)
	for _, key := range []struct {
		path  string
		value any
		zero  bool
	}{
		{"datasets", datasets, len(datasets) == 0},
		{"tasks", p.TaskDirs, len(p.TaskDirs) == 0},
		{"tasks_format", p.Job.TasksFormat, p.Job.TasksFormat == ""},
		{"include_tasks", p.Job.IncludeTasks, len(p.Job.IncludeTasks) == 0},
		{"exclude_tasks", p.Job.ExcludeTasks, len(p.Job.ExcludeTasks) == 0},
		{"n_attempts", p.Job.NAttempts, false},
		{"n_concurrent_trials", p.Job.NConcurrentTrials, false},
		{"jobs_dir", p.Job.JobsDir, false},
		{"log_level", p.Job.LogLevel, false},
		{"metrics", p.Job.Metrics, len(p.Job.Metrics) == 0},
		{"budget", p.Job.Budget, p.Job.Budget == config.Budget{}},
		{"affects", nil, true}, // today's say what is left out
		{"gate", nil, true},    // the gate compares today's job with this one
	} {
		value := "null"
		if !key.zero {
			text, err := json.Marshal(key.value)
			if err != nil {
				return nil, fmt.Errorf("take the key %s of the job: %w", key.path, err)
			}
			value = string(text)
		}
		out = append(out, config.Override{Path: key.path, Value: value, Origin: "--against"})
	}
	return out, nil
}

// earlierFiles reads a job file and its agents' files from a commit.
func earlierFiles(ctx context.Context, h *host.Host, jobFile, given, ref string, opts config.Options) (_ *earlier, err error) {
	checkout, name, err := placeOf(h, jobFile, given)
	if err != nil {
		return nil, err
	}
	scratch, remove, err := cache.Temp("rollout-against-")
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", host.Clean(ref), err)
	}
	defer remove() // if that fails, the next run removes it
	local, err := git.New(git.Options{Environ: h.AllVariables()}).Local(ctx, checkout.Top, checkout.Objects, ref, scratch)
	if errors.Is(err, git.ErrNoCommit) {
		return nil, host.Usagef("%s: %w", given, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", given, err)
	}
	if h.Guard != nil {
		if err := h.Guard.AdmitCommit(local.ID, checkout.Objects); err != nil {
			return nil, err
		}
	}
	was := &earlier{given: given, commit: local.ID, file: name}
	first, jobFiles, err := was.exportJobFile(ctx, local, scratch)
	if err != nil {
		return nil, err
	}
	alone := opts
	alone.OnlyJobFile = true // nothing else of the commit is there yet
	loaded, err := was.load(first, alone)
	if err != nil {
		return nil, err
	}
	wanted, err := was.wantedFiles(first, loaded)
	if err != nil {
		return nil, err
	}
	keep := func(file string) bool {
		if jobFiles[file] || path.Base(file) == ".gitignore" || wanted["."] {
			return true
		}
		for ; file != "."; file = path.Dir(file) {
			if wanted[file] {
				return true
			}
		}
		return false
	}
	export := func(into string) error {
		_, warnings, err := local.Export(ctx, keep, into)
		for _, w := range warnings {
			host.Warnf(h.Output, "%s: %s", host.Clean(ref), host.Clean(w))
		}
		if err == nil { // the root of a working tree, where .gitignore files begin to count
			err = os.WriteFile(filepath.Join(into, ".git"), nil, 0o644)
		}
		return err
	}
	key := cache.Key{Kind: "against", Text: strings.Join(append([]string{local.ID, name}, slices.Sorted(maps.Keys(wanted))...), "\n"), About: "agents of commit " + host.ShortCommit(local.ID)}
	if err := was.keep(ctx, h, key, export); err != nil {
		return nil, fmt.Errorf("%s: %w", was.given, err)
	}
	return was, nil
}

// placeOf returns the working tree of a job file, and the job file's path in it.
func placeOf(h *host.Host, jobFile, given string) (_ commits.Checkout, name string, err error) {
	full, err := filepath.Abs(h.Path(jobFile))
	if err != nil {
		return commits.Checkout{}, "", fmt.Errorf("find the job file: %w", err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		return commits.Checkout{}, "", fmt.Errorf("find the job file: %w", err)
	}
	checkout := commits.Around(dir)
	below, err := filepath.Rel(checkout.Top, dir)
	if checkout.Top == "" || err != nil {
		return commits.Checkout{}, "", host.Usagef("%s: %s is in no git repository", given, host.Clean(jobFile))
	}
	return checkout, path.Join(filepath.ToSlash(below), filepath.Base(full)), nil
}

// wantedFiles returns the names of the files and directories of the commit that the agents of its
// job file bring along, of the scripts of its models, and of its judges' files. The job file was
// written below root.
func (was *earlier) wantedFiles(root string, loaded *config.Loaded) (map[string]bool, error) {
	wanted := map[string]bool{}
	add := func(at, whose, source string) error {
		below, err := filepath.Rel(root, at)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			return host.Usagef("%s: %s: %s is not in the repository, so it is not known how it was", was.given, whose, host.Clean(source))
		}
		wanted[filepath.ToSlash(below)] = true
		return nil
	}
	for _, f := range loaded.JudgeFiles {
		if err := add(f.Path, fmt.Sprintf("%s of judge %q", f.Key, host.Clean(f.Judge)), f.Given); err != nil {
			return nil, err
		}
	}
	for _, a := range loaded.Job.AllAgents() {
		for i, at := range loaded.AgentFiles[a.Name] {
			if err := add(at, fmt.Sprintf("files of agent %q", host.Clean(a.Name)), a.Files[i].Source); err != nil {
				return nil, err
			}
		}
	}
	for name, at := range loaded.ScriptFiles {
		if err := add(at, fmt.Sprintf("script of model %q", host.Clean(name)), loaded.Job.Models[name].Script); err != nil {
			return nil, err
		}
	}
	for name, at := range loaded.RecordDirs {
		if loaded.Job.Models[name].Replay == "" {
			continue
		}
		if err := add(at, fmt.Sprintf("replay of model %q", host.Clean(name)), loaded.Job.Models[name].Replay); err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

// exportJobFile writes the job file of the commit and, if it is a link, the files that it leads to,
// to a directory below scratch. It returns the directory and the names of the written files. A link
// that leads out of the commit is refused.
func (was *earlier) exportJobFile(ctx context.Context, local *git.Local, scratch string) (dir string, names map[string]bool, err error) {
	const maxLinks = 10
	names = map[string]bool{}
	for file := was.file; len(names) < maxLinks; {
		names[file] = true
		dir = filepath.Join(scratch, fmt.Sprintf("first-%d", len(names)))
		n, _, err := local.Export(ctx, func(f string) bool { return names[f] }, dir)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", was.given, err)
		}
		if n == 0 {
			return "", nil, host.Usagef("%s: commit %s has no %s, so there is nothing to compare with: give a commit with this file", was.given, host.ShortCommit(was.commit), host.Clean(was.file))
		}
		at := filepath.Join(dir, filepath.FromSlash(file))
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil, was.badLink(file, "which is no file of this commit")
		case err != nil:
			return "", nil, fmt.Errorf("%s: %w", was.given, err)
		case info.Mode().IsRegular():
			return dir, names, nil
		case info.Mode().Type() != fs.ModeSymlink:
			return "", nil, host.Usagef("%s: %s is no file", was.given, was.shown(file))
		}
		target, err := os.Readlink(at)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", was.given, err)
		}
		to := path.Join(path.Dir(file), filepath.ToSlash(target))
		if filepath.IsAbs(target) || !filepath.IsLocal(filepath.FromSlash(to)) {
			return "", nil, was.badLink(target, "which is not in the repository")
		}
		if file = to; names[file] {
			break // a loop of links
		}
	}
	return "", nil, was.badLink(was.file, "which leads through too many links")
}

func (was *earlier) badLink(target, why string) error {
	return host.Usagef("%s: %s is a link to %s, %s: give a commit in which it is a file", was.given, was.shown(was.file), host.Clean(target), why)
}

// shown returns the name of a file of the commit as git writes it.
func (was *earlier) shown(file string) string {
	return host.ShortCommit(was.commit) + ":" + host.Clean(file)
}

// keep writes the files of a commit to the cache or to a temporary directory.
func (was *earlier) keep(ctx context.Context, h *host.Host, key cache.Key, export func(into string) error) error {
	const part = "tree"
	store, err := host.OpenCache(h.Variables)
	if wrong := (*host.UsageError)(nil); errors.As(err, &wrong) {
		return err
	}
	if err == nil {
		held, err := store.Open(ctx, key)
		if err == nil {
			if err := held.Fill(ctx, []string{part}, func(_ context.Context, draft string, _ []string) error { return export(filepath.Join(draft, part)) }); err != nil {
				return errors.Join(err, held.Close())
			}
			was.dir, was.close = held.Part(part), func() { _ = held.Close() }
			return nil
		}
	}
	dir, remove, err := cache.Temp("rollout-against-")
	if err != nil {
		return err
	}
	if err := export(filepath.Join(dir, part)); err != nil {
		return errors.Join(err, remove())
	}
	was.dir, was.close = filepath.Join(dir, part), func() { _ = remove() }
	return nil
}

// load loads the job file of the commit below root. Problems name it as git does.
func (was *earlier) load(root string, opts config.Options) (*config.Loaded, error) {
	file := filepath.Join(root, filepath.FromSlash(was.file))
	loaded, err := config.Load(file, opts)
	return loaded, was.named(err, root)
}

// named returns err with the paths below root replaced by git's names for the files of the commit.
func (was *earlier) named(err error, root string) error {
	var problems diag.List
	if !errors.As(err, &problems) {
		return err
	}
	below := root + string(filepath.Separator)
	named := slices.Clone(problems)
	for i, p := range named {
		if file, ok := strings.CutPrefix(p.File, below); ok {
			named[i].File = was.shown(filepath.ToSlash(file))
		}
		named[i].Message = strings.ReplaceAll(p.Message, below, host.ShortCommit(was.commit)+":")
		named[i].Hint = strings.ReplaceAll(p.Hint, below, host.ShortCommit(was.commit)+":")
	}
	return named
}

// loadEarlier loads the job of a commit with the tasks of p.
func loadEarlier(ctx context.Context, p *stages.Planned, was *earlier, opts config.Options) (*stages.Loaded, error) {
	file, err := was.load(was.dir, opts)
	if err != nil {
		return nil, err
	}
	if len(file.Job.Agents) == 0 {
		var names []string
		for _, a := range p.Job.Agents {
			names = append(names, a.Name)
		}
		return nil, host.Usagef("%s: commit %s has none of the agents of this job: %s", was.given, host.ShortCommit(was.commit), host.Joined(names))
	}
	settings, err := stages.Settings(p.Host, file.Job.Environment)
	if err != nil {
		return nil, err
	}
	// A relative path would be looked up below the copy of the commit, but the directory is
	// today's.
	for _, name := range slices.Sorted(maps.Keys(file.RecordDirs)) {
		if m := file.Job.Models[name]; m.RecordTo != "" {
			host.Linef(p.Host.Output, "%s: the exchanges of the model %s are not recorded for the job of commit %s, only for today's: record_to does not count there", was.given, host.Clean(name), host.ShortCommit(was.commit))
			m.RecordTo = ""
			file.Job.Models[name] = m
			delete(file.RecordDirs, name)
		}
	}
	l := &stages.Loaded{Loaded: file, Host: p.Host, Path: filepath.Join(was.dir, filepath.FromSlash(was.file)), Getenv: p.Getenv, Settings: settings, Sets: p.Sets, AllTaskDirs: p.AllTaskDirs, Release: was.close}
	if err := l.LoadAgentFiles(ctx); err != nil {
		if err := was.named(err, was.dir); errors.As(err, new(diag.List)) || ctx.Err() != nil {
			return nil, err
		}
		return nil, host.Usagef("%s: commit %s: %w", was.given, host.ShortCommit(was.commit), err) // such as a link that leads out of it
	}
	if err := l.CheckJudges(stages.JobRequest{}); err != nil {
		return nil, was.named(err, was.dir)
	}
	return l, nil
}

// sharedAgents returns the agents that are the same in two jobs: their scripts, files, variables
// and configuration.
func sharedAgents(a, b *stages.Planned) map[string]bool {
	first, second := experiment.DigestsOf(a.Job, a.Inputs()), experiment.DigestsOf(b.Job, b.Inputs())
	shared := map[string]bool{}
	judged := slices.ContainsFunc(a.Tasks(), func(t *task.Task) bool { return first.ConfigOf(t) != second.ConfigOf(t) })
	for name, digest := range second.Agents {
		if first.Config == second.Config && !judged && first.Agents[name] == digest {
			shared[name] = true
		}
	}
	return shared
}

// missingAgents returns the names of the agents in of that are not in the other list.
func missingAgents(of, in []agent.Agent) []string {
	var names []string
	for _, a := range of {
		if !slices.ContainsFunc(in, func(b agent.Agent) bool { return a.Name == b.Name }) {
			names = append(names, a.Name)
		}
	}
	return names
}
