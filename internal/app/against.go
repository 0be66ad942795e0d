package app

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

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
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

// againstSuffix returns the suffix that the name of a --against baseline adds to the name of its
// job.
func againstSuffix(commit string) string { return "-against-" + ShortCommit(commit) }

// besideDir returns the directory of the baseline that ran with the job in dir, or "" if there is
// none.
func besideDir(paths Paths, dir string, plan result.Plan) string {
	if plan.Beside == nil || plan.Beside.Baseline {
		return ""
	}
	suffix, ok := strings.CutPrefix(plan.Beside.JobName, plan.JobName)
	if !ok || suffix != againstSuffix(plan.Beside.Commit) || result.Slug(suffix) != suffix {
		return ""
	}
	shard := ""
	if plan.Shard != nil {
		shard = shardSuffix(*plan.Shard)
	}
	if name := filepath.Base(dir); name == "." || name == ".." { // which do not tell where the baseline is
		if abs, err := filepath.Abs(paths.Path(dir)); err == nil {
			dir = abs
		}
	}
	base := strings.TrimSuffix(filepath.Clean(dir), shard) + suffix + shard
	if other, err := result.ReadPlanHead(paths.Path(base)); err != nil || other.Beside == nil || !other.Beside.Baseline {
		return ""
	}
	return base
}

// against returns the job that the job file of a commit describes, with the tasks of p, to be run
// alongside p.
func (p *planned) against(ctx context.Context, req JobRequest, flag, ref string) (_ *planned, err error) {
	h, given := p.host, flag+" "+clean(ref)
	switch {
	case p.implied, p.path == "-":
		return nil, usage("%s takes the job file of a commit: it needs a job file in a git repository", flag)
	case h.Guard != nil && h.Guard.Commit() != "":
		return nil, usage("%s: for changes from a fork with secrets, Rollout runs nothing but the files of a commit that it compared", given)
	}
	opts, err := loadOptions(h, req)
	if err != nil {
		return nil, err
	}
	opts.Selection, opts.Admit, opts.Commit, opts.AnyAgents, opts.Name = config.Selection{}, nil, nil, true, p.Job.Name
	opts.OnlyAgents, opts.AlsoModels = nil, judgeModels(p.sets)
	for _, a := range p.Job.Agents {
		opts.OnlyAgents = append(opts.OnlyAgents, a.Name)
	}
	if opts.Overrides, err = p.sameTasks(opts.Overrides); err != nil {
		return nil, err
	}
	was, err := h.earlierFiles(ctx, p.path, given, ref, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			was.close()
		}
	}()
	l, err := p.loadEarlier(ctx, was, opts)
	if err != nil {
		return nil, err
	}
	b := &planned{loaded: l, commit: was.commit, report: ReportOptions{GitHub: "off"}}
	b.specs = job.Plan(l.Job, p.sets, l.Env)
	rank := map[result.Key]int{}
	for i, s := range p.specs {
		rank[s.Key] = i
	}
	slices.SortStableFunc(b.specs, func(x, y trial.Spec) int { return rank[x.Key] - rank[y.Key] })
	for i, s := range b.specs {
		b.specs[i].Files = l.files[s.Key.Agent]
		if p.shard != nil {
			b.shardOf = append(b.shardOf, p.shardOf[rank[s.Key]])
		}
	}
	l.judged(b.specs)
	b.shard = p.shard
	return b, nil
}

// sameTasks appends the overrides that give a job file the tasks, attempts and place of p.
func (p *planned) sameTasks(overrides []config.Override) ([]config.Override, error) {
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
		{"gate", nil, true}, // the gate compares today's job with this one
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
func (h *Host) earlierFiles(ctx context.Context, jobFile, given, ref string, opts config.Options) (_ *earlier, err error) {
	full, err := filepath.Abs(h.Path(jobFile))
	if err != nil {
		return nil, fmt.Errorf("find the job file: %w", err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		return nil, fmt.Errorf("find the job file: %w", err)
	}
	checkout := task.CheckoutAround(dir)
	below, err := filepath.Rel(checkout.Top, dir)
	if checkout.Top == "" || err != nil {
		return nil, usage("%s: %s is in no git repository", given, clean(jobFile))
	}
	name := path.Join(filepath.ToSlash(below), filepath.Base(full))
	scratch, remove, err := cache.Temp("rollout-against-")
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", clean(ref), err)
	}
	defer remove() // if that fails, the next run removes it
	local, err := git.New(git.Options{Environ: h.all()}).Local(ctx, checkout.Top, checkout.Objects, ref, scratch)
	if errors.Is(err, git.ErrNoCommit) {
		return nil, usage("%s: %w", given, err)
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
			warnf(h.Output, "%s: %s", clean(ref), clean(w))
		}
		if err == nil { // the root of a working tree, where .gitignore files begin to count
			err = os.WriteFile(filepath.Join(into, ".git"), nil, 0o644)
		}
		return err
	}
	key := cache.Key{Kind: "against", Text: strings.Join(append([]string{local.ID, name}, slices.Sorted(maps.Keys(wanted))...), "\n"), About: "agents of commit " + ShortCommit(local.ID)}
	if err := was.keep(ctx, h, key, export); err != nil {
		return nil, fmt.Errorf("%s: %w", was.given, err)
	}
	return was, nil
}

// wantedFiles returns the names of the files and directories of the commit that the agents of its
// job file bring along, of the scripts of its models, and of its judges' files. The job file was
// written below root.
func (was *earlier) wantedFiles(root string, loaded *config.Loaded) (map[string]bool, error) {
	wanted := map[string]bool{}
	add := func(at, whose, source string) error {
		below, err := filepath.Rel(root, at)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			return usage("%s: %s: %s is not in the repository, so it is not known how it was", was.given, whose, clean(source))
		}
		wanted[filepath.ToSlash(below)] = true
		return nil
	}
	for _, f := range loaded.JudgeFiles {
		if err := add(f.Path, fmt.Sprintf("%s of judge %q", f.Key, clean(f.Judge)), f.Given); err != nil {
			return nil, err
		}
	}
	for _, a := range loaded.Job.AllAgents() {
		for i, at := range loaded.AgentFiles[a.Name] {
			if err := add(at, fmt.Sprintf("files of agent %q", clean(a.Name)), a.Files[i].Source); err != nil {
				return nil, err
			}
		}
	}
	for name, at := range loaded.ScriptFiles {
		if err := add(at, fmt.Sprintf("script of model %q", clean(name)), loaded.Job.Models[name].Script); err != nil {
			return nil, err
		}
	}
	for name, at := range loaded.RecordDirs {
		if loaded.Job.Models[name].Replay == "" {
			continue
		}
		if err := add(at, fmt.Sprintf("replay of model %q", clean(name)), loaded.Job.Models[name].Replay); err != nil {
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
			return "", nil, usage("%s: commit %s has no %s, so there is nothing to compare with: give a commit that has it", was.given, ShortCommit(was.commit), clean(was.file))
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
			return "", nil, usage("%s: %s is no file", was.given, was.shown(file))
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
	return usage("%s: %s is a link to %s, %s: give a commit in which it is a file", was.given, was.shown(was.file), clean(target), why)
}

// shown returns the name of a file of the commit as git writes it.
func (was *earlier) shown(file string) string { return ShortCommit(was.commit) + ":" + clean(file) }

// keep writes the files of a commit to the cache or to a temporary directory.
func (was *earlier) keep(ctx context.Context, h *Host, key cache.Key, export func(into string) error) error {
	const part = "tree"
	store, err := openCache(h.Variables)
	if wrong := (*UsageError)(nil); errors.As(err, &wrong) {
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
		named[i].Message = strings.ReplaceAll(p.Message, below, ShortCommit(was.commit)+":")
		named[i].Hint = strings.ReplaceAll(p.Hint, below, ShortCommit(was.commit)+":")
	}
	return named
}

// loadEarlier loads the job of a commit with the tasks of p.
func (p *planned) loadEarlier(ctx context.Context, was *earlier, opts config.Options) (*loaded, error) {
	file, err := was.load(was.dir, opts)
	if err != nil {
		return nil, err
	}
	if len(file.Job.Agents) == 0 {
		var names []string
		for _, a := range p.Job.Agents {
			names = append(names, a.Name)
		}
		return nil, usage("%s: commit %s has none of the agents of this job: %s", was.given, ShortCommit(was.commit), joined(names))
	}
	settings, err := p.host.settings(file.Job.Environment)
	if err != nil {
		return nil, err
	}
	// A relative path would be looked up below the copy of the commit, but the directory is
	// today's.
	for _, name := range slices.Sorted(maps.Keys(file.RecordDirs)) {
		if m := file.Job.Models[name]; m.RecordTo != "" {
			linef(p.host.Output, "%s: the exchanges of the model %s are not recorded for the job of commit %s, only for today's: record_to does not count there", was.given, clean(name), ShortCommit(was.commit))
			m.RecordTo = ""
			file.Job.Models[name] = m
			delete(file.RecordDirs, name)
		}
	}
	l := &loaded{Loaded: file, host: p.host, path: filepath.Join(was.dir, filepath.FromSlash(was.file)), getenv: p.getenv, settings: settings, sets: p.sets, taskDirs: p.taskDirs, release: was.close}
	if err := l.loadAgentFiles(ctx); err != nil {
		if err := was.named(err, was.dir); errors.As(err, new(diag.List)) || ctx.Err() != nil {
			return nil, err
		}
		return nil, usage("%s: commit %s: %w", was.given, ShortCommit(was.commit), err) // such as a link that leads out of it
	}
	if err := l.checkJudges(JobRequest{}); err != nil {
		return nil, was.named(err, was.dir)
	}
	return l, nil
}

// sharedAgents returns the agents that are the same in two jobs: their scripts, files, variables
// and configuration.
func sharedAgents(a, b *planned) map[string]bool {
	first, second := trial.DigestsOf(a.Job, a.inputs()), trial.DigestsOf(b.Job, b.inputs())
	shared := map[string]bool{}
	judged := slices.ContainsFunc(a.tasks(), func(t *task.Task) bool { return first.ConfigOf(t) != second.ConfigOf(t) })
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

// maxMoved is the highest number of regressed tasks for which besideNote suggests a command. More
// are not explained by the drift of single tasks.
const maxMoved = 10

// besideNote returns the command that runs the regressed tasks together with a baseline measured at
// another time, or "" if there is none.
func besideNote(in report.Input, base *result.Job) string {
	if base == nil || base.Commit == nil || !git.IsID(*base.Commit) || in.Plan.Commit == nil || in.Plan.Beside != nil || in.Diff == nil || in.Verdict.Outcome == gate.Pass {
		return ""
	}
	moved := map[string]bool{}
	for _, t := range in.Diff.Tasks {
		if slices.Contains([]result.Change{result.Broken, result.Errored, result.Worse}, t.Change) {
			moved[t.Task] = true
		}
	}
	if len(moved) == 0 || len(moved) > maxMoved {
		return ""
	}
	command := "rollout run JOB_FILE --name " + quotedPath(in.Plan.JobName+"-again") + " --against " + ShortCommit(*base.Commit)
	for _, name := range slices.Sorted(maps.Keys(moved)) {
		command += " --task " + quotedPath(name)
	}
	return "The baseline ran at another time. To run both now, on the tasks that got worse alone: " + command
}
