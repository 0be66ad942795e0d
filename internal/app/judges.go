package app

import (
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/judge"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
)

// withoutJudges returns a request whose trials are not judged: those that prove tasks, and those that end before the tests.
func (r JobRequest) withoutJudges() JobRequest {
	r.noJudges = true
	r.Sets = slices.Clip(r.Sets)
	for _, key := range []string{"judges", "judge_agents", "reward"} {
		r.Sets = append(r.Sets, config.Override{Path: key, Value: "null", Origin: key})
	}
	return r
}

// judgeModels returns the names of the models that the judges of tasks use.
func judgeModels(sets []*dataset.Set) []string {
	var names []string
	for _, set := range sets {
		for _, t := range set.Tasks {
			for _, s := range t.Config.Judges {
				if s.Model != judge.PolicyModel && !slices.Contains(names, s.Model) {
					names = append(names, s.Model)
				}
			}
		}
	}
	return names
}

// checkJudges checks the judges of all trials before any of them begins, and makes the models of tasks' judges ready. The warnings are added
// to those of the job. The error is a diag.List if judges are wrong.
func (l *loaded) checkJudges() error {
	l.judges = trial.NewJudgeSet(l.Job, l.host.Now())
	var found diag.List
	for _, t := range l.tasks() {
		if t.Missing || t.Err() != nil {
			continue // its trials fail, which is reported elsewhere
		}
		_, _, problems := l.judges.Of(t)
		for _, p := range problems {
			if d := l.judgeProblem(t, p); !slices.Contains(found, d) {
				found = append(found, d)
			}
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	l.Warnings = append(l.Warnings, found...)
	if names := judgeModels(l.sets); len(names) > 0 {
		if err := l.UseModels(names); err != nil {
			return err
		}
		if l.host.OnLoad != nil {
			l.host.OnLoad(l.Loaded) // which hides the secrets, of which there are more now
		}
	}
	return nil
}

// judged gives trials their judges.
func (l *loaded) judged(specs []trial.Spec) {
	if l.judges == nil {
		return
	}
	type shared struct {
		judges []trial.Judge
		reward *judge.Reward
	}
	type of struct { // trials with the same judges
		agent string
		task  *task.Task // nil: one without judges of its own
	}
	known := map[of]shared{}
	for i := range specs {
		s := &specs[i]
		key := of{s.Agent.Name, s.Task}
		if len(s.Task.Config.Judges) == 0 && s.Task.Config.Reward == "" {
			key.task = nil
		}
		one, ok := known[key]
		if !ok {
			judges, reward, _ := l.judges.Of(s.Task) // checkJudges has reported the problems
			one.reward = reward
			for _, j := range judges {
				a, _ := l.Job.JudgeAgent(j.Spec, s.Agent)
				one.judges = append(one.judges, trial.Judge{Judge: j, Agent: a, Env: l.Env[a.Name], Files: l.files[a.Name]})
			}
			known[key] = one
		}
		s.Judges, s.Reward = one.judges, one.reward
	}
}

// judgeProblem returns a problem with the judges of a task, with its place.
func (l *loaded) judgeProblem(t *task.Task, p trial.JudgeProblem) diag.Diagnostic {
	var d diag.Diagnostic
	name := p.Key.String()
	if p.OfTask {
		d, name = t.JudgeAt(p.Key), fmt.Sprintf("%q", name)
		d.File = l.host.Paths.shownTask(t, "task.toml")
	} else {
		at := l.At(p.Key)
		d = diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column}
	}
	d.File, d.Message, d.Hint = clean(d.File), clean(name+": "+p.Message), clean(p.Hint)
	if p.Warning {
		d.Severity = diag.Warning
	}
	return d
}
