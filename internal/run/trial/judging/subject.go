package judging

import (
	"slices"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
)

// Judge is a judge of a trial with its agent.
type Judge struct {
	*judge.Judge
	Agent agent.Agent       // of the judge, with its model and budget
	Env   map[string]string // its variables, expanded; never written to disk
	Files *agentfiles.Set   // its own; nil: none
}

// EndsProcesses reports whether the processes of the trial's agent are ended before the judge
// works.
func (j Judge) EndsProcesses() bool {
	return j.Place() == judge.InTrial && j.Processes != judge.KeepProcesses
}

// Subject is a trial that is judged.
type Subject struct {
	Key    result.Key
	Task   *task.Task
	Agent  agent.Agent
	Judges []Judge       // of the trial alone
	Reward *judge.Reward // nil: the reward is that of the tests
	Groups []Judge       // rank the trials of the task
}

// judged reports whether the trial has judges.
func (s Subject) judged() bool { return len(s.Judges)+len(s.Groups) > 0 }

// hasJudge reports whether the trial has a judge with a name.
func (s Subject) hasJudge(name string) bool {
	is := func(j Judge) bool { return j.Name == name }
	return slices.ContainsFunc(s.Judges, is) || slices.ContainsFunc(s.Groups, is)
}
