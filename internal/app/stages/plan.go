package stages

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

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// Planned is the second stage of a job: the trials and the directory of this run are known.
type Planned struct {
	*Loaded
	Specs []trial.Spec // of the whole job
	// Shard is the part to run, and ShardOf has the part of each of Specs; nil: everything runs.
	Shard   *result.Shard
	ShardOf []int
	Into    string // the directory of the existing job that is resumed; "": a new one, by the job's name
	run     int    // the number in the job's name, if it has one
	// NotAffected has the trials that are left out because of what changed, and Affected says why
	// the others are not; nil: see result.Plan. whole are all trials, if some may be left out.
	NotAffected *result.NotAffected
	Affected    *Affected
	whole       []trial.Spec
	Rounds      *result.Rounds // as in result.Plan
	// Found is the baseline if it was looked for before the trials (--reuse baseline); nil: it was
	// not.
	Found *reporting.FoundBaseline
	Orders
	Purpose
	Pairing
}

// Plan returns the trials of a loaded job.
func (l *Loaded) Plan() (*Planned, error) {
	p := &Planned{Loaded: l, Specs: job.Plan(l.Job, l.Sets, l.Env)}
	for i, s := range p.Specs {
		p.Specs[i].Files = l.Files[s.Key.Agent]
	}
	l.Judged(p.Specs)
	if err := job.CheckNames(job.Keys(p.Specs)); err != nil {
		return nil, host.Usagef("%s: %w", l.File, err)
	}
	if err := p.number(); err != nil {
		return nil, err
	}
	return p, nil
}

// number gives a job with a numbered name the number after the highest one in jobs_dir.
func (p *Planned) number() error {
	if p.Numbered == nil {
		return nil
	}
	entries, err := os.ReadDir(p.Host.Path(p.Job.JobsDir))
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
func (p *Planned) rename(n int, name string) bool {
	switch {
	case p.Shard != nil:
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

// LoadPlan loads a job and plans its trials.
func LoadPlan(ctx context.Context, h *host.Host, req JobRequest) (*Planned, error) {
	l, err := LoadTarget(ctx, h, req)
	if err != nil {
		return nil, err
	}
	p, err := l.Plan()
	if err == nil {
		err = p.leaveOut(ctx, req.Changed)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return p, nil
}

// ReadTimings reads the durations of an earlier job's trials; none without a path.
func ReadTimings(paths host.Paths, out host.Output, path string) (job.Timings, error) {
	earlier, err := ReadEarlier(paths, out, path)
	if path == "" || err != nil {
		return nil, err
	}
	return job.TimingsOf(earlier), nil
}

// ReadEarlier reads the earlier job of --timings; an empty one without a path.
func ReadEarlier(paths host.Paths, out host.Output, path string) (result.Job, error) {
	if path == "" {
		return result.Job{}, nil
	}
	earlier, unreadable, err := result.ReadJob(paths.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return result.Job{}, host.Usagef("--timings %s: there is no such directory or file", path)
	}
	if err != nil {
		return result.Job{}, host.Usagef("--timings: %w", err)
	}
	for _, u := range unreadable {
		host.Warnf(out, "timings: %v", u)
	}
	return earlier, nil
}

// CheckShardable refuses a name whose shards could be mistaken for those of another job: the
// pattern eval-shard-* for artifacts of "eval" also matches those of "eval-shard-x".
func (p *Planned) CheckShardable() error {
	if other, _, found := strings.Cut(p.Job.Name, result.ShardInfix); found {
		return host.Usagef("the job's name %s has %q in it: where the shards of a job %s are downloaded by %s%s*, those of this one would be, too; choose another name",
			host.Clean(p.Job.Name), result.ShardInfix, host.Clean(other), host.Clean(other), result.ShardInfix)
	}
	return nil
}

// Split reduces the plan to one shard of its job.
func (p *Planned) Split(shard *result.Shard, timings string) error {
	if shard != nil && p.Numbered != nil {
		return host.Usagef("%s: outside a workflow, {run} in name is a number that each machine would choose by itself, and all shards of a job have one name: give --name, or use {commit}", host.Clean(p.File))
	}
	if shard == nil {
		if timings != "" {
			return host.Usagef("--timings says how to divide a job into shards: it needs --shard")
		}
		return nil
	}
	if err := p.CheckShardable(); err != nil {
		return err
	}
	durations, err := ReadTimings(p.Host.Paths, p.Host.Output, timings)
	if err != nil {
		return err
	}
	p.Shard, p.ShardOf = shard, job.Shards(p.Specs, shard.Total, durations)
	if own := p.Own(); len(own) == 0 {
		host.Linef(p.Host.Output, "Shard %s has nothing to do: the job has only %s", shard, plural.Count(len(p.Specs), "trial"))
	}
	return nil
}

// DivideLike makes p the same part of the job as an earlier plan, whatever a new division would be.
func (p *Planned) DivideLike(plan result.Plan) {
	p.Shard, p.ShardOf = plan.Shard, nil
	if plan.Shard == nil {
		return
	}
	of := make(map[result.Key]int, plan.Trials.Len())
	for i, key := range plan.Trials.All() {
		of[key] = plan.ShardOf[i]
	}
	p.ShardOf = make([]int, len(p.Specs))
	for i, s := range p.Specs {
		p.ShardOf[i] = max(1, of[s.Key]) // a new trial is reported as drift
	}
}

// Own returns the trials of this run: those of its shard, or all.
func (p *Planned) Own() []trial.Spec {
	if p.Shard == nil {
		return p.Specs
	}
	var own []trial.Spec
	for i, s := range p.Specs {
		if p.ShardOf[i] == p.Shard.Index {
			own = append(own, s)
		}
	}
	return own
}

// Dir returns the job's directory. Each shard has its own, so that one machine can hold all of
// them.
func (p *Planned) Dir() string {
	if p.Into != "" {
		return p.Into
	}
	name := p.Job.Name
	if p.Shard != nil {
		name += reporting.ShardSuffix(*p.Shard)
	}
	return filepath.Join(p.Job.JobsDir, name)
}

// Checkout returns the checkout whose commit the job evaluates.
func (p *Planned) Checkout() commits.Checkout {
	if p.Commit != "" {
		return commits.Checkout{Commit: &p.Commit}
	}
	return checkout(p.Host, p.Path)
}

// Record returns the job's plan for plan.json. If ctx ends, it returns an ErrCancelled.
func (p *Planned) Record(ctx context.Context) (result.Plan, error) {
	if err := EachTask(ctx, "Hashing tasks", p.Tasks(), func(_ int, t *task.Task) { t.Digest() }); err != nil { // each keeps its digest
		return result.Plan{}, host.Cancelled("cancelled before all tasks were read: nothing was run")
	}
	h := p.Host
	here, err := filepath.Abs(h.Path("."))
	if err != nil {
		return result.Plan{}, fmt.Errorf("find the current directory: %w", err)
	}
	pathsFrom, err := job.PathsFrom(h.Path(p.Dir()), p.PathsFrom)
	if err != nil {
		return result.Plan{}, fmt.Errorf("make the job's directory %s: %w", h.Path(p.Dir()), err)
	}
	checkout := p.Checkout()
	var parents []string
	if h.GitHub().Inside { // only a workflow needs them
		parents = parentsOf(ctx, h.Variables, checkout)
	}
	namedAs := p.NameAsWritten
	if namedAs == p.Job.Name {
		namedAs = ""
	}
	return job.Record(p.Job, p.Specs, job.RecordOptions{
		StartedAt: h.Now(), Commit: checkout.Commit, Parents: parents, Dir: here, Shard: p.Shard, ShardOf: p.ShardOf,
		PathsFrom: pathsFrom, JobFile: p.jobFile(here), JobFlags: p.flagged, Compared: p.Report.Compares(), ProvesTasks: p.Proves, Reverifies: p.Reverifies, OnlyJudges: p.OnlyJudges, Beside: p.Beside,
		NamedAs: namedAs, Rollout: h.Build, NotAffected: p.NotAffected, NotSelected: p.LeftBySelection, Rounds: p.Rounds,
	})
}

// jobFile returns the path of the job file from a directory, with forward slashes; "" if the job is
// implied by its tasks, comes from standard input, or is read from the record of another run.
func (p *Planned) jobFile(from string) string {
	if p.Implied || p.Path == "-" || filepath.Base(p.Path) == result.ConfigFile {
		return ""
	}
	file, err := filepath.Abs(p.Host.Path(p.Path))
	if err != nil {
		return ""
	}
	below, err := filepath.Rel(from, file)
	if err != nil {
		return ""
	}
	return filepath.ToSlash(below)
}

// checkout returns the checkout that contains a job file; for standard input, that of the current
// directory.
func checkout(h *host.Host, jobFile string) commits.Checkout {
	if h.Guard != nil {
		if commit := h.Guard.Commit(); commit != "" {
			return commits.Checkout{Commit: &commit} // instead of the commit that the checkout names
		}
	}
	from := h.Path(".")
	if jobFile != "-" {
		from = filepath.Dir(h.Path(jobFile))
	}
	if abs, err := filepath.Abs(from); err == nil {
		from = abs
	}
	return commits.Around(from)
}

// commit returns the commit of the checkout that contains a job file; "" if there is none.
func commit(h *host.Host, jobFile string) string {
	if commit := checkout(h, jobFile).Commit; commit != nil {
		return *commit
	}
	return ""
}

// parentsOf returns the parents of the commit that is checked out; nil if unknown.
func parentsOf(ctx context.Context, vars host.Variables, checkout commits.Checkout) []string {
	if checkout.Commit == nil || checkout.Objects == "" {
		return nil
	}
	opts := git.Options{Timeout: 30 * time.Second, Environ: vars.AllVariables()}
	parents, err := git.New(opts).Parents(ctx, checkout.Objects, *checkout.Commit)
	if err != nil {
		return nil // GitHub is asked
	}
	return parents
}
