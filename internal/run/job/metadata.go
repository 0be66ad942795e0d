package job

import (
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// While a job runs, metadata.json is written at most every metadataEvery, and seldom enough for
// writing to take at most 1/metadataShare of the time.
const (
	metadataEvery = 5 * time.Second
	metadataShare = 50
)

// WriteMetadata writes metadata.json, the progress of the job for other programs.
func (t *Tree) WriteMetadata(job result.Job) error {
	return result.WriteJSON(filepath.Join(t.Dir, result.MetadataFile), MetadataOf(t.Plan, job))
}

// writeMetadata writes metadata.json if the last time is long enough ago. It ignores errors: the
// file is written again at the end, and that error is reported.
func (r *run) writeMetadata() {
	began := r.Now()
	if began.Before(r.nextMetadata) {
		return
	}
	if !r.nextMetadata.IsZero() { // the first file is as new as the job
		_ = r.Tree.WriteMetadata(result.Summarize(r.Tree.Plan, r.counted()))
	}
	ended := r.Now()
	r.nextMetadata = ended.Add(max(metadataEvery, metadataShare*ended.Sub(began)))
}

// Metadata sums up a job: <job>/metadata.json, written when the job begins, from time to time while
// it runs, and when it ends. Its first fields have the names that other tools use in the metadata
// of an outputs.jsonl. Rollout never reads it; it is always computed from the trials.
type Metadata struct {
	JobName    string        `json:"job_name"`
	PlanDigest string        `json:"plan_digest"`
	Commit     *string       `json:"commit"`
	Shard      *result.Shard `json:"shard,omitempty"` // whose trials are counted
	Datasets   []string      `json:"datasets"`        // sorted
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
	Cost     result.USD         `json:"cost"`
}

// MetadataOf returns the metadata of a job. job is the result of Summarize for the trials so far.
func MetadataOf(plan result.Plan, job result.Job) Metadata {
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
	for _, k := range plan.Trials.All() {
		m.RolloutsPerExample = max(m.RolloutsPerExample, k.Attempt)
	}
	for name, s := range job.Agents {
		m.Agents[name] = progressOf(s)
	}
	return m
}

func progressOf(s result.Summary) Progress {
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
