package result

import (
	"fmt"
	"slices"
	"time"
)

// MaxPool bounds the number of runs that are a baseline together. More add little, and with nine or
// more a single task could be more than chance by itself.
const MaxPool = 5

// PooledRun identifies a run of a baseline of several runs.
type PooledRun struct {
	JobName   string    `json:"job_name"`
	Commit    *string   `json:"commit"`
	StartedAt time.Time `json:"started_at"`
}

// PooledRuns returns the runs of a baseline, the newest first; nil if it is one run.
func (j *Job) PooledRuns() []PooledRun {
	if len(j.Pool) == 0 {
		return nil
	}
	runs := []PooledRun{{j.JobName, j.Commit, j.StartedAt}}
	for _, o := range j.Pool {
		runs = append(runs, PooledRun{o.JobName, o.Commit, o.StartedAt})
	}
	return runs
}

// Partial returns why a run cannot be one of several runs of a baseline; "" if it can. Only a run
// that made all of its trials itself is as likely as any other one to be the better one.
func (j *Job) Partial() string {
	switch {
	case j.Shard != nil:
		return "it is only shard " + j.Shard.String()
	case j.SkippedTrials > 0 || j.Cancelled || j.Results.Len() == 0:
		return "it is incomplete"
	case j.Rounds != nil && len(j.Rounds.NotNeeded) > 0:
		return "it ended early"
	case j.NotAffected != nil:
		return "it left trials out that its change could not affect"
	case j.ReusedTrials > 0:
		return "it took trials over from another run"
	}
	return ""
}

// DiffersFrom returns why an earlier run is none of the same job as a newer one: another version,
// other tasks, agents or attempts, or other contents of these; "" if it is one. If a result does
// not say what its trials ran, the digest of the whole plan decides. Images are compared by name:
// one that is built has another ID on each machine.
func (j *Job) DiffersFrom(newer *Job) string {
	if !JudgeAlike(j.RolloutVersion, newer.RolloutVersion) {
		return "it is of another version of Rollout"
	}
	mine, others := j.Results.Sorted(), newer.Results.Sorted()
	if mine.Len() != others.Len() {
		return "it has other tasks, agents or attempts"
	}
	known := map[string]bool{} // agents
	for i, o := range mine.All() {
		p := others.At(i)
		switch {
		case o.Key != p.Key:
			return "it has other tasks, agents or attempts"
		case o.SameTrial(p):
			return "it has trials of a newer one"
		case o.TaskDigest != p.TaskDigest:
			return fmt.Sprintf("the files of %s differ", o.Task)
		}
		e, ok := j.Ran(o)
		f, also := newer.Ran(p)
		if e.ImageID, f.ImageID = "", ""; ok && also && e != f {
			return fmt.Sprintf("the agent %s, its configuration or its image differs", o.Agent)
		}
		known[o.Agent] = known[o.Agent] || ok && also
	}
	for _, o := range mine.All() {
		if !known[o.Agent] && j.PlanDigest != newer.PlanDigest {
			return "its agents, tasks or configuration differ"
		}
	}
	return ""
}

// addPool adds the attempts of earlier runs to those of the newest.
func addPool(newest []Attempts, pool []Job) {
	earlier := make([]map[Key]*Attempts, len(pool))
	for i, job := range pool {
		earlier[i] = map[Key]*Attempts{}
		of := attempts(job.Results, job.Skipped)
		for j := range of {
			earlier[i][of[j].key()] = &of[j]
		}
	}
	for i, t := range newest {
		runs := []*Attempts{&t}
		for _, run := range earlier {
			runs = append(runs, run[t.key()])
		}
		newest[i] = Together(runs)
	}
}

// Together returns the attempts of several runs at a task as one, with Runs; nil stands for none.
func Together(runs []*Attempts) Attempts {
	all, scores := *runs[0], runs[0].Scores()
	all.rare = &rareAttempts{runs: runs}
	for _, r := range runs[1:] {
		if r == nil {
			continue
		}
		all.Total += r.Total
		all.Rewards = slices.Concat(all.Rewards, r.Rewards)
		scores = slices.Concat(scores, r.Scores())
		all.Passed += r.Passed
		all.Failed += r.Failed
		all.Cancelled += r.Cancelled
		all.Lost += r.Lost
	}
	if all.Lost > 0 {
		all.rare.scores = scores
	}
	return all
}
