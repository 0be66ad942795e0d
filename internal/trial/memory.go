package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/quantity"
)

// killed is the exit code of a script of which SIGKILL ended the last command.
const killed = 137

// memoryLimit is how much memory the environment may have and what to do about it: "96Mi: raise environment.memory in
// task.toml". "" if it is not limited.
func (a *attempt) memoryLimit() string {
	limit := a.limits().Memory
	if limit == 0 || slices.Contains(a.trial.Environment.Unenforced, "memory") {
		return ""
	}
	where := "environment.memory in task.toml"
	if a.opts.Job.Environment.OverrideMemory != nil {
		where = "environment.override_memory in the job"
	}
	return quantity.Text(limit) + ": raise " + where
}

// outOfMemory is what to add to the message about a script that failed, if processes were killed for memory since the last
// time that this was asked: ", and …", or "".
func (a *attempt) outOfMemory(ctx context.Context) string {
	kills := environment.OOMKills(ctx, a.env)
	since := kills - a.oomKills
	a.oomKills = max(kills, a.oomKills)
	if since <= 0 {
		return ""
	}
	who := "a process was"
	if since > 1 {
		who = fmt.Sprintf("%d processes were", since)
	}
	if limit := a.memoryLimit(); limit != "" {
		return fmt.Sprintf(", and %s killed because the environment needed more memory than its limit of %s", who, limit)
	}
	return fmt.Sprintf(", and %s killed because this machine was out of memory", who)
}

// noteMemory adds the limit to the failure of an environment that ended because of it.
func (a *attempt) noteMemory(f *failure, err error) {
	if limit := a.memoryLimit(); limit != "" && errors.Is(err, environment.ErrOutOfMemory) {
		f.Message += " (" + limit + ")"
	}
}
