package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/judge"
	"github.com/org/rollout-action/internal/nofollow"
	"github.com/org/rollout-action/internal/result"
)

// Judging makes a trial begin with its judges. What they see is in the trial's directory.
type Judging struct {
	Before result.Trial      // the trial as it was when its judges began
	done   map[string]judged // by name, what judges have ended with: they do not run
}

// judgedRecord is the content of result.JudgedFile.
type judgedRecord struct {
	Run             result.AgentRun   `json:"run"`
	EnvironmentCost result.USD        `json:"environment_cost"` // of the judge's own environments
	Retries         []result.Retry    `json:"retries,omitempty"`
	Omitted         []result.Omission `json:"omitted,omitempty"`
}

// OwedJudging returns what a trial's judges continue with after its agent and its tests have ended in an earlier execution, which was killed
// or in which a judge failed. dir is the trial's directory. Judges that have given a verdict do not run again. why is the reason if the trial
// must begin from the start; the Judging is nil then.
func OwedJudging(s Spec, digests Digests, dir string) (owed *Judging, why string) {
	if len(s.Judges) == 0 {
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

// lacks returns what judges need and is not there, or "".
func (g *Judging) lacks(s Spec, dir string) string {
	kept := evidence{trialDir: dir, kept: g.Before.Artifacts}
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

// given returns what a judge has ended with. A nil Judging has nothing.
func (g *Judging) given(name string) (judged, bool) {
	if g == nil {
		return judged{}, false
	}
	done, ok := g.done[name]
	return done, ok
}

// continueJudging makes the record that of the trial whose judges run.
func (x *execution) continueJudging(g *Judging) {
	digest := x.trial.ConfigDigest
	x.trial = g.Before
	x.trial.ConfigDigest = digest
	x.began = x.now().Add(-time.Duration(g.Before.Durations.TotalSec * float64(time.Second)))
}

// writeUnjudged writes the trial as it is before its judges begin.
func (x *execution) writeUnjudged(before result.Trial) error {
	before.Durations.TotalSec = result.Seconds(x.now().Sub(x.began))
	if cost := x.live.env.Cost(); cost > 0 { // what it costs while judges work there is unknown if rollout is killed
		before.Costs.Environment = before.Costs.Environment.Plus(result.Dollars(cost))
	}
	if err := result.WriteJSON(filepath.Join(x.dir, filepath.FromSlash(result.UnjudgedFile)), before); err != nil {
		return environment.MarkMachineError(err)
	}
	return nil
}

// readUnjudged reads what writeUnjudged wrote into a trial's directory. It follows no link.
func readUnjudged(dir string) (t result.Trial, err error) {
	if err := nofollow.CheckDirs(dir, result.JudgesDir); err != nil {
		return t, err
	}
	return readRecord[result.Trial](filepath.Join(dir, filepath.FromSlash(result.UnjudgedFile)))
}

// readRecord reads a JSON file that no link leads to.
func readRecord[T any](path string) (v T, err error) {
	text, err := nofollow.ReadFile(path, result.MaxTrialFile)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%s cannot be read: %w", filepath.Base(path), err)
	}
	return v, nil
}

// writeJudged writes what became of a judge, in its directory. If it cannot be written, a resume runs the judge again.
func (x *execution) writeJudged(dir string, out *judged) {
	run := out.run
	if f := out.failed; f != nil {
		run.Error = &result.Error{Type: f.Type, Message: hide(x.secrets, f.Message)}
	}
	_ = result.WriteJSON(filepath.Join(dir, result.JudgedFile), judgedRecord{run, out.env, out.retries, out.omitted})
}

// readJudged reads what became of a judge. It follows no link.
func readJudged(dir string) (judgedRecord, error) {
	if err := nofollow.CheckDir(dir); err != nil {
		return judgedRecord{}, err
	}
	return readRecord[judgedRecord](filepath.Join(dir, result.JudgedFile))
}

func (r judgedRecord) judged() judged {
	return judged{run: r.Run, env: r.EnvironmentCost, retries: r.Retries, omitted: r.Omitted}
}

// continueJudge sets aside what an earlier execution of a judge left in dir, and adds to out what it cost. attempts is how often the judge
// has tried. With a nil Judging nothing is there.
func (g *Judging) continueJudge(dir string, out *judged) (attempts int, err error) {
	if g == nil {
		return 0, nil
	}
	if err := setAside(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for n := 1; ; n++ {
		failed := failedDir(dir, n)
		if _, err := os.Lstat(failed); errors.Is(err, fs.ErrNotExist) {
			return attempts, nil
		} else if err != nil {
			return attempts, err
		}
		attempts = n
		if r, err := readJudged(failed); err == nil { // the last one has the sums
			out.run.Cost, out.env, out.retries = r.Run.Cost, r.EnvironmentCost, r.Retries
		}
	}
}

// setAside renames the directory of a judge that failed, to keep its files.
func setAside(dir string) error {
	for n := 1; ; n++ {
		if _, err := os.Lstat(failedDir(dir, n)); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(dir, failedDir(dir, n))
		} else if err != nil {
			return err
		}
	}
}

// failedDir returns the name of the directory of a judge's failed attempt, from 1.
func failedDir(dir string, n int) string { return fmt.Sprintf("%s.failed-%d", dir, n) }
