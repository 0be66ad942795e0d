package result

import (
	"slices"
	"strconv"
	"time"
)

// Metadata sums up a job: <job>/metadata.json, written when the job begins, from time to time while
// it runs, and when it ends. Its first fields have the names that other tools use in the metadata
// of an outputs.jsonl. Rollout never reads it; it is always computed from the trials.
type Metadata struct {
	JobName    string   `json:"job_name"`
	PlanDigest string   `json:"plan_digest"`
	Commit     *string  `json:"commit"`
	Shard      *Shard   `json:"shard,omitempty"` // whose trials are counted
	Datasets   []string `json:"datasets"`        // sorted
	// NumExamples is the number of tasks of the whole job, RolloutsPerExample the number of
	// attempts of each agent at each.
	NumExamples        int       `json:"num_examples"`
	RolloutsPerExample int       `json:"rollouts_per_example"`
	StartedAt          time.Time `json:"started_at"`
	// UpdatedAt is the end of the last trial that is counted.
	UpdatedAt time.Time `json:"updated_at"`
	// IsComplete: every planned trial has a result, and the job was not cancelled.
	IsComplete bool `json:"is_complete"`
	Progress
	Agents map[string]Progress `json:"agents"`
}

// Progress sums up the trials so far. AvgReward and PassRate are over completed trials, and null if
// there are none. Cost is in US dollars, and null if nothing reported a cost.
type Progress struct {
	TotalTrials     int      `json:"total_trials"` // planned
	CompletedTrials int      `json:"completed_trials"`
	FailedTrials    int      `json:"failed_trials"`
	PendingTrials   int      `json:"pending_trials"` // without a result
	ReusedTrials    int      `json:"reused_trials,omitempty"`
	AvgReward       *float64 `json:"avg_reward"`
	PassRate        *float64 `json:"pass_rate"`
	// PassAtK and PassHatK have the keys "1", "2" and so on; they are omitted if tasks have one
	// attempt only. See PassK.
	PassAtK  map[string]float64 `json:"pass_at_k,omitempty"`
	PassHatK map[string]float64 `json:"pass_hat_k,omitempty"`
	Cost     USD                `json:"cost"`
}

// MetadataOf returns the metadata of a job. job is the result of Summarize for the trials so far.
func MetadataOf(plan Plan, job Job) Metadata {
	m := Metadata{
		JobName: plan.JobName, PlanDigest: plan.Digest, Commit: plan.Commit, Shard: plan.Shard,
		Datasets: []string{}, NumExamples: len(plan.Tasks), StartedAt: plan.StartedAt, UpdatedAt: job.EndedAt,
		IsComplete: !job.Cancelled, Progress: progressOf(job.Summary), Agents: map[string]Progress{},
	}
	for _, t := range plan.Tasks {
		m.Datasets = append(m.Datasets, t.Dataset)
	}
	slices.Sort(m.Datasets)
	m.Datasets = slices.Compact(m.Datasets)
	for _, k := range plan.Trials {
		m.RolloutsPerExample = max(m.RolloutsPerExample, k.Attempt)
	}
	for name, s := range job.Agents {
		m.Agents[name] = progressOf(s)
	}
	return m
}

func progressOf(s Summary) Progress {
	out := Progress{
		TotalTrials: s.TotalTrials, CompletedTrials: s.CompletedTrials, FailedTrials: s.FailedTrials, PendingTrials: s.SkippedTrials, ReusedTrials: s.ReusedTrials,
		Cost: s.TotalCost,
	}
	if s.CompletedTrials > 0 {
		out.AvgReward, out.PassRate = &s.MeanReward, &s.PassRate
	}
	for _, p := range s.PassK {
		if p.Tasks == 0 {
			continue
		}
		if out.PassAtK == nil {
			out.PassAtK, out.PassHatK = map[string]float64{}, map[string]float64{}
		}
		out.PassAtK[strconv.Itoa(p.K)], out.PassHatK[strconv.Itoa(p.K)] = p.PassAt, p.PassHat
	}
	return out
}
