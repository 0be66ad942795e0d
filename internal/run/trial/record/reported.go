package record

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

// AddReportedUsage adds the usage that an agent without a gateway reports in a trajectory in its
// logs. priced reports whether the cost is known from another source.
func (r *Record) AddReportedUsage(priced bool) {
	name := path.Join(strings.TrimPrefix(environment.AgentLogs, "/"), result.ATIFFile)
	own, err := r.readReported(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, trajectory.ErrTooLong):
		r.Warn("%s is not read: it is larger than %d MiB", name, trajectory.MaxOwn>>20)
		return
	case err != nil:
		r.Warn("%s is not read, so it is not known what the agent used of its model: %s", name, failure.Brief(err, r.Secrets))
		return
	}
	r.Trial.Usage = &result.Usage{
		ReportedBy: result.ReportedByAgent, Turns: own.Turns, Calls: own.Turns, InputTokens: own.Input, CachedTokens: own.Cached, OutputTokens: own.Completion,
		Requested: excerpt.Line(failure.Hide(r.Secrets, own.Model), maxOwnName),
	}
	switch {
	case priced:
	case own.CostUSD == nil:
		r.Trial.Usage.Unpriced = own.Turns
		r.Trial.Costs.Model = r.Trial.Costs.Model.LowerBound()
	default:
		r.Trial.Costs.Model = r.Trial.Costs.Model.Plus(result.Dollars(*own.CostUSD))
	}
}

// maxOwnName limits the model name that an agent reports, in bytes.
const maxOwnName = 200

func (r *Record) readReported(name string) (trajectory.Own, error) {
	dir, err := nofollow.OpenDirBelow(r.Dir, strings.Split(path.Dir(name), "/")...)
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
