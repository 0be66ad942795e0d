package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/quantity"
)

// exitKilled is the exit code of a script of which SIGKILL ended the last command.
const exitKilled = 137

// memoryLimit is how much memory the environment may have and what to do about it: "96Mi: raise environment.memory in
// task.toml". "" if it is not limited.
func (x *execution) memoryLimit() string {
	limit := x.limits().Memory
	if limit == 0 || slices.Contains(x.trial.Environment.Unenforced, "memory") {
		return ""
	}
	where := "environment.memory in task.toml"
	if x.opts.Job.Environment.OverrideMemory != nil {
		where = "environment.override_memory in the job"
	}
	return quantity.Text(limit) + ": raise " + where
}

// outOfMemory is what to add to the message about a script that failed, if processes were killed for memory since the last
// time that this was asked: ", and …", or "".
func (x *execution) outOfMemory(ctx context.Context) string {
	kills := environment.OOMKills(ctx, x.env)
	since := kills - x.oomKills
	x.oomKills = max(kills, x.oomKills)
	if since <= 0 {
		return ""
	}
	who := "a process was"
	if since > 1 {
		who = fmt.Sprintf("%d processes were", since)
	}
	if limit := x.memoryLimit(); limit != "" {
		return fmt.Sprintf(", and %s killed because the environment needed more memory than its limit of %s", who, limit)
	}
	return fmt.Sprintf(", and %s killed because this machine was out of memory", who)
}

// addMemoryLimit adds the limit to the failure of an environment that ended because of it.
func (x *execution) addMemoryLimit(f *failure, err error) {
	if limit := x.memoryLimit(); limit != "" && errors.Is(err, environment.ErrOutOfMemory) {
		f.Message += " (" + limit + ")"
	}
}
