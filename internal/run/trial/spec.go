package trial

import (
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// Spec is one planned trial.
type Spec struct {
	Key   result.Key
	Task  *task.Task
	Agent agent.Agent
	Env   map[string]string // the agent's variables, expanded; never written to disk
	Files *agentfiles.Set   // the agent's; nil: none
	// Offline removes the network from all phases, regardless of the task and the job.
	Offline bool
	// Judges judge the outcome when the tests have ended. Reward, if not nil, computes the trial's
	// reward from their scores.
	Judges []judging.Judge
	Reward *judge.Reward
	// GroupJudges rank the trials of the task when all have ended; see GroupsOf. The trial only
	// keeps their evidence.
	GroupJudges []judging.Judge
	// Again, if not nil, is an earlier trial of the same key, which is verified again.
	Again *Again
	// Judging, if not nil, is an earlier execution of the trial. Only its judges run, on the files
	// in the trial's directory.
	Judging *judging.Pending
}

// judged reports whether the trial has judges.
func (s Spec) judged() bool { return len(s.Judges)+len(s.GroupJudges) > 0 }

// subject returns the trial as its judges know it.
func (s Spec) subject() judging.Subject {
	return judging.Subject{Key: s.Key, Task: s.Task, Agent: s.Agent, Judges: s.Judges, Reward: s.Reward, Groups: s.GroupJudges}
}
