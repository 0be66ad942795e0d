package trial

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Judging makes a trial begin with its judges. Their evidence is in the trial's directory.
type Judging struct {
	Before result.Trial // the trial as it was when its judges began
	// Job and From are the name and the directory of the job that ran the trial, if it is another
	// one.
	Job, From string
	done      map[string]judged // by name, the outcomes of judges that do not run again
	// ranked holds the names of the judges of groups whose rankings stay.
	ranked map[string]bool
}

// judgedRecord is the content of result.JudgedFile.
type judgedRecord struct {
	Run             result.AgentRun   `json:"run"`
	EnvironmentCost result.USD        `json:"environment_cost"` // of the judge's own environments
	Retries         []result.Retry    `json:"retries,omitempty"`
	Omitted         []result.Omission `json:"omitted,omitempty"`
}

// OwedJudging returns the state from which a trial's judges continue after its agent and its tests
// have ended in an earlier execution, which was killed or in which a judge failed. dir is the
// trial's directory. Judges that have given a verdict do not run again. why is the reason if the
// trial must begin from the start; the Judging is nil then.
func OwedJudging(s Spec, digests Digests, dir string) (owed *Judging, why string) {
	if !s.judged() {
		return nil, "it has no judges"
	}
	before, err := readUnjudged(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "its judges had not begun"
	case err != nil:
		return nil, err.Error()
	case before.Key != s.Key || before.TaskDigest != s.Task.Digest() || before.AgentDigest != digests.Agents[s.Agent.Name] || before.ConfigDigest != digests.ConfigOf(s.Task):
		return nil, result.UnjudgedFile + " is of another trial"
	}
	owed = &Judging{Before: before, done: map[string]judged{}}
	for _, j := range s.Judges {
		r, err := readJudged(filepath.Join(dir, result.JudgesDir, j.Name))
		if err == nil && r.Run.Error == nil && r.Run.Name == j.Name && r.Run.Score != nil {
			owed.done[j.Name] = r.judged()
		}
	}
	if why := owed.lacks(s, dir); why != "" {
		return nil, why
	}
	return owed, ""
}

// Rejudging returns the state from which the judges with the names in chosen judge a trial of
// another job again. ended is its result, and dir its directory. The other judges keep their
// verdicts. why is the reason if they cannot judge; the Judging is nil then.
func Rejudging(s Spec, ended result.Trial, dir string, chosen []string) (again *Judging, why string) {
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
	again = &Judging{Before: before, done: map[string]judged{}}
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
		again.done[j.Name] = judged{run: ended.Agents[i]}
	}
	again.ranked = map[string]bool{}
	for _, j := range s.GroupJudges {
		again.ranked[j.Name] = !slices.Contains(chosen, j.Name)
	}
	if why := again.lacks(s, dir); why != "" {
		return nil, why
	}
	return again, ""
}

// unjudgeable returns the reason why judges cannot judge a trial with the result before, or "".
func unjudgeable(s Spec, before result.Trial) string {
	r := record{trial: before}
	switch {
	case !s.judged():
		return "it has no judges"
	case !r.noError() && !r.agentFailed():
		return fmt.Sprintf("it ended with %s before it was judged", before.Error.Type)
	case before.Reward == nil && len(before.Rewards) == 0 && before.VerifierExitCode != nil:
		return "its tests gave no reward"
	}
	return ""
}

// lacks returns the reason why judges cannot run: evidence that they need is missing. It returns ""
// if there is none.
func (g *Judging) lacks(s Spec, dir string) string {
	kept := evidence{trialDir: dir, kept: g.Before.Artifacts, omitted: g.Before.Omitted, renamed: g.Before.Renamed, warnings: g.Before.Warnings}
	for _, j := range s.Judges {
		if _, ok := g.given(j.Name); ok {
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

// given returns the outcome of a judge that does not run again. A nil Judging has none.
func (g *Judging) given(name string) (judged, bool) {
	if g == nil {
		return judged{}, false
	}
	done, ok := g.done[name]
	return done, ok
}

// Keeps reports whether a directory below that of all judges belongs to a judge that does not judge
// again.
func (g *Judging) Keeps(name string) bool {
	_, ok := g.given(name)
	owner, _, _ := strings.Cut(name, ".") // NAME.order-2
	return ok || g.ranked[owner]
}

// continueJudging makes the record that of the trial whose judges run.
func (x *execution) continueJudging(g *Judging) {
	now := x.trial
	x.trial = g.Before
	x.trial.ConfigDigest = now.ConfigDigest
	if g.From != "" {
		x.trial.TaskDigest, x.trial.TaskGitCommitID, x.trial.Confirmation = now.TaskDigest, now.TaskGitCommitID, false
		x.continueOther(g)
	}
	x.began = x.now().Add(-time.Duration(g.Before.Durations.TotalSec * float64(time.Second)))
}

// continueOther makes the record that of a trial which another job ran.
func (x *execution) continueOther(g *Judging) {
	t, before := &x.trial, g.Before
	t.Reused = nil
	t.Reverified = &result.Reverified{
		Job: g.Job, From: g.From, OnlyJudges: true, StartedAt: before.Timestamps.StartedAt, TaskDigest: before.TaskDigest, Reward: before.Reward, AgentCosts: before.Costs,
	}
	for _, done := range g.done {
		t.Reverified.AgentCosts.Judges = t.Reverified.AgentCosts.Judges.Plus(done.run.Cost)
	}
	if t.Environment != nil {
		where := *t.Environment
		where.Preserved, where.Outcome = false, nil // the kept files belong to the other job
		t.Environment = &where
	}
}

// writeUnjudged writes the trial in its state before its judges begin.
func (x *execution) writeUnjudged(before result.Trial) error {
	if x.live == nil { // the execution that ran the agent wrote it
		return x.keepUnjudged(before)
	}
	before.Durations.TotalSec = result.Seconds(x.now().Sub(x.began))
	if cost := x.live.env.Cost(); cost > 0 { // the environment's cost during judging is unknown if rollout is killed
		before.Costs.Environment = before.Costs.Environment.Plus(result.Dollars(cost))
	}
	return x.keepUnjudged(before)
}

func (x *execution) keepUnjudged(before result.Trial) error {
	if err := result.WriteJSON(filepath.Join(x.dir, filepath.FromSlash(result.UnjudgedFile)), before); err != nil {
		return environment.MarkMachineError(err)
	}
	return nil
}

// readUnjudged reads the file of writeUnjudged in a trial's directory. It follows no link.
func readUnjudged(dir string) (t result.Trial, err error) {
	if err := nofollow.CheckDirs(dir, result.JudgesDir); err != nil {
		return t, err
	}
	return readRecord[result.Trial](filepath.Join(dir, filepath.FromSlash(result.UnjudgedFile)))
}

// readRecord reads a JSON file. It follows no link.
func readRecord[T any](path string) (v T, err error) {
	text, err := nofollow.ReadFile(path, result.MaxTrialFile)
	if err != nil {
		return v, err
	}
	if err := bounded.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%s cannot be read: %w", filepath.Base(path), err)
	}
	return v, nil
}

// writeJudged writes the outcome of a judge into its directory. If it cannot be written, a resume
// runs the judge again.
func (x *execution) writeJudged(dir string, out *judged) {
	run := out.run
	if f := out.failed; f != nil {
		run.Error = &result.Error{Type: f.Type, Message: failure.Hide(x.secrets, f.Message)}
	}
	_ = result.WriteJSON(filepath.Join(dir, result.JudgedFile), judgedRecord{run, out.env, out.retries, out.omitted})
}

// readJudged reads the outcome of a judge. It follows no link.
func readJudged(dir string) (judgedRecord, error) {
	if err := nofollow.CheckDir(dir); err != nil {
		return judgedRecord{}, err
	}
	return readRecord[judgedRecord](filepath.Join(dir, result.JudgedFile))
}

func (r judgedRecord) judged() judged {
	return judged{run: r.Run, env: r.EnvironmentCost, retries: r.Retries, omitted: r.Omitted}
}

// continueJudge sets aside the files in dir of a judge's earlier execution, and adds its cost to
// out. attempts is the number of the judge's attempts so far. A nil Judging has none.
func (g *Judging) continueJudge(dir string, out *judged) (attempts int, err error) {
	if g == nil {
		return 0, nil
	}
	if err := setAside(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return out.addFailed(dir)
}

// addFailed adds the costs of a judge's attempts that were set aside. dir is the judge's directory.
func (out *judged) addFailed(dir string) (attempts int, err error) {
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
func (out *judged) addAttempt(dir string) {
	r, err := readJudged(dir)
	if err != nil { // it was killed
		cost, usage := recordedUsage(dir)
		out.run.Cost, out.run.Usage = out.run.Cost.Plus(cost), out.run.Usage.Plus(usage)
		return
	}
	out.run.Cost, out.run.Usage, out.env, out.retries = r.Run.Cost, r.Run.Usage, r.EnvironmentCost, r.Retries // the last one has the sums
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
		costs.Judges, costs.Environment = costs.Judges.Plus(out.run.Cost), costs.Environment.Plus(out.env)
	}
	return costs, u
}

// UnrankedCost returns the cost of rankings that were killed or cancelled before they ended,
// according to the records in the directory of a trial. No result contains it before the judges
// have ranked again. names holds the names of the ranking judges.
func UnrankedCost(dir string, names []string) result.USD {
	var all, known result.Costs // known: the part that results contain, or will as soon as the job goes on
	for _, name := range judgeDirs(dir) {
		if owner, _, _ := strings.Cut(name, "."); !slices.Contains(names, owner) { // NAME.order-2
			continue
		}
		out := recordedJudge(dir, name)
		all = all.Plus(result.Costs{Judges: out.run.Cost, Environment: out.env})
		if made, ok := lastRanking(filepath.Join(dir, result.JudgesDir, name)); ok {
			known = known.Plus(result.Costs{Judges: made.Run.Cost, Environment: made.Run.Group.EnvironmentCost})
		}
	}
	return all.Without(known).Total()
}

// lastRanking returns the last ranking in the directory of a judge, or in those that were set
// aside.
func lastRanking(dir string) (made groupRecord, ok bool) {
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
func recordedJudge(dir, name string) (out judged) {
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

// setAside renames the directory of a failed judge, to keep its files.
func setAside(dir string) error {
	for n := 1; ; n++ {
		if _, err := os.Lstat(failedDir(dir, n)); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(dir, failedDir(dir, n))
		} else if err != nil {
			return err
		}
	}
}

// failedDir returns the name of the directory of a judge's nth failed attempt, from 1.
func failedDir(dir string, n int) string { return fmt.Sprintf("%s%s%d", dir, failedInfix, n) }

// failedInfix follows the name of the judge in the name of such a directory.
const failedInfix = ".failed-"
