// Package doctor reports whether jobs can run on this machine, and whether it has what one job
// needs. It starts no trial and shows no value of a variable.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/quantity"
	"github.com/org/rollout-action/internal/run/job"
)

// State is the outcome of a check.
type State string

// The values of State.
const (
	OK      State = "ok"
	Note    State = "note"    // something that no check needs is missing, or could not be checked
	Missing State = "missing" // a job, or the job that was named, cannot run without it
)

// Finding is the outcome of one check.
type Finding struct {
	Area  string `json:"area"` // "provider", "disk", "program", "job", "variable" or "github"
	Name  string `json:"name"`
	State State  `json:"state"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"` // the way out; "" if there is none
}

// The values of Finding.Area.
const (
	areaProvider = "provider"
	areaDisk     = "disk"
	areaProgram  = "program"
	areaJob      = "job"
	areaVariable = "variable"
	areaGitHub   = "github"
)

// lowDisk is the default of environment.min_free_disk, in bytes.
const lowDisk = 512 << 20

// Limits on the time of a check.
const (
	connectTime = 30 * time.Second
	apiTime     = 20 * time.Second
)

// Diagnose checks this machine and, if req names a job file or tasks, what that job needs. The
// error is ErrCancelled, or the error of the request; problems of the job file are findings.
func Diagnose(ctx context.Context, h *host.Host, req stages.JobRequest) ([]Finding, error) {
	d := &diagnosis{Host: h, minFree: lowDisk, jobs: host.JobsDir}
	d.program(ctx)
	var err error
	if req.File != "" {
		err = d.job(ctx, req)
	}
	if err == nil {
		d.providers(ctx)
		d.disks()
		d.github(ctx)
	}
	if ctx.Err() != nil {
		return nil, host.ErrCancelled
	}
	return d.found, err
}

// OKs reports whether nothing is missing.
func OKs(found []Finding) bool {
	return !slices.ContainsFunc(found, func(f Finding) bool { return f.State == Missing })
}

// diagnosis collects findings.
type diagnosis struct {
	*host.Host
	found []Finding
	uses  string // the provider of the job; "": there is no job
	// needsBaseline: the job fails without a baseline, which only a token finds.
	needsBaseline bool
	jobs          string // the directory of results
	places        []job.Disk
	minFree       int64
}

func (d *diagnosis) add(area, name string, state State, text, hint string) {
	d.found = append(d.found, Finding{area, host.Clean(name), state, host.Clean(text), host.Clean(hint)})
}

// addError adds an error with its hint.
func (d *diagnosis) addError(area, name string, state State, err error) {
	text, hint := err.Error(), ""
	if known := new(environment.Error); errors.As(err, &known) {
		text, hint = known.Err.Error(), known.Hint
	}
	d.add(area, name, state, text, hint)
}

// program looks for git, which datasets, commits and changes of a repository need.
func (d *diagnosis) program(ctx context.Context) {
	version, err := git.New(git.Options{Environ: d.AllVariables()}).Version(ctx)
	if err != nil {
		d.add(areaProgram, "git", Note, err.Error(), "install git: datasets of a registry, --changed and the commits in reports need it")
		return
	}
	d.add(areaProgram, "git", OK, version, "")
}

// job loads the job, and checks its variables and its provider.
func (d *diagnosis) job(ctx context.Context, req stages.JobRequest) error {
	req.Unused, req.Unrun = true, true
	l, err := stages.LoadTarget(ctx, d.Host, req, stages.OracleAndNop()...)
	if problems := (diag.List{}); errors.As(err, &problems) {
		for _, p := range problems {
			d.addProblem(p)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Close()
	p, err := l.Plan()
	if err != nil {
		return err
	}
	name := d.Shown(l.File)
	d.add(areaJob, name, OK, fmt.Sprintf("%s × %s × %s = %s", plural.Count(len(l.Job.Agents), "agent"), plural.Count(len(l.Tasks()), "task"),
		plural.Count(l.Job.NAttempts, "attempt"), plural.Count(len(p.Specs), "trial")), "")
	d.variables(l)
	d.minFree = int64(l.Job.Environment.MinFreeDisk)
	d.jobs = l.Job.JobsDir
	d.uses = l.Job.Environment.Type
	d.needsBaseline = l.Job.Gate.OnNoBaseline == gate.Fail
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	facts, never, err := p.TryProvider(limited)
	if err != nil {
		d.addError(areaProvider, d.uses, Missing, err)
		return nil
	}
	d.answers(d.uses, facts)
	for _, problem := range never {
		d.addProblem(problem)
	}
	return nil
}

// addProblem adds a problem of the job file or its tasks.
func (d *diagnosis) addProblem(p diag.Diagnostic) {
	state := Missing
	if p.Severity == diag.Warning {
		state = Note
	}
	name := d.Shown(p.File)
	if p.Line > 0 {
		name = fmt.Sprintf("%s:%d", name, p.Line)
	}
	d.add(areaJob, name, state, p.Message, p.Hint)
}

// variables reports for each variable of the job and its tasks whether it is set.
func (d *diagnosis) variables(l *stages.Loaded) {
	const hint = "export it, or put it into a file for --env-file; in a workflow, give the secret to the step as env"
	for _, name := range slices.Sorted(maps.Keys(l.Variables)) {
		if l.Variables[name] {
			d.add(areaVariable, name, OK, "is set", "")
		} else {
			d.add(areaVariable, name, Missing, "is not set", hint)
		}
	}
	unset := proof.UnsetVariables(l)
	for _, name := range slices.Sorted(maps.Keys(unset)) {
		if _, known := l.Variables[name]; !known {
			d.add(areaVariable, name, Missing, "is not set; "+neededBy(unset[name]), hint)
		}
	}
	for _, name := range l.Job.Environment.PassEnv {
		_, known := l.Variables[name]
		value, _ := l.Getenv(name)
		switch _, needed := unset[name]; {
		case known || needed:
		case value == "":
			d.add(areaVariable, name, Note, "is not set, so environment.pass_env passes nothing", "")
		default:
			d.add(areaVariable, name, OK, "is set", "")
		}
	}
}

// neededBy says which tasks need a variable.
func neededBy(tasks []string) string {
	if len(tasks) == 1 {
		return "the task " + tasks[0] + " needs it"
	}
	return fmt.Sprintf("%d tasks need it, such as %s", len(tasks), tasks[0])
}

// providers asks all providers but the job's, which was asked already. Without a job, one of them
// must work.
func (d *diagnosis) providers(ctx context.Context) {
	type answer struct {
		facts host.ProviderFacts
		err   error
	}
	answers := make([]answer, len(d.Providers))
	var all sync.WaitGroup
	for i, entry := range d.Providers {
		if entry.Name == d.uses {
			continue
		}
		all.Go(func() {
			answers[i].facts, answers[i].err = host.Try(ctx, d.Host, entry)
		})
	}
	all.Wait()
	works := d.uses != ""
	for i := range answers {
		works = works || answers[i].err == nil
	}
	for i, entry := range d.Providers {
		switch {
		case entry.Name == d.uses:
		case answers[i].err == nil:
			d.answers(entry.Name, answers[i].facts)
		case works:
			d.addError(areaProvider, entry.Name, Note, answers[i].err)
		default:
			d.addError(areaProvider, entry.Name, Missing, answers[i].err)
		}
	}
}

// answers adds a provider that works here.
func (d *diagnosis) answers(name string, facts host.ProviderFacts) {
	text := "works here"
	if facts.About != "" {
		text += ": " + facts.About
	}
	d.add(areaProvider, name, OK, text, "")
	if facts.Disk != "" {
		d.places = append(d.places, job.Disk{What: "images and environments of " + name, Dir: facts.Disk})
	}
}

// disks reports the free space of the disks that trials fill.
func (d *diagnosis) disks() {
	places := append([]job.Disk{{What: "results", Dir: d.Path(d.jobs)}}, d.places...)
	if dir, err := cache.Root(d.Getenv); err == nil {
		places = append(places, job.Disk{What: "cache", Dir: dir})
	}
	for _, place := range places {
		free, err := job.FreeDisk(place.Dir, d.FreeDisk)
		switch text := quantity.Size(free) + " free below " + place.Dir; {
		case err != nil:
			d.add(areaDisk, place.What, Note, "the free space below "+place.Dir+" is not known: "+err.Error(), "")
		case free < d.minFree:
			d.add(areaDisk, place.What, Missing, text+"; no trial starts below "+quantity.Size(d.minFree), "make room, for example with rollout clean --images; environment.min_free_disk is the limit")
		default:
			d.add(areaDisk, place.What, OK, text, "")
		}
	}
}

// github reports, inside of a workflow of GitHub Actions, what the token may do. Nothing is
// written. Something is missing only for a job that fails without a baseline.
func (d *diagnosis) github(ctx context.Context) {
	run := d.GitHub()
	if !run.Inside {
		return
	}
	lacks := Note
	if d.needsBaseline {
		lacks = Missing
	}
	if run.Token == "" {
		d.add(areaGitHub, "token", lacks, "there is no GITHUB_TOKEN: no baseline is found and no comment is written", "give the step env: GITHUB_TOKEN: ${{ github.token }}")
		return
	}
	client, err := github.New(run.Token, run.APIURL)
	if err != nil {
		d.add(areaGitHub, "token", lacks, err.Error(), "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, apiTime)
	defer cancel()
	for _, check := range []struct {
		permission string
		ask        func(context.Context, string) error
	}{{"contents: read", client.MayReadContents}, {"actions: read", client.MayReadRuns}} {
		if err := check.ask(ctx, run.Repository); err != nil {
			d.add(areaGitHub, check.permission, lacks, err.Error(), "")
		} else {
			d.add(areaGitHub, check.permission, OK, "the token may read "+run.Repository, "")
		}
	}
	d.comments(run)
}
