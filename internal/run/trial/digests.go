package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/model/scripted"
)

// Digests tell whether a trial of another job was the same experiment: if they are equal, the job files say the same about it.
// Result files, which may be public, contain them. So they do not depend on secrets, of which a short one could be guessed.
type Digests struct {
	Agents map[string]string // by name
	Config string            // of tasks without judges of their own; see ConfigOf
	job    config.Job
	in     Inputs
}

// Inputs is what a job's file does not have itself.
type Inputs struct {
	Visible map[string]map[string]string // each agent's variables that hold no secret
	Passed  map[string]string            // those of environment.pass_env that hold none
	Files   map[string]string            // the digest of each agent's files, of those that have some
	Scripts map[string]scripted.Script   // those of scripted models, by the models' names
	// Recordings has the digests of what models with replay answer from, by the models' names.
	Recordings map[string]string
}

// DigestsOf returns the digests of a job. Of the inputs' variables the values count; of all others only the names and placeholders. Of
// files it counts where they are in the environment, not where they come from.
func DigestsOf(job config.Job, in Inputs) Digests {
	d := Digests{Agents: map[string]string{}, job: job, in: in, Config: digestOf(struct {
		Job    config.Job
		Passed map[string]string
		Judges []judgeDigest `json:",omitempty"`
	}{experiment(job), in.Passed, judgeDigests(job, in, job.Judges)})}
	for _, a := range job.Agents {
		d.Agents[a.Name] = agentDigest(a, in.Visible[a.Name], in.Files[a.Name], modelOf(job, in, a.Model))
	}
	return d
}

// ConfigOf returns the digest of the configuration for trials of a task: the judges of the task are in the task's digest, and what agents and
// models the job has for them is in this one.
func (d Digests) ConfigOf(t *task.Task) string {
	if len(t.Config.Judges) == 0 {
		return d.Config
	}
	return digestOf(struct {
		Config string
		Judges []judgeDigest
	}{d.Config, judgeDigests(d.job, d.in, t.Config.Judges)})
}

// JudgeOf returns the digest of a judge: of all that its scores depend on besides the trial. What it may use and how long it may take do not
// count.
func (d Digests) JudgeOf(s judge.Spec) string {
	agentAndModel := judgeDigests(d.job, d.in, []judge.Spec{s})[0]
	s.Budget, s.TimeoutSec, s.OnError = agent.Budget{}, 0, ""
	if s.Agent != judge.Call { // the default of others was a file once, which is another judge
		s.Source = s.VerdictSource()
	}
	return digestOf(struct {
		Spec judge.Spec
		judgeDigest
	}{s, agentAndModel})
}

// judgeDigest is what the verdicts of a judge depend on besides its specification. The model of the trial's agent is in the agent's digest.
type judgeDigest struct {
	Agent string     `json:",omitempty"`
	Model *usedModel `json:",omitempty"`
}

func judgeDigests(job config.Job, in Inputs, judges []judge.Spec) []judgeDigest {
	var out []judgeDigest
	for _, s := range judges {
		one := judgeDigest{Model: modelOf(job, in, job.JudgeModel(s, agent.Agent{}))}
		if a, ok := job.JudgeAgent(s, agent.Agent{}); ok {
			one.Agent = agentDigest(a, in.Visible[a.Name], in.Files[a.Name], nil)
		}
		out = append(out, one)
	}
	return out
}

// usedModel is what the results of an agent depend on of its model: not how many requests there may be, nor what they cost.
type usedModel struct {
	config.Model
	Answers    scripted.Script
	Recordings string `json:",omitempty"`
}

// modelOf returns the model with a name; nil if it is "".
func modelOf(job config.Job, in Inputs, name string) *usedModel {
	m, ok := job.Models[name]
	if !ok {
		return nil
	}
	m.MaxConcurrent, m.Price, m.Script, m.RecordTo = 0, nil, "", ""
	return &usedModel{m, in.Scripts[name], in.Recordings[name]}
}

func agentDigest(a agent.Agent, visible map[string]string, files string, m *usedModel) string {
	a.Description, a.Files, a.Trainable = "", nil, false
	return digestOf(struct {
		Agent   agent.Agent
		Visible map[string]string
		Files   string     `json:",omitempty"`
		Model   *usedModel `json:",omitempty"`
	}{a, visible, files, m})
}

// experiment returns the configuration without what a trial's key and other digests tell, and without how many trials there are
// and how they are scheduled and judged. Everything else counts: a new key, or one that was forgotten here, makes trials
// differ rather than equal.
func experiment(job config.Job) config.Job {
	job.Name, job.JobsDir, job.LogLevel = "", "", ""
	job.NAttempts, job.NConcurrentTrials = 0, 0
	job.Environment.MinFreeDisk, job.Environment.Keep = 0, ""
	job.Budget = config.Budget{}
	job.Retry, job.Metrics, job.Gate = config.Retry{}, nil, gate.Policy{}
	job.Models, job.JudgeAgents = nil, nil // those that judge are in judgeDigests
	job.Agents, job.Datasets, job.Tasks, job.TasksFormat, job.IncludeTasks, job.ExcludeTasks = nil, nil, nil, "", nil, nil
	return job
}

// digestOf returns a digest of a value's JSON, in which the keys of maps are sorted.
func digestOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // cannot happen with a configuration; then no trial equals another
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
