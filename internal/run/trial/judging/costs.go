package judging

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/model"
)

// addFailed adds the costs of a judge's attempts that were set aside. dir is the judge's directory.
func (out *Outcome) addFailed(dir string) (attempts int, err error) {
	for n := 1; ; n++ {
		failed := failedDir(dir, n)
		if _, err := os.Lstat(failed); errors.Is(err, fs.ErrNotExist) {
			return attempts, nil
		} else if err != nil {
			return attempts, err
		}
		attempts = n
		out.addAttempt(failed)
	}
}

// addAttempt adds the cost of the attempt of a judge in dir, after the attempts before it.
func (out *Outcome) addAttempt(dir string) {
	r, err := readJudged(dir)
	if err != nil { // it was killed
		cost, usage := recordedUsage(dir)
		out.Run.Cost, out.Run.Usage = out.Run.Cost.Plus(cost), out.Run.Usage.Plus(usage)
		return
	}
	out.Run.Cost, out.Run.Usage, out.env, out.retries = r.Run.Cost, r.Run.Usage, r.EnvironmentCost, r.Retries // the last one has the sums
}

// RecordedCost returns the cost of a trial without a result, according to the records in its
// directory: it was killed, perhaps while its judges worked.
func RecordedCost(dir string) result.USD {
	costs, _ := RecordedCosts(dir)
	return costs.Total()
}

// RecordedCosts is like RecordedCost, but returns the cost by parts, and the trial's usage of its
// model.
func RecordedCosts(dir string) (costs result.Costs, u *result.Usage) {
	costs.Model, u = recordedUsage(dir)
	if before, err := readUnjudged(dir); err == nil {
		costs = before.Spent()
	}
	for _, name := range judgeDirs(dir) {
		out := recordedJudge(dir, name)
		costs.Judges, costs.Environment = costs.Judges.Plus(out.Run.Cost), costs.Environment.Plus(out.env)
	}
	return costs, u
}

// UnrankedCost returns the cost of rankings that were killed or cancelled before they ended,
// according to the records in the directory of a trial. No result contains it before the judges
// have ranked again. names holds the names of the ranking judges.
func UnrankedCost(dir string, names []string) result.USD {
	var all, known result.Costs // known: the part that results contain, or will contain as soon as the job continues
	for _, name := range judgeDirs(dir) {
		if owner, _, _ := strings.Cut(name, "."); !slices.Contains(names, owner) { // NAME.order-2
			continue
		}
		out := recordedJudge(dir, name)
		all = all.Plus(result.Costs{Judges: out.Run.Cost, Environment: out.env})
		if made, ok := lastRanking(filepath.Join(dir, result.JudgesDir, name)); ok {
			known = known.Plus(result.Costs{Judges: made.Run.Cost, Environment: made.Run.Group.EnvironmentCost})
		}
	}
	return all.Without(known).Total()
}

// lastRanking returns the last ranking in the directory of a judge, or in those that were set
// aside.
func lastRanking(dir string) (made Ranking, ok bool) {
	for n := 1; ; n++ {
		failed := failedDir(dir, n)
		if _, err := os.Lstat(failed); err != nil {
			break
		}
		if r, err := readGroup(failed); err == nil {
			made, ok = r, true
		}
	}
	if r, err := readGroup(dir); err == nil {
		return r, true
	}
	return made, ok
}

// judgeDirs returns the names of the directories of judges in that of a trial, without those that
// were set aside.
func judgeDirs(dir string) []string {
	if nofollow.CheckDirs(dir, result.JudgesDir) != nil {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, result.JudgesDir))
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	for _, e := range entries {
		if name, _, _ := strings.Cut(e.Name(), failedInfix); e.IsDir() && name != filepath.Base(result.JudgeInputsDir) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// recordedJudge returns the cost of all attempts of a judge, according to their records in the
// directory of a trial.
func recordedJudge(dir, name string) (out Outcome) {
	dir = filepath.Join(dir, result.JudgesDir, name)
	if _, err := out.addFailed(dir); err == nil {
		out.addAttempt(dir)
	}
	return out
}

// recordedUsage returns the cost and usage of the turns in a directory, according to its record:
// that of a judge or of a trial that was killed.
func recordedUsage(dir string) (cost result.USD, u *result.Usage) {
	if nofollow.CheckDir(dir) != nil {
		return cost, nil
	}
	f, err := nofollow.Open(filepath.Join(dir, result.TrajectoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = nofollow.Open(filepath.Join(dir, result.CallCostsFile))
	}
	if err != nil {
		return cost, nil
	}
	defer f.Close()
	for lines := bounded.NewDecoder(f); ; {
		var turn struct {
			Asked    string         `json:"requested_model"`
			Answered string         `json:"answered_model"`
			Usage    model.Usage    `json:"usage"`
			Cost     *float64       `json:"cost"`
			AtLeast  bool           `json:"cost_at_least"`
			Failure  *model.Failure `json:"failure"`
		}
		if lines.Decode(&turn) != nil {
			return cost, u // the end, or a line that was cut off
		}
		one := &result.Usage{
			Calls: 1, InputTokens: turn.Usage.Input, CachedTokens: turn.Usage.Cached, CacheWriteTokens: turn.Usage.CacheWrite, OutputTokens: turn.Usage.Output,
			ReasoningTokens: turn.Usage.Reasoning, Requested: turn.Asked,
		}
		if turn.Answered != "" {
			one.Answered = []string{turn.Answered}
		}
		if turn.Failure != nil {
			one.Failed = 1
		} else {
			one.Turns = 1
		}
		switch {
		case turn.Cost == nil && (turn.Failure == nil || turn.Usage.Known()), turn.AtLeast && !turn.Usage.Estimated:
			one.Unpriced = 1
		}
		if turn.Usage.Estimated {
			one.Estimated = 1
		}
		if turn.Cost != nil {
			cost = cost.Plus(result.Dollars(*turn.Cost))
		}
		if !one.Exact() {
			cost = cost.LowerBound()
		}
		u = u.Plus(one)
	}
}
