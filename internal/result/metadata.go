package result

import (
	"slices"
	"strconv"
	"time"
)

// Metadata is a job at a glance: <job>/metadata.json, written when the job begins, now and then while it runs, and when it
// ends. The names of its first fields are those of the metadata that stands beside an outputs.jsonl elsewhere. Nothing
// reads it back: what it says is counted anew from the trials.
type Metadata struct {
	JobName    string   `json:"job_name"`
	PlanDigest string   `json:"plan_digest"`
	Commit     *string  `json:"commit"`
	Shard      *Shard   `json:"shard,omitempty"` // the counts are of its trials
	Datasets   []string `json:"datasets"`        // sorted
	// NumExamples is how many tasks the whole job has, RolloutsPerExample how many attempts each agent has at each.
	NumExamples        int       `json:"num_examples"`
	RolloutsPerExample int       `json:"rollouts_per_example"`
	StartedAt          time.Time `json:"started_at"`
	// UpdatedAt is when the last of the trials ended that are counted here.
	UpdatedAt time.Time `json:"updated_at"`
	// IsComplete: every planned trial has a result, and the job was not cancelled.
	IsComplete bool `json:"is_complete"`
	Standing
	Agents map[string]Standing `json:"agents"`
}

// Standing is what trials came to so far. AvgReward and PassRate are over completed trials, and null without one; Cost is in US
// dollars, and null where nobody has said what anything cost.
type Standing struct {
	TotalTrials     int      `json:"total_trials"` // planned
	CompletedTrials int      `json:"completed_trials"`
	FailedTrials    int      `json:"failed_trials"`
	PendingTrials   int      `json:"pending_trials"` // without a result
	ReusedTrials    int      `json:"reused_trials,omitempty"`
	AvgReward       *float64 `json:"avg_reward"`
	PassRate        *float64 `json:"pass_rate"`
	// PassAtK and PassHatK have "1", "2" and so on as keys; they are left out where there is one attempt only. See PassK.
	PassAtK  map[string]float64 `json:"pass_at_k,omitempty"`
	PassHatK map[string]float64 `json:"pass_hat_k,omitempty"`
	Cost     USD                `json:"cost"`
}

// MetadataOf is where a job stands. job is what Summarize makes of the trials so far.
func MetadataOf(plan Plan, job Job) Metadata {
	m := Metadata{
		JobName: plan.JobName, PlanDigest: plan.Digest, Commit: plan.Commit, Shard: plan.Shard,
		Datasets: []string{}, NumExamples: len(plan.Tasks), StartedAt: plan.StartedAt, UpdatedAt: job.EndedAt,
		IsComplete: !job.Cancelled, Standing: standingOf(job.Summary), Agents: map[string]Standing{},
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
		m.Agents[name] = standingOf(s)
	}
	return m
}

func standingOf(s Summary) Standing {
	out := Standing{
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
