package trial

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// readOwnWord reads the usage that an agent without a gateway reports in a trajectory in its logs.
// priced reports whether the cost is known from another source.
func (x *execution) readOwnWord(priced bool) {
	if x.spec.Agent.Reserved() || x.spec.Agent.Model != "" {
		return
	}
	name := path.Join(strings.TrimPrefix(environment.AgentLogs, "/"), result.ATIFFile)
	own, err := x.ownWord(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, trajectory.ErrTooLong):
		x.warn("%s is not read: it is larger than %d MiB", name, trajectory.MaxOwn>>20)
		return
	case err != nil:
		x.warn("%s is not read, so it is not known what the agent used of its model: %s", name, failure.Brief(err, x.secrets))
		return
	}
	x.trial.Usage = &result.Usage{
		ReportedBy: result.ReportedByAgent, Turns: own.Turns, Calls: own.Turns, InputTokens: own.Input, CachedTokens: own.Cached, OutputTokens: own.Completion,
		Requested: excerpt.Line(failure.Hide(x.secrets, own.Model), maxOwnName),
	}
	switch {
	case priced:
	case own.CostUSD == nil:
		x.trial.Usage.Unpriced = own.Turns
		x.trial.Costs.Model = x.trial.Costs.Model.LowerBound()
	default:
		x.trial.Costs.Model = x.trial.Costs.Model.Plus(result.Dollars(*own.CostUSD))
	}
}

// maxOwnName limits the model name that an agent reports, in bytes.
const maxOwnName = 200

func (x *execution) ownWord(name string) (trajectory.Own, error) {
	dir, err := nofollow.OpenDirBelow(x.dir, strings.Split(path.Dir(name), "/")...)
	if err != nil {
		return trajectory.Own{}, err
	}
	defer dir.Close()
	f, err := nofollow.OpenAt(dir, filepath.Base(name))
	if err != nil {
		return trajectory.Own{}, err
	}
	defer f.Close()
	return trajectory.ReadOwn(f)
}
