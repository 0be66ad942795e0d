package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/sidebyside"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/job/spending"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// maxEarlierJobs is how many of the newest jobs below jobs_dir an estimate reads.
const maxEarlierJobs = 10

// DryRun describes what a run would do.
type DryRun struct {
	Name, Dir  string // of the job; Dir is its directory
	Provider   string
	Concurrent int
	Shard      *result.Shard
	Total      int // trials of the whole job, of all shards
	Trials     []DryTrials
	Kept       int  // results of the resumed job that stay
	Resumed    bool // the job's directory exists, and the run would continue it
	Reused     int  // trials that would be taken from other jobs
	// AskedLater counts the trials that may also be reused: only the provider knows whether their
	// images are the same.
	AskedLater int
	NotReused  string // why the others are not reused; "" if there is no job to reuse
	// Builds and Pulls are the numbers of images to build and pull, unless the provider has them.
	// Broken is the number of tasks that cannot run.
	Builds, Pulls, Broken int
	// Layers is how many times the install scripts of agents with cache_install run, unless the
	// provider has their layers; LayerAgents names those agents.
	Layers      int
	LayerAgents []string
	Estimate    Estimate
	Budget      BudgetEstimate
	Warnings    diag.List

	before ranBefore
	began  *result.Plan // of the job that would be continued; nil: a new one would begin
}

// ranBefore is the part of the budget that earlier runs of a resumed job have used.
type ranBefore struct {
	results []result.Trial
	elapsed time.Duration
}

// BudgetEstimate predicts the effect of the job's budget on the trials that would run, from their
// expected time and cost.
type BudgetEstimate struct {
	MaxCostUSD  *float64       // the limit, of a shard its share; nil: none
	MaxDuration *time.Duration // the limit; nil: none
	SpentUSD    float64        // by earlier runs of the job
	Elapsed     time.Duration  // in earlier runs of the job
	// CostKnown and TimeKnown: enough is known about the trials to predict when the limit on the
	// cost, or on the time, stops them.
	CostKnown, TimeKnown bool
	Forecast             spending.Forecast // by the limits with known expectations
}

// Limited reports whether there is a budget.
func (b BudgetEstimate) Limited() bool { return b.MaxCostUSD != nil || b.MaxDuration != nil }

// DryTrials are the attempts of one agent at one task that would run.
type DryTrials struct {
	Agent, Dataset, Task string
	Attempts             int
	Each                 *time.Duration // the expected time of one; nil: no earlier trial tells
}

// Estimate is the expected time and cost of a run, from earlier trials of the same agents at the
// same tasks, whatever has changed since.
type Estimate struct {
	Trials       int  // that would run
	AtMost       bool // the job may end before all of Trials (gate.stop)
	Jobs         int  // earlier jobs that were read
	Earlier      int  // trials in them that the estimate is made from
	Timed        int  // those of Trials whose agent was timed at this very task; the others count as the median
	Wall         *time.Duration
	Cost         *float64 // US dollars, of the trials whose cost can be estimated
	Costed       int      // those of Trials whose agent had a known cost at this very task
	CostByAgent  int      // those that count as the mean of their agent
	CostsUnknown int      // those that Cost leaves out
}

// RunDry returns what Run would do. It contacts no provider and writes only the datasets of
// registries, into the cache. It refuses what Run would refuse.
func RunDry(ctx context.Context, h *host.Host, req stages.RunRequest) (*DryRun, error) {
	if req.SaveJob != "" {
		return nil, host.Usagef("--save-job writes a file, and --dry-run writes nothing: use one of them")
	}
	p, policy, err := loadRun(ctx, h, &req)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	p.Orders = stages.Orders{Report: req.Report}
	if err := p.Split(req.Shard, req.Timings); err != nil {
		return nil, err
	}
	req.Resume = req.Resume || req.Round > 1
	if err := p.PlanInRounds(req.Against != "", req.Round); err != nil {
		return nil, err
	}
	d := &DryRun{
		Name: p.Job.Name, Dir: p.Dir(), Provider: p.Job.Environment.Type, Concurrent: p.Job.NConcurrentTrials, Shard: p.Shard, Total: len(p.Specs),
		Warnings: p.Warnings,
	}
	todo, earlier, err := d.pending(ctx, p, req.Resume, policy)
	if err != nil {
		return nil, err
	}
	sources, err := drySources(ctx, p, req, d.began)
	if err != nil {
		return nil, err
	}
	if todo, err = d.reuse(ctx, p, sources, todo); err != nil {
		return nil, err
	}
	d.Estimate.AtMost = !p.Rounds.Ended() && p.Rounds.Upto == 0
	d.images(p, todo)
	results, err := earlierResults(ctx, p, req, earlier)
	if err != nil {
		return nil, err
	}
	if err := d.forecast(p, d.estimate(todo, results)); err != nil {
		return nil, err
	}
	return d, nil
}

// drySources returns the sources from which the run would take trials. began is as for
// FindBaseline.
func drySources(ctx context.Context, p *stages.Planned, req stages.RunRequest, began *result.Plan) ([]reuse.Source, error) {
	dirs, fromBaseline := stages.SplitReuse(req.Reuse)
	sources, err := stages.ReuseSources(p.Host.Paths, dirs, p.Dir())
	if err != nil || !fromBaseline {
		return sources, err
	}
	if sidebyside.Besides(req) {
		p.RunsAllAsUsual("the baseline runs with the job")
		return sources, nil
	}
	base, err := p.FindBaseline(ctx, began)
	return append(base, sources...), err
}

// forecast predicts the effect of the job's budget on the trials.
func (d *DryRun) forecast(p *stages.Planned, expected []spending.Expected) error {
	limits, err := p.Budget(d.before.results, nil)
	if err != nil {
		return err
	}
	e := &d.Budget
	// A limit that is already used up needs no estimate.
	if limits.CostUSD > 0 {
		e.MaxCostUSD, e.SpentUSD = new(limits.CostUSD), limits.Spent.Sum()
		if e.CostKnown = d.Estimate.Cost != nil || e.SpentUSD >= limits.CostUSD || len(expected) == 0; !e.CostKnown {
			limits.CostUSD = 0
		}
	}
	if limits.Duration > 0 {
		e.MaxDuration, e.Elapsed = new(limits.Duration), d.before.elapsed
		if e.TimeKnown = d.Estimate.Wall != nil || e.Elapsed >= limits.Duration || len(expected) == 0; !e.TimeKnown {
			limits.Duration = 0
		}
	}
	if d.Estimate.Wall == nil { // all take equally long
		for i := range expected {
			expected[i].Duration = 1
		}
	}
	e.Forecast = limits.Forecast(expected, d.Concurrent, e.Elapsed)
	return nil
}

// pending returns the trials that would run if nothing were reused, and the existing results of the
// job.
func (d *DryRun) pending(ctx context.Context, p *stages.Planned, resumes bool, policy resume.RerunPolicy) (todo []trial.Spec, earlier []result.Trial, err error) {
	dir := p.Host.Path(p.Dir())
	todo = slices.DeleteFunc(slices.Clone(p.Own()), func(s trial.Spec) bool { return p.Rounds.Leaves(s.Key) })
	if resumes {
		if err := rerun.CheckResumable(p); err != nil {
			return nil, nil, err
		}
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return todo, nil, nil
	}
	if !resumes {
		if p.Unnamed || p.Numbered != nil {
			return todo, nil, nil // the run would choose another name
		}
		return nil, nil, p.ErrExists(fmt.Errorf("%s %w", host.Clean(p.Dir()), job.ErrExists))
	}
	if job.Running(dir) {
		return nil, nil, host.Usagef("%s is running just now", host.Clean(p.Dir()))
	}
	stored, err := rerun.OpenStored(p.Host.Paths, p.Dir())
	if errors.Is(err, resume.ErrNotBegun) {
		if empty, emptyErr := job.NotBegun(dir); emptyErr == nil && empty {
			return todo, nil, nil
		}
		err = host.Usagef("%w: choose another --name, or remove the directory", err)
	}
	if err != nil {
		return nil, nil, err
	}
	d.Resumed, d.began = true, &stored.Plan
	p.Into = p.Dir()
	c, err := rerun.Continue(ctx, p, stored, policy)
	if err == nil {
		err = c.CheckVariables()
	}
	if err != nil {
		return nil, nil, err
	}
	pending := c.Pending
	d.Shard = p.Shard
	d.Kept = pending.Kept
	ran := result.Summarize(stored.Plan, pending.Earlier).TotalDurationSec
	d.before = ranBefore{pending.Earlier, time.Duration(ran * float64(time.Second))}
	return slices.DeleteFunc(slices.Clone(p.Own()), func(s trial.Spec) bool { return !pending.Keys[s.Key] }), pending.Earlier, nil
}

// reuse returns the trials that remain after reusing those of other jobs.
func (d *DryRun) reuse(ctx context.Context, p *stages.Planned, sources []reuse.Source, todo []trial.Spec) ([]trial.Spec, error) {
	if len(sources) == 0 {
		return todo, nil
	}
	var unaddressed []string
	if entry, ok := p.Host.Providers.Find(p.Job.Environment.Type); ok {
		unaddressed = entry.Unaddressed(p.Job.Environment.ProviderConfig)
	}
	found, err := reuse.Find(ctx, sources, todo, reuse.Experiment{Digests: experiment.DigestsOf(p.Job, p.Inputs()), Unaddressed: unaddressed})
	if err != nil {
		return nil, err
	}
	keys := map[result.Key]bool{}
	for _, f := range found.Found {
		keys[f.Trial.Key] = true
	}
	d.Reused, d.AskedLater, d.NotReused = len(keys), found.Missed[reuse.UnknownImage], found.Reasons()
	return slices.DeleteFunc(todo, func(s trial.Spec) bool { return keys[s.Key] }), nil
}

// images counts the images that the trials need, and the agent layers.
func (d *DryRun) images(p *stages.Planned, todo []trial.Spec) {
	type layer struct{ agent, image string }
	builds, pulls, broken, layers := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[layer]bool{}
	for _, s := range todo {
		image := s.Task.Config.Environment.DockerImage
		switch force := p.Job.Environment.ForceBuild; {
		case s.Task.Missing || len(s.Task.Problems.Errors()) > 0:
			broken[s.Key.Dataset+"\x00"+s.Key.Task] = true
			continue
		case image != "" && !(force && s.Task.HasDockerfile()):
			pulls[image] = true
		default:
			image = s.Task.Digest()
			builds[image] = true
		}
		if apart, _ := s.Task.Apart(false); apart != nil && apart.ImageOf() == apart {
			if named := apart.Config.Environment.DockerImage; named != "" {
				pulls[named] = true
			} else {
				builds["tests of "+s.Task.Digest()] = true
			}
		}
		if s.Agent.CachesInstall() {
			layers[layer{s.Agent.Name, image}] = true
			if !slices.Contains(d.LayerAgents, s.Agent.Name) {
				d.LayerAgents = append(d.LayerAgents, s.Agent.Name)
			}
		}
	}
	d.Builds, d.Pulls, d.Broken, d.Layers = len(builds), len(pulls), len(broken), len(layers)
}

// earlierJobs holds the results that an estimate is based on.
type earlierJobs struct {
	jobs    int
	results result.Outcomes
}

// earlierResults reads the results that tell how long trials take: those of the job itself, of
// --timings and --reuse, and of the newest jobs in jobs_dir.
func earlierResults(ctx context.Context, p *stages.Planned, req stages.RunRequest, own []result.Trial) (earlierJobs, error) {
	var out earlierJobs
	for _, t := range own {
		out.results.Append(result.OutcomeOf(t))
	}
	if len(own) > 0 {
		out.jobs++
	}
	read := []string{p.Dir()}
	add := func(path, label string) {
		dir := path
		if filepath.Base(path) == result.ResultFile {
			dir = filepath.Dir(path)
		}
		if slices.ContainsFunc(read, func(other string) bool { return p.Host.SameJob(dir, other) }) {
			return
		}
		read = append(read, dir)
		earlier, _, err := result.ReadJob(p.Host.Path(path))
		if err != nil {
			if label != "" {
				host.Warnf(p.Host.Output, "%s %s: not used for the estimate: %v", label, path, err)
			}
			return
		}
		out.jobs++
		out.results.AppendAll(earlier.Results)
	}
	if req.Timings != "" {
		add(req.Timings, "--timings")
	}
	dirs, _ := stages.SplitReuse(req.Reuse)
	for _, path := range dirs {
		add(path, "--reuse")
	}
	if p.Found != nil && p.Found.Job != nil {
		out.jobs++
		out.results.AppendAll(p.Found.Job.Results)
	}
	newest, err := newestJobs(ctx, p)
	for _, dir := range newest {
		if ctx.Err() != nil {
			break
		}
		add(filepath.Join(dir, result.ResultFile), "") // one file, not a file of each trial
	}
	return out, errors.Join(err, ctx.Err())
}

// newestJobs returns the results of the newest ended jobs in jobs_dir.
func newestJobs(ctx context.Context, p *stages.Planned) ([]string, error) {
	dir := p.Host.Path(p.Job.JobsDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // the run makes the directory, or says what is wrong with it
	}
	var found []library.ListedJob
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !e.IsDir() {
			continue
		}
		if listed, ok := library.Identify(dir, e); ok && listed.State == "" {
			listed.Dir = filepath.Join(p.Job.JobsDir, e.Name())
			if _, err := os.Lstat(p.Host.Path(filepath.Join(listed.Dir, result.ResultFile))); err == nil {
				found = append(found, listed)
			}
		}
	}
	slices.SortFunc(found, library.NewestFirst)
	var dirs []string
	for _, l := range found[:min(len(found), maxEarlierJobs)] {
		dirs = append(dirs, l.Dir)
	}
	return dirs, nil
}

// estimate computes the expected time and cost of the trials, in total and each.
func (d *DryRun) estimate(todo []trial.Spec, earlier earlierJobs) []spending.Expected {
	e := &d.Estimate
	e.Trials, e.Jobs = len(todo), earlier.jobs
	timings := job.TimingsOf(result.Job{Results: earlier.results})
	each, known := timings.Expect(todo)
	costs := costsOf(earlier.results)
	wanted := map[result.Key]bool{}
	sum := 0.0
	expected := make([]spending.Expected, len(todo))
	for i, s := range todo {
		expected[i].Duration = each[i]
		key := s.Key
		key.Attempt = 0
		_, timed := timings[key]
		if timed {
			e.Timed++
		}
		wanted[key] = true
		switch mean, byTask := costs.tasks[key].mean(); {
		case byTask:
			e.Costed++
			expected[i].CostUSD = mean
		default:
			mean, byAgent := costs.agents[key.Agent].mean()
			if byAgent {
				e.CostByAgent++
				expected[i].CostUSD = mean
			} else {
				e.CostsUnknown++
			}
		}
		sum += expected[i].CostUSD
		row := DryTrials{Agent: key.Agent, Dataset: key.Dataset, Task: key.Task, Attempts: 1}
		if timed {
			row.Each = new(each[i])
		}
		if n := len(d.Trials); n > 0 && d.Trials[n-1].Agent == row.Agent && d.Trials[n-1].Dataset == row.Dataset && d.Trials[n-1].Task == row.Task {
			d.Trials[n-1].Attempts++
		} else {
			d.Trials = append(d.Trials, row)
		}
	}
	for _, o := range earlier.results.All() {
		key := o.Key
		key.Attempt = 0
		if wanted[key] && o.Error != result.Cancelled {
			e.Earlier++
		}
	}
	if known {
		one := make([]int, len(todo))
		for i := range one {
			one[i] = 1
		}
		e.Wall = new(job.Loads(one, 1, each)[0].Wall(d.Concurrent))
	}
	if e.Costed+e.CostByAgent > 0 {
		e.Cost = new(sum)
	}
	return expected
}

// meanCost is a mean of costs.
type meanCost struct {
	sum float64
	n   int
}

func (m meanCost) mean() (float64, bool) {
	if m.n == 0 {
		return 0, false
	}
	return m.sum / float64(m.n), true
}

// knownCosts holds the mean costs of a trial.
type knownCosts struct {
	tasks  map[result.Key]meanCost // the keys have no Attempt
	agents map[string]meanCost
}

func costsOf(results result.Outcomes) knownCosts {
	out := knownCosts{tasks: map[result.Key]meanCost{}, agents: map[string]meanCost{}}
	for _, o := range results.All() {
		usd, ok := o.Cost.Reported()
		if !ok || o.Cost.AtLeast() || o.Error == result.Cancelled {
			continue
		}
		key := o.Key
		key.Attempt = 0
		m := out.tasks[key]
		out.tasks[key] = meanCost{m.sum + usd, m.n + 1}
		m = out.agents[key.Agent]
		out.agents[key.Agent] = meanCost{m.sum + usd, m.n + 1}
	}
	return out
}
