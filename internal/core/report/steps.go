package report

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Step returns the outcome of a step of a trial: "0.5 in 12.0s: reward is 0.5, and must be at least
// 1". It may quote the tests, so it is hostile.
func Step(s result.StepRun) string {
	text := stepReward(s) + " in " + Duration(s.EndedAt.Sub(s.StartedAt).Seconds())
	switch {
	case s.Error != nil:
		text += ": " + string(s.Error.Type)
	case s.Unmet != "":
		text += ": " + s.Unmet
	}
	return text
}

func stepReward(s result.StepRun) string {
	if s.Reward == nil {
		return "no reward"
	}
	return Number(*s.Reward)
}

// maxSteps is the maximum number of steps that StepLines returns.
const maxSteps = 100

// StepLines returns a line for each step of a trial, as Step, with its name. They are safe to show,
// and at most 300 bytes long. It is empty for a trial without steps.
func StepLines(t result.Trial) []string {
	var lines []string
	for i, s := range t.Steps {
		if i == maxSteps {
			return append(lines, "… and "+Count(len(t.Steps)-i)+" more")
		}
		lines = append(lines, untrusted.Cut(untrusted.Line(s.Name+": "+Step(s)), 300))
	}
	return lines
}

// Steps returns the names of a trial's steps with their rewards in one line: "build 1, extend no
// reward". It is hostile, and empty for a trial without steps.
func Steps(t result.Trial) string {
	var all []string
	for i, s := range t.Steps {
		if i == maxSteps {
			all = append(all, "…")
			break
		}
		all = append(all, s.Name+" "+stepReward(s))
	}
	return strings.Join(all, ", ")
}

// runDirs returns the directories of a trial with the files of runs of its agent and its tests,
// below that of the job: its own, or those of its steps.
func runDirs(in Input, t result.Trial) []string {
	var dirs []string
	for _, dir := range StepDirs(in, t) {
		dirs = append(dirs, path.Join(t.Dir(), dir))
	}
	if len(dirs) == 0 && len(t.Steps) == 0 {
		return []string{t.Dir()}
	}
	return dirs
}

// StepDirs returns the directories of the steps of a trial that have begun, in their order, below
// the trial's. Of a trial without a result they are read from the disk. It is empty if the task has
// no steps.
func StepDirs(in Input, t result.Trial) (dirs []string) {
	if len(t.Steps) == 0 && t.Reward == nil {
		return begunSteps(in, t.Dir())
	}
	for _, s := range t.Steps[:min(len(t.Steps), maxSteps)] {
		if dir := result.StepDir(s.Name); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// begunSteps returns the directories of the steps that are in a trial's directory dir, below it.
// Nothing is made in that of a step when the next one has begun, so the times of change give the
// order.
func begunSteps(in Input, dir string) (dirs []string) {
	all := path.Join(dir, result.StepsDir)
	if !IsDir(in, all) {
		return nil
	}
	entries, err := fs.ReadDir(in.Files, all)
	if err != nil {
		return nil
	}
	type begun struct {
		dir     string
		changed time.Time
	}
	var steps []begun
	for _, e := range entries {
		below := result.StepDir(e.Name())
		if info, err := e.Info(); err == nil && e.IsDir() && below != "" {
			steps = append(steps, begun{below, info.ModTime()})
		}
	}
	slices.SortStableFunc(steps, func(a, b begun) int { return a.changed.Compare(b.changed) })
	for _, s := range steps[max(len(steps)-maxSteps, 0):] {
		dirs = append(dirs, s.dir)
	}
	return dirs
}

// LastRunDir returns the directory of the last run of a trial's agent, below that of the job: the
// trial's, or that of its last step.
func LastRunDir(in Input, t result.Trial) string {
	if dirs := runDirs(in, t); len(dirs) > 0 {
		return dirs[len(dirs)-1]
	}
	return t.Dir()
}

// failedDir returns the directory of the run that explains why a trial did not pass: the trial's,
// or that of the first step with an error, or else of the first with a reward below 1.
func failedDir(t result.Trial) string {
	for _, wanted := range []func(result.StepRun) bool{
		func(s result.StepRun) bool { return s.Error != nil },
		func(s result.StepRun) bool { return s.Unmet != "" || s.Reward != nil && *s.Reward < 1 },
	} {
		for _, s := range t.Steps {
			if dir := result.StepDir(s.Name); wanted(s) && dir != "" {
				return path.Join(t.Dir(), dir)
			}
		}
	}
	return t.Dir()
}
