package stages

import (
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/resume"
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
	// Changed is a commit, branch or tag: only trials that the changes since then can affect are
	// planned; "": all are.
	Changed string
	// TaskFormat is the format of a directory of tasks; "": the default.
	TaskFormat string

	Name      string // of the existing job that is resumed; "": as in the job file
	PathsFrom string // the base of relative paths in the config.json of an existing job; "": File is a job file
	Unused    bool   // no agent and no model runs, so variables need no values
	Unrun     bool   // no test runs either, so the variables of tasks need no values
	implied   bool   // there is no job file
	noJudges  bool   // nothing is judged: the judges of tasks are ignored

	JudgeModel string   // the model of the judges, in place of theirs; "": theirs
	Judges     []string // those that have JudgeModel; empty: all
}

// Gated returns the request with the gate's keys that a report requires.
func (r JobRequest) Gated(report reporting.ReportOptions) JobRequest {
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

// EnvFlags returns the flags for the request's files of variables, quoted for a shell, each after a
// space.
func (r JobRequest) EnvFlags() string {
	out := ""
	for _, file := range r.EnvFiles {
		out += host.Flag("env-file", file)
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

// Empty reports whether no trial is asked for.
func (r RerunRequest) Empty() bool {
	return len(r.RetryErrors) == 0 && !r.OnlyFailed && len(r.Trials) == 0
}

// Policy returns which trials run again.
func (r RerunRequest) Policy() (resume.RerunPolicy, error) {
	types, err := resume.ParseErrorTypes(r.RetryErrors)
	if err != nil {
		return resume.RerunPolicy{}, host.Usagef("--retry-errors: %w", err)
	}
	if err := resume.CheckTrials(r.Trials); err != nil {
		return resume.RerunPolicy{}, host.Usagef("--rerun %w", err)
	}
	return resume.RerunPolicy{Types: types, OnlyFailed: r.OnlyFailed, Trials: r.Trials}, nil
}

// Flags returns the flags of the request, quoted for a shell, each after a space.
func (r RerunRequest) Flags() string {
	out := host.Flag("retry-errors", strings.Join(r.RetryErrors, ","))
	if r.OnlyFailed {
		out += " --only-failed"
	}
	for _, glob := range r.Trials { // those that already ran again run once more: they cannot be told apart
		out += host.Flag("rerun", glob)
	}
	return out
}

// RunRequest is the request of Run.
type RunRequest struct {
	Job     JobRequest
	Shard   *result.Shard // the part to run; nil: the whole job
	Timings string        // an earlier job with the durations for balancing shards; "": shards get equal numbers of trials
	// Round is the last round that this shard makes, if its gate stops the job early (gate.stop);
	// 0: not given.
	Round  int
	Resume bool         // resume the job if its directory exists
	Rerun  RerunRequest // with Resume
	Reuse  []string     // directories of jobs to take trials from
	// FailFast: no trial starts after the first one that did not pass. See failsFast.
	FailFast bool
	Against  string // a commit whose agents run together with today's, as the baseline; "": none
	// ConfirmAgainst is a commit whose agents retry, with today's, the tasks that look broken or
	// fixed compared to Report.Baseline; "": none.
	ConfirmAgainst string
	// Arguments are the arguments of the command line, for the command that resumes the job; nil:
	// there is none.
	Arguments []string
	Report    reporting.ReportOptions
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
	Report    reporting.ReportOptions
	LogFormat string // as in RunRequest
	FailFast  bool   // as in RunRequest
}

// ParseSet parses PATH=VALUE.
func ParseSet(text string) (config.Override, error) {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return config.Override{}, host.Usagef("--set %s: want path=value, as in --set environment.override_cpus=2", text)
	}
	origin := "--set " + text
	if host.SecretPath.MatchString(path) { // messages name the origin
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
