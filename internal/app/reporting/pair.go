package reporting

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job/merge"
	"github.com/org/rollout-action/internal/run/job/resume"
)

// AgainstSuffix returns the suffix that the name of a --against baseline adds to the name of its
// job.
func AgainstSuffix(commit string) string { return "-against-" + host.ShortCommit(commit) }

// BaselineDir returns the directory of the baseline that ran with the job in dir, or "" if there is
// none.
func BaselineDir(paths host.Paths, dir string, plan result.Plan) string {
	if plan.Beside == nil || plan.Beside.Baseline {
		return ""
	}
	suffix, ok := strings.CutPrefix(plan.Beside.JobName, plan.JobName)
	if !ok || suffix != AgainstSuffix(plan.Beside.Commit) || result.Slug(suffix) != suffix {
		return ""
	}
	shard := ""
	if plan.Shard != nil {
		shard = ShardSuffix(*plan.Shard)
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

// maxMoved is the highest number of regressed tasks for which againstCommand suggests a command.
// More are not explained by the drift of single tasks.
const maxMoved = 10

// againstCommand returns the command that runs the regressed tasks together with a baseline
// measured at another time, or "" if there is none. Of a cancelled job there is none: its remaining
// trials come first.
func againstCommand(paths host.Paths, in report.Input, base *result.Job, ran []string) string {
	if in.Job.Cancelled || base == nil || base.Commit == nil || !git.IsID(*base.Commit) || in.Plan.Commit == nil || in.Plan.Beside != nil || in.Diff == nil || in.Verdict.Outcome == gate.Pass {
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
	command := "rollout run"
	if len(ran) == 0 {
		command += " " + jobFile(paths, in.Dir, in.Plan)
	}
	for _, arg := range ran {
		command += " " + host.QuotedArgument(arg)
	}
	command += " --name " + host.QuotedPath(in.Plan.JobName+"-again") + " --against " + host.ShortCommit(*base.Commit)
	for _, name := range slices.Sorted(maps.Keys(moved)) {
		command += " --task " + host.QuotedPath(name)
	}
	return "The baseline ran at another time. To run both now, on the tasks that got worse alone: " + command
}

// findPaired returns the baseline that ran with the job in dir, or nil. Unless the job is compared
// with another one, it becomes the baseline of opts, and the job is incomplete if it is.
func (end *Ending) findPaired(h *host.Host, dir string, plan result.Plan, opts *ReportOptions) (*result.PackedTree, error) {
	base := BaselineDir(h.Paths, dir, plan)
	if base == "" {
		return nil, nil
	}
	if opts.Baseline == "" && !plan.Beside.OnlyConfirms {
		opts.Baseline = base
	}
	tree, err := result.ReadPackedTree(h.Path(base))
	if err != nil {
		return nil, fmt.Errorf("read the baseline that ran with %s: %w", host.Clean(dir), err)
	}
	if plan.Beside.OnlyConfirms || filepath.Clean(h.Path(opts.Baseline)) == filepath.Clean(h.Path(base)) {
		end.addBeside(h, dir, base, tree)
	}
	return &tree, nil
}

// PairResumption returns the command that continues a job and its baseline. plan is the plan of
// either, whose directory is dir.
func PairResumption(paths host.Paths, dir string, plan result.Plan, opts ReportOptions) string {
	flag, other := "--against", ""
	if plan.Beside.OnlyConfirms {
		flag, other = "--confirm-against", opts.Flags(plan.Compared)
	}
	name := plan.JobName
	if plan.Beside.Baseline {
		name = plan.Beside.JobName
	}
	if plan.Shard != nil {
		other += " --shard " + plan.Shard.String()
	}
	return "rollout run " + pairJobFile(paths, dir, plan) + " --name " + host.QuotedPath(name) + " " + flag + " " + plan.Beside.Commit + " --resume" + other
}

// addBeside adds the missing results of the baseline in the directory base, which ran with the job
// in dir, and why its trials were not started.
func (end *Ending) addBeside(h *host.Host, dir, base string, tree result.PackedTree) {
	for _, sentence := range merge.Missing(h.Path(base)) {
		if sentence = "baseline: " + sentence; !slices.Contains(end.Incomplete, sentence) {
			end.Incomplete = append(end.Incomplete, sentence)
		}
	}
	ended, _ := tree.Summarize()
	for _, sentence := range stopSentences(ended) {
		end.Notes = append(end.Notes, "baseline: "+sentence)
	}
	missing := ended.SkippedTrials + ended.Errors[result.Cancelled]
	if missing == 0 {
		return
	}
	end.Incomplete = append(end.Incomplete, fmt.Sprintf("the baseline that ran with it is incomplete: %d of %s never ran or left no result", missing, plural.Count(ended.TotalTrials, "trial")))
	stored := resume.Job{Dir: h.Path(base), Plan: tree.Plan}
	from, err := stored.PathsFrom()
	switch {
	case end.Both:
	case err != nil || !host.IsDir(from): // the files of its commit were not kept
		end.Notes = append(end.Notes, "To run the remaining trials of both: "+PairResumption(h.Paths, base, tree.Plan, ReportOptions{})+MoreBudget(ended.Stopped))
	default:
		end.Notes = append(end.Notes, "To run the remaining trials of the baseline: "+Resumption(h.Paths, base, tree.Plan, ReportOptions{})+MoreBudget(ended.Stopped),
			"Then, to report on the job: rollout report "+host.QuotedPath(dir))
	}
}

// ShardSuffix returns the suffix that a shard's directory adds to the name of its job.
func ShardSuffix(s result.Shard) string { return ".shard-" + ShardName(s) }

// FoundBaseline is a baseline, or a sentence about why there is none.
type FoundBaseline struct {
	Job      *result.Job
	Sentence string
	Err      error
	URL      string // of its run; "" if not known
	// Source names the run on GitHub that it is the result of, for --baseline; "": it is of none.
	Source string
}

// ShardName returns the name of a shard in file and artifact names.
func ShardName(s result.Shard) string { return fmt.Sprintf("%d-of-%d", s.Index, s.Total) }
