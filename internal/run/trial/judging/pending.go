package judging

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Pending makes a trial begin with its judges. Their evidence is in the trial's directory.
type Pending struct {
	Before result.Trial // the trial as it was when its judges began
	// Job and From are the name and the directory of the job that ran the trial, if it is another
	// one.
	Job, From string
	done      map[string]Outcome // by name, the outcomes of judges that do not run again
	// ranked holds the names of the judges of groups whose rankings stay.
	ranked map[string]bool
}

// Digests identify the agent and the configuration of a trial; see experiment.Digests.
type Digests struct{ Agent, Config string }

// PendingOf returns the state from which a trial's judges continue after its agent and its tests
// have ended in an earlier execution, which was killed or in which a judge failed. dir is the
// trial's directory. Judges that have given a verdict do not run again. why is the reason if the
// trial must begin from the start; the Pending is nil then.
func PendingOf(s Subject, as Digests, dir string) (pending *Pending, why string) {
	if !s.judged() {
		return nil, "it has no judges"
	}
	before, err := readUnjudged(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "its judges had not begun"
	case err != nil:
		return nil, err.Error()
	case before.Key != s.Key || before.TaskDigest != s.Task.Digest() || before.AgentDigest != as.Agent || before.ConfigDigest != as.Config:
		return nil, result.UnjudgedFile + " is of another trial"
	}
	pending = &Pending{Before: before, done: map[string]Outcome{}}
	for _, j := range s.Judges {
		r, err := readJudged(filepath.Join(dir, result.JudgesDir, j.Name))
		if err == nil && r.Run.Error == nil && r.Run.Name == j.Name && r.Run.Score != nil {
			pending.done[j.Name] = r.judged()
		}
	}
	if why := pending.lacks(s, dir); why != "" {
		return nil, why
	}
	return pending, ""
}

// Again returns the state from which the judges with the names in chosen judge a trial of
// another job again. ended is its result, and dir its directory. The other judges keep their
// verdicts. why is the reason if they cannot judge; the Pending is nil then.
func Again(s Subject, ended result.Trial, dir string, chosen []string) (again *Pending, why string) {
	before, err := readUnjudged(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(ended.Agents) == 0: // the job had no judges
		before = ended
	case errors.Is(err, fs.ErrNotExist):
		return nil, "this version of rollout did not write it"
	case err != nil:
		return nil, err.Error()
	case before.Key != s.Key:
		return nil, result.UnjudgedFile + " is of another trial"
	}
	if why := unjudgeable(s, before); why != "" {
		return nil, why
	}
	again = &Pending{Before: before, done: map[string]Outcome{}}
	for _, j := range s.Judges {
		if slices.Contains(chosen, j.Name) {
			continue
		}
		i := slices.IndexFunc(ended.Agents, func(a result.AgentRun) bool {
			return a.Role == result.RoleJudge && a.Name == j.Name && a.Error == nil && (a.Score != nil || a.Skipped)
		})
		if i < 0 {
			return nil, fmt.Sprintf("the judge %s, which is not to judge again, has given no verdict", j.Name)
		}
		again.done[j.Name] = Outcome{Run: ended.Agents[i]}
	}
	again.ranked = map[string]bool{}
	for _, j := range s.Groups {
		again.ranked[j.Name] = !slices.Contains(chosen, j.Name)
	}
	if why := again.lacks(s, dir); why != "" {
		return nil, why
	}
	return again, ""
}

// unjudgeable returns the reason why judges cannot judge a trial with the result before, or "".
func unjudgeable(s Subject, before result.Trial) string {
	switch {
	case !s.judged():
		return "it has no judges"
	case before.Error != nil && !failure.OfAgent(before.Error):
		return fmt.Sprintf("it ended with %s before it was judged", before.Error.Type)
	case before.Reward == nil && len(before.Rewards) == 0 && before.VerifierExitCode != nil:
		return "its tests gave no reward"
	}
	return ""
}

// lacks returns the reason why judges cannot run: evidence that they need is missing. It returns ""
// if there is none.
func (g *Pending) lacks(s Subject, dir string) string {
	kept := Evidence{trialDir: dir, kept: g.Before.Artifacts, omitted: g.Before.Omitted, renamed: g.Before.Renamed, warnings: g.Before.Warnings}
	for _, j := range s.Judges {
		if _, ok := g.Given(j.Name); ok {
			continue
		}
		applies, err := j.Applies(judge.Facts{Tests: g.Before.Reward, Rewards: g.Before.Rewards})
		if err == nil && !applies {
			continue
		}
		switch j.Place() {
		case judge.InTrial:
			return fmt.Sprintf("the judge %s works in the agent's environment, which is gone", j.Name)
		case judge.InFresh:
			if _, err := kept.artifacts(j.Artifacts); err != nil {
				return fmt.Sprintf("the judge %s lacks its evidence: %v", j.Name, err)
			}
		}
	}
	return ""
}

// Given returns the outcome of a judge that does not run again. A nil Pending has none.
func (g *Pending) Given(name string) (Outcome, bool) {
	if g == nil {
		return Outcome{}, false
	}
	done, ok := g.done[name]
	return done, ok
}

// Keeps reports whether a directory below that of all judges belongs to a judge that does not judge
// again.
func (g *Pending) Keeps(name string) bool {
	_, ok := g.Given(name)
	owner, _, _ := strings.Cut(name, ".") // NAME.order-2
	return ok || g.ranked[owner]
}

// SpentOnGiven returns the cost of the judges that do not run again.
func (g *Pending) SpentOnGiven() (cost result.USD) {
	for _, done := range g.done {
		cost = cost.Plus(done.Run.Cost)
	}
	return cost
}
