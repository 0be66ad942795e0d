package result

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Plan describes the trials of a job: <job>/plan.json. It is written before the first trial and
// stays with the results, so that missing ones can be named.
type Plan struct {
	JobName string `json:"job_name"`
	// NamedAs is the name in the job file, if it has placeholders: another run has another JobName,
	// and the same NamedAs.
	NamedAs string `json:"named_as,omitempty"`
	// RolloutVersion is the version of Rollout that planned the job, such as v1.2.3; "" for a
	// development build.
	RolloutVersion string    `json:"rollout_version,omitempty"`
	StartedAt      time.Time `json:"started_at"`
	// Digest ("sha256:…") is equal for plans of the same work: configuration, contents of tasks and
	// trials, however they are split. It does not cover the names of the job and of directories, or
	// how many trials run at once.
	Digest string `json:"digest"`
	// Commit is the git commit of the job file; nil outside git.
	Commit *string `json:"commit"`
	// Parents are the parents of Commit, in order; empty if unknown. A pull request is checked out
	// as a merge, whose parents are the merged commits.
	Parents []string `json:"commit_parents,omitempty"`
	// Shard is the part of the plan that this directory has; nil means all of it.
	Shard *Shard `json:"shard,omitempty"`
	// Split ("sha256:…") is equal for plans that are split alike. Empty without Shard.
	Split string `json:"split,omitempty"`
	// Checksums: this version of Rollout writes a SumsFile for the shard when it ends, so one that
	// has ended without it was changed on its way. Earlier versions do not say so.
	Checksums bool     `json:"checksums,omitempty"`
	Metrics   []string `json:"metrics"` // that the job asks for: sum, min, max, mean
	// Confirm is set when tasks look broken and are going to be tried again (gate.confirm). A shard
	// has only its own tasks in it.
	Confirm *PlannedConfirmation `json:"confirm,omitempty"`
	// Beside is set if the job was run together with another one: its baseline, or the job that it
	// is the baseline of.
	Beside *Beside `json:"beside,omitempty"`
	// Stopped holds the reasons why the last run started no more trials although some were left;
	// empty if Rollout did not decide that. A merged job has an entry for each shard that stopped.
	Stopped []Stop `json:"stopped,omitempty"`
	// Rounds is set if the attempts are made in rounds (gate.stop). A shard has only its own trials
	// in it.
	Rounds *Rounds        `json:"rounds,omitempty"`
	Agents []PlannedAgent `json:"agents,omitempty"` // those with files, sorted by name
	Tasks  []PlannedTask  `json:"tasks"`            // sorted by dataset and name
	Trials Keys           `json:"trials"`           // of the whole job, in the order in which they are started
	// ShardOf holds the shard of each of Trials, from 1. Empty without Shard.
	ShardOf []int `json:"shard_of,omitempty"`
	// NotAffected has the trials that are left out because of what changed; nil: all are planned,
	// and nobody asked what changed.
	NotAffected *NotAffected `json:"not_affected,omitempty"`
	// NotSelected has the agents and tasks that the job does not select; nil: it selects all.
	NotSelected *NotSelected `json:"not_selected,omitempty"`
	// Resumed holds an entry for each resume of the job, in order.
	Resumed []Resumption `json:"resumed,omitempty"`
	// PathsFrom is the directory to which the paths in config.json are relative, as a path from the
	// job's directory with forward slashes; "" if unknown (after a merge).
	PathsFrom string `json:"paths_from,omitempty"`
	// JobFile is the path of the job file from the directory where the job was planned, with
	// forward slashes; "" if it had none, or read it from standard input. It is in the directory
	// PathsFrom.
	JobFile string `json:"job_file,omitempty"`
	// JobFlags means that flags changed the work of the job file: it is not the same job without
	// them.
	JobFlags bool `json:"job_flags,omitempty"`
	// Compared: the job began with a baseline. Which one is not stored, because it may be a path of
	// the machine.
	Compared bool `json:"compared,omitempty"`
	// ProvesTasks: the trials prove tasks. They are not the ones that config.json alone would plan.
	ProvesTasks bool `json:"proof,omitempty"`
	// Reverifies is the directory, as it was given, of the job whose trials are verified again; "":
	// the trials run their agents.
	Reverifies string `json:"reverifies,omitempty"`
	// OnlyJudges: the trials of Reverifies are judged again, and their tests do not run either.
	OnlyJudges bool `json:"only_judges,omitempty"`
}

// ID identifies the directory that the plan was written for; a resumed job keeps it.
func (p Plan) ID() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q", p.JobName, p.StartedAt.UTC().Format(time.RFC3339Nano), p.Digest)
	if p.Shard != nil {
		fmt.Fprintf(sum, " %d/%d", p.Shard.Index, p.Shard.Total)
	}
	return hex.EncodeToString(sum.Sum(nil)[:10])
}

// Beside describes the other one of two jobs that were run together.
type Beside struct {
	// Baseline: this job is the baseline of the other one.
	Baseline bool   `json:"baseline"`
	JobName  string `json:"job_name"` // of the other job; its directory has the same parent
	Commit   string `json:"commit"`   // of the baseline
	// OnlyConfirms: the baseline makes confirmation attempts alone, and the job is compared with
	// another one.
	OnlyConfirms bool `json:"only_confirms,omitempty"`
}

// baselineOf reports whether the job with this Beside is the baseline that ran together with head.
func (b *Beside) baselineOf(head Job) bool {
	return b != nil && b.Baseline && head.Beside != nil && !head.Beside.Baseline && b.Commit == head.Beside.Commit && b.JobName == head.JobName
}

// Resumption describes one resume of a job.
type Resumption struct {
	At time.Time `json:"at"`
	// IdleSec is the time, in seconds, in which nothing is known to have run: since the end of the
	// last trial. A job's duration leaves it out.
	IdleSec float64 `json:"idle_sec"`
	// RolloutVersion is the version that resumed the job, if it is another one than the plan's.
	RolloutVersion string `json:"rollout_version,omitempty"`
}

// Idle returns the total time between being stopped and being resumed.
func (p Plan) Idle() time.Duration {
	var sum float64
	for _, r := range p.Resumed {
		sum += r.IdleSec
	}
	return time.Duration(min(sum, maxIdle) * float64(time.Second))
}

// Shard is one part of a job that is split over several machines. Index counts from 1 to Total.
type Shard struct {
	Index int `json:"index"`
	Total int `json:"total"`
}

// String returns "3/4".
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Total) }

// PlannedAgent describes the files of an agent at the time of planning.
type PlannedAgent struct {
	Agent string `json:"agent_name"`
	// Files ("sha256:…") is equal for agents with equal files at equal paths in the environment.
	Files string `json:"files_digest"`
	Count int    `json:"files"`
	Bytes int64  `json:"bytes"`
	// Sums holds the beginning of each file's digest by its path in the environment, so that a
	// message can name the changed files. Empty if there are too many files.
	Sums map[string]string `json:"sums,omitempty"`
}

// PlannedTask describes a task of a job at the time of planning.
type PlannedTask struct {
	Dataset string `json:"dataset_name"`
	Task    string `json:"task_name"`
	// Digest ("sha256:…") is equal for tasks with equal files and formats; "" if they could not be
	// read.
	Digest string `json:"digest"`
	// Format names the rules that the task is read by ("harbor"); "" means Rollout's own.
	Format string `json:"format,omitempty"`
	// Path is the task's directory relative to the root of its repository (outside git: to the
	// current directory), with forward slashes; "" if the task is not below that.
	Path string `json:"path"`
	// GitURL, GitCommitID (complete) and GitPath are the origin of a registry's task; "" for
	// others.
	GitURL      string `json:"git_url,omitempty"`
	GitCommitID string `json:"git_commit_id,omitempty"`
	GitPath     string `json:"git_path,omitempty"`
}

// Own returns the keys of the trials that belong in this directory: those of its shard, or all,
// without those that are not needed or of later rounds (Rounds). A baseline that makes confirmation
// attempts alone has none.
func (p Plan) Own() Keys {
	if p.OnlyConfirms() {
		return Keys{}
	}
	return p.within()
}

// OnlyConfirms reports whether the job is a baseline that makes confirmation attempts alone.
func (p Plan) OnlyConfirms() bool {
	return p.Beside != nil && p.Beside.Baseline && p.Beside.OnlyConfirms
}

// within returns the keys of the needed trials of the plan's shard, or all.
func (p Plan) within() Keys {
	keys := p.Trials
	if p.Shard != nil {
		keys = p.Part(p.Shard.Index)
	}
	if p.Rounds != nil && len(p.Rounds.NotNeeded)+p.Rounds.Upto > 0 {
		keys = keys.Where(func(_ int, key Key) bool { return !p.Rounds.Leaves(key) })
	}
	return keys
}

// Part returns the keys of one shard, counted from 1, in the plan's order.
func (p Plan) Part(index int) Keys {
	return p.Trials.Where(func(i int, _ Key) bool { return i < len(p.ShardOf) && p.ShardOf[i] == index })
}

// MaxShards bounds the number of shards of a job. A workflow can start 256 jobs. Check refuses
// plans with more.
const MaxShards = 1000

// maxIdle bounds the idle time of a job, in seconds, so that sums do not overflow: a century.
const maxIdle = 100 * 366 * 24 * 3600

// Check returns an error for a plan that job.Record would not make, because a file may contain
// anything.
func (p Plan) Check() error {
	for _, m := range p.Metrics {
		if !slices.Contains(MetricTypes, m) {
			return fmt.Errorf("is no plan of a job: there is no metric %q", m)
		}
	}
	for _, r := range p.Resumed {
		if !(r.IdleSec >= 0 && r.IdleSec < maxIdle) {
			return fmt.Errorf("is no plan of a job: it was idle for %g seconds", r.IdleSec)
		}
	}
	if err := p.checkConfirm(); err != nil {
		return fmt.Errorf("is no plan of a job: %w", err)
	}
	if err := cmp.Or(p.checkStops(), p.NotAffected.check(), p.NotSelected.check(), p.Rounds.check()); err != nil {
		return fmt.Errorf("is no plan of a job: %w", err)
	}
	if p.Shard == nil {
		return nil
	}
	if p.Shard.Total > MaxShards || p.Shard.Index < 1 || p.Shard.Index > p.Shard.Total {
		return fmt.Errorf("is no plan of a job: there is no shard %s (at most %d)", p.Shard, MaxShards)
	}
	if len(p.ShardOf) != p.Trials.Len() {
		return fmt.Errorf("is no plan of a job: it says for %d of %d trials in which shard they are", len(p.ShardOf), p.Trials.Len())
	}
	for _, s := range p.ShardOf {
		if s < 1 || s > p.Shard.Total {
			return fmt.Errorf("is no plan of a job: it has a trial in shard %d of %d", s, p.Shard.Total)
		}
	}
	return nil
}
