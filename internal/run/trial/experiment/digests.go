package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/model/scripted"
)

// Digests identify the experiment of a trial: if they are equal, the job files define the same
// experiment. Result files, which may be public, contain them. So they do not depend on secrets, of
// which a short one could be guessed.
type Digests struct {
	Agents map[string]string // by name
	Config string            // of tasks without their own judges; see ConfigOf
	job    config.Job
	in     Inputs
}

// Inputs holds the values that a job's file only refers to.
type Inputs struct {
	Visible map[string]map[string]string // each agent's variables that hold no secret
	Passed  map[string]string            // those of environment.pass_env that hold none
	Files   map[string]string            // the digest of each agent's files, of those that have some
	Scripts map[string]scripted.Script   // those of scripted models, by the models' names
	// Recordings holds the digests of the recordings that models with replay answer from, by the
	// models' names.
	Recordings map[string]string
}

// DigestsOf returns the digests of a job. Of the inputs' variables the values count; of all others
// only the names and placeholders. Of files, their paths in the environment count, not their
// sources.
func DigestsOf(job config.Job, in Inputs) Digests {
	d := Digests{Agents: map[string]string{}, job: job, in: in, Config: digestOf(struct {
		Job    config.Job
		Passed map[string]string
		Judges []judgeDigest `json:",omitempty"`
	}{config.Experiment(job, config.ForReuse), in.Passed, judgeDigests(job, in, job.Judges)})}
	for _, a := range job.Agents {
		d.Agents[a.Name] = agentDigest(a, in.Visible[a.Name], in.Files[a.Name], modelOf(job, in, a.Model))
	}
	return d
}

// ConfigOf returns the digest of the configuration for trials of a task: the task's digest covers
// the judges of the task, and this one covers the job's agents and models for them.
func (d Digests) ConfigOf(t *task.Task) string {
	if len(t.Config.Judges) == 0 {
		return d.Config
	}
	return digestOf(struct {
		Config string
		Judges []judgeDigest
	}{d.Config, judgeDigests(d.job, d.in, t.Config.Judges)})
}

// JudgeOf returns the digest of a judge: of everything that its scores depend on besides the trial.
// Its budget and timeout do not count: see config.ForScores.
func (d Digests) JudgeOf(s judge.Spec) string {
	agentAndModel := judgeDigests(d.job, d.in, []judge.Spec{s})[0]
	s = config.Experiment(s, config.ForScores)
	if s.Agent != judge.Call { // the default of others was a file once, which makes another judge
		s.Source = s.VerdictSource()
	}
	return digestOf(struct {
		Spec judge.Spec
		judgeDigest
	}{s, agentAndModel})
}

// judgeDigest holds the inputs of a judge's verdicts besides its specification. The model of the
// trial's agent is in the agent's digest.
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

// usedModel holds the properties of a model that an agent's results depend on: neither limits of
// requests nor prices.
type usedModel struct {
	config.Model
	Answers    scripted.Script
	Recordings string `json:",omitempty"`
}

// modelOf returns the model with a name; nil if the job has none.
func modelOf(job config.Job, in Inputs, name string) *usedModel {
	m, ok := job.Models[name]
	if !ok {
		return nil
	}
	return &usedModel{config.Experiment(m, config.ForReuse), in.Scripts[name], in.Recordings[name]}
}

func agentDigest(a agent.Agent, visible map[string]string, files string, m *usedModel) string {
	return digestOf(struct {
		Agent   agent.Agent
		Visible map[string]string
		Files   string     `json:",omitempty"`
		Model   *usedModel `json:",omitempty"`
	}{config.Experiment(a, config.ForReuse), visible, files, m})
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
