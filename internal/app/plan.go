package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/trial"
)

// planned is the second stage of a job: the trials and the directory of this run are known.
type planned struct {
	*loaded
	specs []trial.Spec // of the whole job
	// shard is the part to run, and shardOf has the part of each of specs; nil: everything runs.
	shard   *result.Shard
	shardOf []int
	into    string // the directory of the existing job that is resumed; "": a new one, by the job's name
	run     int    // the number in the job's name, if it has one
	proves  bool   // the trials prove tasks
	// reverifies is the directory of the job whose trials are verified again, or only judged again
	// if onlyJudges is true; "": none.
	reverifies string
	onlyJudges bool
	report     ReportOptions // how the job will be reported
	// failFast: no trial starts after one that failed.
	failFast bool
	// beside describes the job that runs with this one, and commit is the commit of this one; nil
	// and "": no such job, and the commit of the checkout.
	beside *result.Beside
	commit string
	rerun  string // additional flags of the command that resumes the job, each after a space
}

// plan returns the trials of a loaded job.
func (l *loaded) plan() (*planned, error) {
	p := &planned{loaded: l, specs: job.Plan(l.Job, l.sets, l.Env)}
	for i, s := range p.specs {
		p.specs[i].Files = l.files[s.Key.Agent]
	}
	l.judged(p.specs)
	if err := job.CheckNames(job.Keys(p.specs)); err != nil {
		return nil, usage("%s: %w", l.File, err)
	}
	if err := p.number(); err != nil {
		return nil, err
	}
	return p, nil
}

// number gives a job with a numbered name the number after the highest one in jobs_dir.
func (p *planned) number() error {
	if p.Numbered == nil {
		return nil
	}
	entries, err := os.ReadDir(p.host.Path(p.Job.JobsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find a number for the job's name: %w", err)
	}
	// The text before and after the number is the same in all names.
	first, second := p.Numbered(1), p.Numbered(2)
	before := 0
	for first[before] == second[before] {
		before++
	}
	n := 0
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), first[:before])
		if !ok {
			continue
		}
		digits = digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
		if i, err := strconv.Atoi(digits); err == nil && i > n && i < maxNumber && p.Numbered(i) == e.Name() {
			n = i
		}
	}
	p.run = n + 1
	p.Job.Name = p.Numbered(p.run)
	return nil
}

// maxNumber is the exclusive upper limit of the numbers in job names that are continued.
const maxNumber = 1_000_000_000

// rename gives a job another name, because another run has created its directory. It reports false
// if there is no other name.
func (p *planned) rename(n int, name string) bool {
	switch {
	case p.shard != nil:
		return false
	case p.Numbered != nil:
		p.run++
		p.Job.Name = p.Numbered(p.run)
	case p.Unnamed: // begun in the same second
		p.Job.Name = fmt.Sprintf("%s-%d", name, n)
	default:
		return false
	}
	return true
}

// loadPlan loads a job and plans its trials.
func loadPlan(ctx context.Context, h *Host, req JobRequest) (*planned, error) {
	l, err := loadTarget(ctx, h, req)
	if err != nil {
		return nil, err
	}
	p, err := l.plan()
	if err != nil {
		l.close()
		return nil, err
	}
	return p, nil
}

// Plan lists the trials of a job.
type Plan struct {
	Job      config.Job
	Trials   []result.Key // in the order in which they start
	Warnings diag.List
}

// PlanJob returns the trials that a job would run. It contacts no provider.
func PlanJob(ctx context.Context, h *Host, req JobRequest) (Plan, error) {
	req.unused, req.unrun = true, true
	p, err := loadPlan(ctx, h, req)
	if err != nil {
		return Plan{}, err
	}
	defer p.close()
	return Plan{Job: p.Job, Trials: job.Keys(p.specs), Warnings: p.Warnings}, nil
}

// readTimings reads the durations of an earlier job's trials; none without a path.
func readTimings(paths Paths, out Output, path string) (job.Timings, error) {
	if path == "" {
		return nil, nil
	}
	earlier, unreadable, err := result.ReadJob(paths.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("--timings %s: there is no such directory or file", path)
	}
	if err != nil {
		return nil, usage("--timings: %w", err)
	}
	for _, u := range unreadable {
		warnf(out, "timings: %v", u)
	}
	return job.TimingsOf(earlier), nil
}

// checkShardable refuses a name whose shards could be mistaken for those of another job: the
// pattern eval-shard-* for artifacts of "eval" also matches those of "eval-shard-x".
func (p *planned) checkShardable() error {
	if other, _, found := strings.Cut(p.Job.Name, result.ShardInfix); found {
		return usage("the job's name %s has %q in it: where the shards of a job %s are downloaded by %s%s*, those of this one would be, too; choose another name",
			clean(p.Job.Name), result.ShardInfix, clean(other), clean(other), result.ShardInfix)
	}
	return nil
}

// split reduces the plan to one shard of its job.
func (p *planned) split(shard *result.Shard, timings string) error {
	if shard != nil && p.Numbered != nil {
		return usage("%s: outside a workflow, {run} in name is a number that each machine would choose by itself, and all shards of a job have one name: give --name, or use {commit}", clean(p.File))
	}
	if shard == nil {
		if timings != "" {
			return usage("--timings says how to divide a job into shards: it needs --shard")
		}
		return nil
	}
	if err := p.checkShardable(); err != nil {
		return err
	}
	durations, err := readTimings(p.host.Paths, p.host.Output, timings)
	if err != nil {
		return err
	}
	p.shard, p.shardOf = shard, job.Shards(p.specs, shard.Total, durations)
	if own := p.own(); len(own) == 0 {
		linef(p.host.Output, "Shard %s has nothing to do: the job has only %s", shard, plural.Count(len(p.specs), "trial"))
	}
	return nil
}

// divideLike makes p the same part of the job as an earlier plan, whatever a new division would be.
func (p *planned) divideLike(plan result.Plan) {
	p.shard, p.shardOf = plan.Shard, nil
	if plan.Shard == nil {
		return
	}
	of := make(map[result.Key]int, len(plan.Trials))
	for i, key := range plan.Trials {
		of[key] = plan.ShardOf[i]
	}
	p.shardOf = make([]int, len(p.specs))
	for i, s := range p.specs {
		p.shardOf[i] = max(1, of[s.Key]) // a new trial is reported as drift
	}
}

// own returns the trials of this run: those of its shard, or all.
func (p *planned) own() []trial.Spec {
	if p.shard == nil {
		return p.specs
	}
	var own []trial.Spec
	for i, s := range p.specs {
		if p.shardOf[i] == p.shard.Index {
			own = append(own, s)
		}
	}
	return own
}

// dir returns the job's directory. Each shard has its own, so that one machine can hold all of
// them.
func (p *planned) dir() string {
	if p.into != "" {
		return p.into
	}
	name := p.Job.Name
	if p.shard != nil {
		name += shardSuffix(*p.shard)
	}
	return filepath.Join(p.Job.JobsDir, name)
}

// ShardName returns the name of a shard in file and artifact names.
func ShardName(s result.Shard) string { return fmt.Sprintf("%d-of-%d", s.Index, s.Total) }

// record returns the job's plan for plan.json. If ctx ends, it returns an ErrCancelled.
func (p *planned) record(ctx context.Context) (result.Plan, error) {
	if err := eachTask(ctx, "Hashing tasks", p.tasks(), func(_ int, t *task.Task) { t.Digest() }); err != nil { // each keeps its digest
		return result.Plan{}, cancelled("cancelled before all tasks were read: nothing was run")
	}
	h := p.host
	here, err := filepath.Abs(h.Path("."))
	if err != nil {
		return result.Plan{}, fmt.Errorf("find the current directory: %w", err)
	}
	pathsFrom, err := job.PathsFrom(h.Path(p.dir()), p.PathsFrom)
	if err != nil {
		return result.Plan{}, fmt.Errorf("make the job's directory %s: %w", h.Path(p.dir()), err)
	}
	checkout := h.checkout(p.path)
	if p.commit != "" {
		checkout = task.Checkout{Commit: &p.commit}
	}
	var parents []string
	if h.GitHub().Inside { // only a workflow needs them
		parents = parentsOf(ctx, h.Variables, checkout)
	}
	namedAs := p.NameAsWritten
	if namedAs == p.Job.Name {
		namedAs = ""
	}
	return job.Record(p.Job, p.specs, job.RecordOptions{
		StartedAt: h.Now(), Commit: checkout.Commit, Parents: parents, Dir: here, Shard: p.shard, ShardOf: p.shardOf,
		PathsFrom: pathsFrom, Compared: p.report.compares(), ProvesTasks: p.proves, Reverifies: p.reverifies, OnlyJudges: p.onlyJudges, Beside: p.beside,
		NamedAs: namedAs, Rollout: h.Build,
	})
}

// checkout returns the checkout that contains a job file; for standard input, that of the current
// directory.
func (h *Host) checkout(jobFile string) task.Checkout {
	if h.Guard != nil {
		if commit := h.Guard.Commit(); commit != "" {
			return task.Checkout{Commit: &commit} // instead of the commit that the checkout names
		}
	}
	from := h.Path(".")
	if jobFile != "-" {
		from = filepath.Dir(h.Path(jobFile))
	}
	if abs, err := filepath.Abs(from); err == nil {
		from = abs
	}
	return task.CheckoutAround(from)
}

// commit returns the commit of the checkout that contains a job file; "" if there is none.
func (h *Host) commit(jobFile string) string {
	if commit := h.checkout(jobFile).Commit; commit != nil {
		return *commit
	}
	return ""
}

// parentsOf returns the parents of the commit that is checked out; nil if unknown.
func parentsOf(ctx context.Context, vars Variables, checkout task.Checkout) []string {
	if checkout.Commit == nil || checkout.Objects == "" {
		return nil
	}
	opts := git.Options{Timeout: 30 * time.Second, Environ: vars.all()}
	parents, err := git.New(opts).Parents(ctx, checkout.Objects, *checkout.Commit)
	if err != nil {
		return nil // GitHub is asked
	}
	return parents
}

// resumption returns the command that resumes a job, with the report flags that are not stored in
// its directory.
func resumption(paths Paths, dir string, plan result.Plan, report ReportOptions) string {
	command := "rollout resume " + quotedPath(dir)
	stored := resume.Job{Dir: paths.Path(dir), Plan: plan}
	if from, err := stored.PathsFrom(); err != nil || !isDir(from) {
		command += " --job-file JOB_FILE"
	}
	return command + report.flags(plan.Compared)
}
