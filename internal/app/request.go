package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/resume"
	"github.com/org/rollout-action/reporters"
)

// JobRequest names a job and the changes to it.
type JobRequest struct {
	// File is a job file ("-" is Host.Stdin), or a directory of tasks or of one task, as those in
	// More are. With a Registry, which is a path or a URL, all of them name datasets, as NAME or
	// NAME@VERSION.
	File      string
	More      []string
	Registry  string
	Own       OwnAgent          // an agent for tasks without a job file
	Overrides []config.Override // keys that have their own flags
	Sets      []config.Override // other keys, which take precedence
	Agents    []string          // the agents to keep; empty: all
	Selection config.Selection
	EnvFiles  []string // files with variables for ${VAR} and environment.pass_env; the environment takes precedence
	// TaskFormat is the format of a directory of tasks; "": the default.
	TaskFormat string

	name      string // of the existing job that is resumed; "": as in the job file
	pathsFrom string // the base of relative paths in the config.json of an existing job; "": File is a job file
	unused    bool   // no agent and no model runs, so variables need no values
	unrun     bool   // no test runs either, so the variables of tasks need no values
	noJudges  bool   // nothing is judged: the judges of tasks are ignored

	judgeModel string   // the model of the judges, in place of theirs; "": theirs
	judges     []string // those that have judgeModel; empty: all
}

// gated returns the request with the gate's keys that a report requires.
func (r JobRequest) gated(report ReportOptions) JobRequest {
	r.Overrides = append(r.Overrides[:len(r.Overrides):len(r.Overrides)], report.Gate...)
	return r
}

// origin returns the flag that sets a key of the job file, or the key if none does.
func (r JobRequest) origin(key string) string {
	for _, o := range slices.Backward(r.overrides()) {
		switch flag, _, _ := strings.Cut(o.Origin, " "); {
		case o.Path != key || flag == "":
		case flag == "--set":
			return flag + " " + key
		default:
			return flag
		}
	}
	return key
}

// envFlags returns the flags for the request's files of variables, quoted for a shell, each after a
// space.
func (r JobRequest) envFlags() string {
	out := ""
	for _, file := range r.EnvFiles {
		out += flag("env-file", file)
	}
	return out
}

// RerunRequest selects the trials of an existing job that run again in addition to the pending
// ones.
type RerunRequest struct {
	RetryErrors []string // types of errors
	OnlyFailed  bool
	Trials      []string // globs of trials; see resume.RerunPolicy
}

func (r RerunRequest) empty() bool {
	return len(r.RetryErrors) == 0 && !r.OnlyFailed && len(r.Trials) == 0
}

func (r RerunRequest) policy() (resume.RerunPolicy, error) {
	types, err := resume.ParseErrorTypes(r.RetryErrors)
	if err != nil {
		return resume.RerunPolicy{}, usage("--retry-errors: %w", err)
	}
	if err := resume.CheckTrials(r.Trials); err != nil {
		return resume.RerunPolicy{}, usage("--rerun %w", err)
	}
	return resume.RerunPolicy{Types: types, OnlyFailed: r.OnlyFailed, Trials: r.Trials}, nil
}

// flags returns the flags of the request, quoted for a shell, each after a space.
func (r RerunRequest) flags() string {
	out := flag("retry-errors", strings.Join(r.RetryErrors, ","))
	if r.OnlyFailed {
		out += " --only-failed"
	}
	for _, glob := range r.Trials { // those that already ran again run once more: they cannot be told apart
		out += flag("rerun", glob)
	}
	return out
}

// RunRequest is the request of Run.
type RunRequest struct {
	Job     JobRequest
	Shard   *result.Shard // the part to run; nil: the whole job
	Timings string        // an earlier job with the durations for balancing shards; "": shards get equal numbers of trials
	Resume  bool          // resume the job if its directory exists
	Rerun   RerunRequest  // with Resume
	Reuse   []string      // directories of jobs to take trials from
	// FailFast: no trial starts after the first one that did not pass. See failsFast.
	FailFast bool
	Against  string // a commit whose agents run together with today's, as the baseline; "": none
	// ConfirmAgainst is a commit whose agents retry, with today's, the tasks that look broken or
	// fixed compared to Report.Baseline; "": none.
	ConfirmAgainst string
	// Arguments are the arguments of the command line, for the command that resumes the job; nil:
	// there is none.
	Arguments []string
	Report    ReportOptions
	SaveJob   string // a new file that receives the job as a job file; "": none
	// LogFormat is the live view's format that the user chose; "": none. Only the command that
	// resumes the job uses it.
	LogFormat string
}

// ResumeRequest is the request of Resume.
type ResumeRequest struct {
	Dir       string
	JobFile   string     // the job file to use instead of the job's config.json; "": none
	Job       JobRequest // without File
	Rerun     RerunRequest
	Report    ReportOptions
	LogFormat string // as in RunRequest
	FailFast  bool   // as in RunRequest
}

// ReportRequest is the request of Report.
type ReportRequest struct {
	Dir     string
	Options ReportOptions
	Quiet   bool // leave nothing in a workflow unless Options.GitHub says so
	// ReadOnly: do not store a verdict in the job's directory. Without a baseline, the stored
	// verdict is reported.
	ReadOnly bool
}

// ParseSet parses PATH=VALUE.
func ParseSet(text string) (config.Override, error) {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return config.Override{}, usage("--set %s: want path=value, as in --set environment.override_cpus=2", text)
	}
	origin := "--set " + text
	if secretPath.MatchString(path) { // messages name the origin
		origin = "--set " + path
	}
	return config.Override{Path: path, Value: value, Origin: origin}, nil
}

// BudgetCost returns the key that --budget-cost-usd sets.
func BudgetCost(value string) config.Override {
	return config.Override{Path: "budget.max_cost_usd", Value: value, Origin: "--budget-cost-usd"}
}

// BudgetDuration returns the key that --budget-duration sets.
func BudgetDuration(value string) config.Override {
	return config.Override{Path: "budget.max_duration", Value: value, Origin: "--budget-duration"}
}

// Defaults of requests.
const (
	DefaultTarget  = 15 * time.Minute // of DivideRequest
	DefaultRuns    = 3                // of ProveRequest
	DefaultNopRuns = 1                // of ProveRequest
)

// BaselineNone is the baseline of a job that is deliberately compared with nothing.
const BaselineNone = "none"

// GitHubPrefix begins a baseline on GitHub; a branch may follow.
const GitHubPrefix = "github:"

// DefaultBaselineArtifact is the artifact that holds the merged job's result.json and nothing else.
const DefaultBaselineArtifact = "rollout-result"

// StoredAt is the location of a branch's results on GitHub. Artifact "" is DefaultBaselineArtifact;
// Workflow "" is this run's.
type StoredAt struct{ Artifact, Workflow string }

// ReportOptions control how a job is judged and where the reports go. The zero value compares with
// nothing.
type ReportOptions struct {
	// Baseline is a job's directory, its result.json or its URL (see isRemote), GitHubPrefix with
	// or without a branch, or BaselineNone; "": not given.
	Baseline string
	Stored   StoredAt
	// History is a file of earlier jobs, or GitHubPrefix with or without a branch; "": none.
	History string
	Files   []ReportFile      // to write
	Options reporters.Options // of the reports; in a workflow, cases have their files anyway
	GitHub  string            // whether to write to the workflow: "auto", which is "", "on" or "off"
	Comment string            // "off", which is "", "always", "changes" or "failures"
	Gate    []config.Override

	remote *remoteJob // what was at Baseline when the use case began; nil: it is not a URL, or was not read
}

// remoteJob is the result found at a URL. With errNoObject, there is none.
type remoteJob struct {
	source string
	job    *result.Job
	err    error
}

// compares reports whether a baseline was requested.
func (o ReportOptions) compares() bool { return o.Baseline != "" && o.Baseline != BaselineNone }

// comments reports whether a comment is wanted.
func (o ReportOptions) comments() bool { return o.Comment != "" && o.Comment != "off" }

// forgets reports whether a job that began with a baseline is judged without one although
// BaselineNone was not given.
func (o ReportOptions) forgets(plan result.Plan) bool { return plan.Compared && o.Baseline == "" }

// flags returns the flags with which a command reports in the same way on a job whose directory
// exists, quoted for a shell, each after a space. Those of the gate are in its config.json.
// compared: the job began with a baseline, so a command without one lacks it.
func (o ReportOptions) flags(compared bool) string {
	out := flag("baseline", o.Baseline)
	if compared && o.Baseline == "" || isRemote(o.Baseline) && strings.ContainsAny(o.Baseline, "@?#") { // it may contain secrets
		out = " --baseline BASELINE"
	}
	out += flag("history", o.History) + flag("baseline-artifact", o.Stored.Artifact) + flag("baseline-workflow", o.Stored.Workflow)
	for _, file := range o.Files {
		if f, _ := reporters.All.Find(file.Format); f.Flag != "" {
			out += flag(f.Flag, file.Path)
		} else {
			out += flag("report", file.Format+"="+file.Path)
		}
	}
	for _, f := range reporters.All {
		for _, option := range f.Options {
			if *option.In(&o.Options) {
				out += " --" + option.Flag
			}
		}
	}
	return out + flag("github", o.GitHub) + flag("comment", o.Comment)
}

// check refuses invalid values before any work is done.
func (o ReportOptions) check() error {
	for _, g := range o.Gate {
		if strings.TrimSpace(g.Value) == "" { // an unset variable must not remove a threshold
			return usage("%s has no value: leave it out for what the job file says, or write null for no limit", g.Origin)
		}
	}
	switch o.GitHub {
	case "", "auto", "on", "off":
	default:
		return usage("--github %s: want auto, on or off", o.GitHub)
	}
	switch o.Comment {
	case "", "off", "always", "changes", "failures":
	default:
		return usage("--comment %s: want off, always, changes or failures", o.Comment)
	}
	return nil
}

// checkedEarly refuses what check refuses, and a missing baseline, for a use case that takes long
// before it reports. It returns the options to report with: a URL is read once, here, because it
// may hold another job's result by the time of the report.
func (o ReportOptions) checkedEarly(ctx context.Context, f finder) (ReportOptions, error) {
	if err := o.check(); err != nil {
		return o, err
	}
	if !o.compares() || strings.HasPrefix(o.Baseline, GitHubPrefix) {
		return o, nil
	}
	if !isRemote(o.Baseline) {
		_, _, err := f.read(o.Baseline)
		return o, err
	}
	found := &remoteJob{source: o.Baseline}
	if found.job, found.err = f.download(ctx, o.Baseline); found.err != nil && !errors.Is(found.err, errNoObject) {
		return o, fmt.Errorf("--baseline: %w", found.err)
	}
	o.remote = found
	return o, nil
}
