package judge

import (
	"cmp"

	"github.com/org/rollout-action/internal/core/agent"
)

// Spec is one entry of judges, in job.yaml or task.toml. A judge is an agent that grades what
// another one has done.
// Source: specification 001, "The data model".
type Spec struct {
	Name       string         `yaml:"name" json:"name" required:"true" pattern:"^[A-Za-z][A-Za-z0-9_]{0,39}$" is:"a letter, and letters, digits and _" doc:"Name of the judge in results, and of its score in expressions: scores.NAME. Unique in the job and the task."`
	Agent      string         `yaml:"agent" json:"agent" default:"shell" doc:"Who judges: an agent of the job, a preset, or call, which is one call of the model without tools and without an environment."`
	Model      string         `yaml:"model" json:"model" required:"true" doc:"The model of the judge, by its name in models. policy: the model of the trial's own agent."`
	Prompt     string         `yaml:"prompt" json:"prompt,omitempty" raw:"true" doc:"The prompt of the judge: a template of Go's text/template over .Task, .Trial and .Tests. Rollout adds the places of the evidence and the form of the verdict. Default: a question made of the criteria."`
	PromptFile string         `yaml:"prompt_file" json:"prompt_file,omitempty" doc:"File with the prompt, relative to this file."`
	Verdict    map[string]any `yaml:"verdict" json:"verdict,omitempty" doc:"JSON Schema of the verdict, which is an object. Give this, verdict_file or criteria."`
	// VerdictFile is empty after loading, when Verdict has its content. The same holds for
	// PromptFile and Prompt.
	VerdictFile string      `yaml:"verdict_file" json:"verdict_file,omitempty" doc:"File with the JSON Schema of the verdict, relative to this file."`
	Criteria    []Criterion `yaml:"criteria" json:"criteria,omitempty" most:"50" doc:"Criteria, in place of verdict and score: the form of the verdict follows from them, and the score is their weighted mean."`
	Score       string      `yaml:"score" json:"score,omitempty" raw:"true" doc:"Expression over verdict whose value is the score, from 0 to 1. Default: the weighted mean of criteria; without criteria, verdict.score."`
	Source      Source      `yaml:"source" json:"source,omitempty" enum:"file,reply" doc:"Where the verdict is: reply, the judge's last message, or file, verdict.json in the judge's directory. Every program in the judge's environment can write a file, also a program of the agent that the judge runs. Default: reply."`
	Placement   Placement   `yaml:"placement" json:"placement,omitempty" enum:"trial,fresh" doc:"Where the judge works: trial, the environment in which the agent has worked, or fresh, a new one of the task's image with artifacts. Default: trial; of a group, fresh. A call has none."`
	Artifacts   []string    `yaml:"artifacts" json:"artifacts,omitempty" most:"100" doc:"Absolute paths in the agent's environment that a fresh judge finds at the same paths. One that is missing is an error."`
	// Scope is the unit of judging.
	Scope  Scope  `yaml:"scope" json:"scope,omitempty" enum:"trial,group" doc:"The unit that is judged: trial, or group, all trials of a task, which the judge ranks after the last of them. Default: trial."`
	Orders int    `yaml:"orders" json:"orders,omitempty" min:"1" max:"8" doc:"How often a judge of a group ranks it, each time with the trials in another order, because judges prefer some places. Default: 2."`
	When   string `yaml:"when" json:"when,omitempty" raw:"true" doc:"Expression over tests and rewards: the judge runs only if it is true, such as tests > 0. Without it, it always runs. A judge that does not run has no score."`
	// Processes decides whether processes that the agent has left are ended before a judge works in
	// its environment.
	Processes  Processes    `yaml:"processes" json:"processes,omitempty" default:"end" enum:"end,keep" doc:"How to treat processes that the agent has left in its environment before this judge begins: end, or keep, if the judge needs a server that the agent has started. See docs/trust-judge.md for what keep risks."`
	Budget     agent.Budget `yaml:"budget" json:"budget,omitzero" experiment:"resume,reuse" doc:"The most that the judge may use of its model in one trial. A judge that needs more has failed."`
	TimeoutSec float64      `yaml:"timeout_sec" json:"timeout_sec,omitempty" default:"600" min:"1" max:"100000000" experiment:"resume,reuse" doc:"Seconds the judge may take, without its installation."`
	OnError    OnError      `yaml:"on_error" json:"on_error,omitempty" default:"fail" enum:"fail,ignore" experiment:"resume,reuse" doc:"fail: a judge without a verdict fails the trial. ignore: its score is null, which is never 0."`
}

// Criterion is one thing that a judge decides about, with one of several choices.
type Criterion struct {
	Name    string   `yaml:"name" json:"name" required:"true" pattern:"^[A-Za-z][A-Za-z0-9_]{0,39}$" is:"a letter, and letters, digits and _" doc:"Name of the criterion in results: the judge's, a dot and this one."`
	Text    string   `yaml:"text" json:"text" required:"true" raw:"true" doc:"The question that the judge decides."`
	Choices []string `yaml:"choices" json:"choices,omitempty" most:"20" doc:"The choices, from the worst, which counts 0, to the best, which counts 1; those between count evenly. Default: [no, yes]."`
	Weight  float64  `yaml:"weight" json:"weight,omitempty" default:"1" above:"0" max:"1000" doc:"How much the criterion counts in the score."`
}

// DefaultChoices returns the choices of a criterion that names none.
func DefaultChoices() []string { return []string{"no", "yes"} }

// Call is the agent name of a judge that is a single call of the model.
const Call = "call"

// PolicyModel is the model name that stands for the model of the trial's own agent.
const PolicyModel = "policy"

// Source names the place of a verdict.
type Source string

// The values of source.
const (
	FromFile  Source = "file"
	FromReply Source = "reply"
)

// Placement names the environment in which a judge works.
type Placement string

// The values of placement.
const (
	InTrial Placement = "trial" // in the environment in which the agent has worked
	InFresh Placement = "fresh" // in a new environment with artifacts
)

// Scope names the unit that a judge judges: a trial or a group.
type Scope string

// The values of scope.
const (
	OfTrial Scope = "trial"
	OfGroup Scope = "group" // all trials of a task in the job
)

// defaultOrders is the default of orders: the group is ranked once from either end.
const defaultOrders = 2

// Processes tells whether the agent's leftover processes are ended or kept.
type Processes string

// The values of processes.
const (
	EndProcesses  Processes = "end"
	KeepProcesses Processes = "keep"
)

// OnError is the effect of a judge without a verdict on its trial.
type OnError string

// The values of on_error.
const (
	Fail   OnError = "fail"
	Ignore OnError = "ignore"
)

// VerdictSource returns the place of the verdict. It is a file only if the specification says so:
// any process in the judge's environment can write one.
func (s Spec) VerdictSource() Source { return cmp.Or(s.Source, FromReply) }

// Place returns the environment in which the judge works; "" for a call, which has none.
func (s Spec) Place() Placement {
	switch {
	case s.Agent == Call:
		return ""
	case s.Placement == "" && s.Ranks():
		return InFresh
	case s.Placement == "":
		return InTrial
	}
	return s.Placement
}

// Ranks reports whether the judge ranks the trials of a task.
func (s Spec) Ranks() bool { return s.Scope == OfGroup }

// Rankings returns the number of times that a judge ranks a group.
func (s Spec) Rankings() int { return cmp.Or(s.Orders, defaultOrders) }
