package reporting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/reporters"
)

// ReportFile is a report that is written to a file.
type ReportFile struct{ Format, Path string }

// ReportRequest is the request of Report.
type ReportRequest struct {
	Dir     string
	Options ReportOptions
	Quiet   bool // leave nothing in a workflow unless Options.GitHub says so
	// ReadOnly: do not store a verdict in the job's directory. Without a baseline, the stored
	// verdict is reported.
	ReadOnly bool
}

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
	// Baseline is a job's directory, its result.json or its URL (see host.IsRemote), GitHubPrefix
	// with or without a branch, or BaselineNone; "": not given.
	Baseline string
	Stored   StoredAt
	// History is a file of earlier jobs, or GitHubPrefix with or without a branch; "": none.
	History string
	Files   []ReportFile      // to write
	Options reporters.Options // of the reports; in a workflow, cases have their files anyway
	GitHub  string            // whether to write to the workflow: "auto", which is "", "on" or "off"
	Comment string            // "off", which is "", "always", "changes" or "failures"
	Gate    []config.Override

	// Ran are the arguments of the command that runs the job: its file and the flags that describe
	// it, without secrets; nil: not known.
	Ran []string

	remote *remoteJob // what was at Baseline when the use case began; nil: it is not a URL, or was not read
}

// remoteJob is the result found at a URL. With errNoObject, there is none.
type remoteJob struct {
	source string
	job    *result.Job
	err    error
}

// Compares reports whether a baseline was requested.
func (o ReportOptions) Compares() bool { return o.Baseline != "" && o.Baseline != BaselineNone }

// OnDisk reports whether the baseline is a file or a directory of this machine.
func (o ReportOptions) OnDisk() bool {
	return o.Compares() && !strings.HasPrefix(o.Baseline, GitHubPrefix) && !host.IsRemote(o.Baseline)
}

// comments reports whether a comment is wanted.
func (o ReportOptions) comments() bool { return o.Comment != "" && o.Comment != "off" }

// forgets reports whether a job that began with a baseline is judged without one although
// BaselineNone was not given.
func (o ReportOptions) forgets(plan result.Plan) bool { return plan.Compared && o.Baseline == "" }

// Flags returns the flags with which a command reports in the same way on a job whose directory
// exists, quoted for a shell, each after a space. Those of the gate are in its config.json.
// compared: the job began with a baseline, so a command without one lacks it.
func (o ReportOptions) Flags(compared bool) string {
	out := host.Flag("baseline", o.Baseline)
	if compared && o.Baseline == "" || host.IsRemote(o.Baseline) && strings.ContainsAny(o.Baseline, "@?#") { // it may contain secrets
		out = " --baseline BASELINE"
	}
	out += host.Flag("history", o.History) + host.Flag("baseline-artifact", o.Stored.Artifact) + host.Flag("baseline-workflow", o.Stored.Workflow)
	for _, file := range o.Files {
		if f, _ := reporters.All.Find(file.Format); f.Flag != "" {
			out += host.Flag(f.Flag, file.Path)
		} else {
			out += host.Flag("report", file.Format+"="+file.Path)
		}
	}
	for _, f := range reporters.All {
		for _, option := range f.Options {
			if *option.In(&o.Options) {
				out += " --" + option.Flag
			}
		}
	}
	return out + host.Flag("github", o.GitHub) + host.Flag("comment", o.Comment)
}

// Check refuses invalid values before any work is done.
func (o ReportOptions) Check() error {
	for _, g := range o.Gate {
		if strings.TrimSpace(g.Value) == "" { // an unset variable must not remove a threshold
			return host.Usagef("%s has no value: leave it out for what the job file says, or write null for no limit", g.Origin)
		}
	}
	if !slices.Contains([]string{"", "auto", "on", "off"}, o.GitHub) {
		return host.Usagef("--github %s: want auto, on or off", o.GitHub)
	}
	if !slices.Contains([]string{"", "off", "always", "changes", "failures"}, o.Comment) {
		return host.Usagef("--comment %s: want off, always, changes or failures", o.Comment)
	}
	return nil
}

// CheckedEarly refuses what check refuses, and a missing baseline, for a use case that takes long
// before it reports. It returns the options to report with: a URL is read once, here, because it
// may hold another job's result by the time of the report.
func (o ReportOptions) CheckedEarly(ctx context.Context, f Finder) (ReportOptions, error) {
	if err := o.Check(); err != nil {
		return o, err
	}
	if !o.Compares() || strings.HasPrefix(o.Baseline, GitHubPrefix) {
		return o, nil
	}
	if !host.IsRemote(o.Baseline) {
		_, _, err := f.Read(o.Baseline)
		return o, err
	}
	found := &remoteJob{source: o.Baseline}
	if found.job, found.err = f.download(ctx, o.Baseline); found.err != nil && !errors.Is(found.err, errNoObject) {
		return o, fmt.Errorf("--baseline: %w", found.err)
	}
	o.remote = found
	return o, nil
}
