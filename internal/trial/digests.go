package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/gate"
)

// Digests tell whether a trial of another job was the same experiment. Equal ones mean: nothing that the job file says about it
// differs. They stand in result files, which may be public, so no secret goes into them, not even as a digest: one that is short
// could be guessed.
type Digests struct {
	Agents map[string]string // by name
	Config string
}

// DigestsOf are those of a job. visible are for each agent the variables that hold no secret, and passed those of
// environment.pass_env: their values count, of the others only the placeholders and names do.
func DigestsOf(job config.Job, visible map[string]map[string]string, passed map[string]string) Digests {
	d := Digests{Agents: map[string]string{}, Config: digestOf(struct {
		Job    config.Job
		Passed map[string]string
	}{experiment(job), passed})}
	for _, a := range job.Agents {
		d.Agents[a.Name] = agentDigest(a, visible[a.Name])
	}
	return d
}

func agentDigest(a agent.Agent, visible map[string]string) string {
	a.Description = ""
	return digestOf(struct {
		Agent   agent.Agent
		Visible map[string]string
	}{a, visible})
}

// experiment is the configuration without what is known of a trial by its key and its other digests, without what says how
// many trials there are and how they are scheduled and judged. Whatever else there is counts, so that a key that is
// new or was forgotten here makes trials differ rather than the same.
func experiment(job config.Job) config.Job {
	job.Name, job.JobsDir, job.LogLevel = "", "", ""
	job.NAttempts, job.NConcurrentTrials = 0, 0
	job.Environment.MinFreeDisk = 0
	job.Retry, job.Metrics, job.Gate = config.Retry{}, nil, gate.Policy{}
	job.Agents, job.Datasets, job.Tasks, job.TasksFormat, job.IncludeTasks, job.ExcludeTasks = nil, nil, nil, "", nil, nil
	return job
}

// digestOf is a digest of a value's JSON, which has the keys of maps sorted.
func digestOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // no value of a configuration: then nothing is the same
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
