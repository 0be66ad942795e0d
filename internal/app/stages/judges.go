package stages

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// WithoutJudges returns the request for trials that are not judged: those that prove tasks, and
// those that end before the tests.
func (r JobRequest) WithoutJudges() JobRequest {
	r.noJudges = true
	r.Sets = slices.Clip(r.Sets)
	for _, key := range []string{"judges", "judge_agents", "reward"} {
		r.Sets = append(r.Sets, config.Override{Path: key, Value: "null", Origin: key})
	}
	return r
}

// JudgeModels returns the names of the models that the judges of tasks use.
func JudgeModels(sets []*dataset.Set) []string {
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

// CheckJudges checks the judges of all trials before any trial begins, and prepares the models of
// tasks' judges. Warnings are added to those of the job. The error is a diag.List if judges are
// wrong.
func (l *Loaded) CheckJudges(req JobRequest) error {
	if err := l.changeJudges(req); err != nil {
		return err
	}
	l.Judges = judging.NewSet(l.Job, l.Host.Now())
	var found diag.List
	missing := map[string]bool{} // scores that the job's reward uses and no judge of a task gives
	for _, t := range l.Tasks() {
		if t.Missing || t.Err() != nil {
			continue // its trials fail, which is reported elsewhere
		}
		_, _, problems := l.Judges.Of(t)
		for _, p := range problems {
			if p.Score != "" && !p.OfTask {
				if missing[p.Score] {
					continue // the problem names the first such task
				}
				missing[p.Score] = true
				p.Message = fmt.Sprintf("for the task %s: %s", t.Name, p.Message)
			}
			if d := l.judgeProblem(t, p); !slices.Contains(found, d) {
				found = append(found, d)
			}
		}
	}
	found = append(found, l.scoresOfNoJudge()...)
	if err := found.Err(); err != nil {
		return err
	}
	l.Warnings = append(l.Warnings, found...)
	names := JudgeModels(l.Sets)
	if req.JudgeModel != "" {
		names = append(names, req.JudgeModel)
	}
	if len(names) > 0 {
		before := len(l.Secrets)
		if err := l.UseModels(names); err != nil {
			return err
		}
		if l.Host.OnLoad != nil && len(l.Secrets) > before {
			return l.Host.OnLoad(l.Loaded) // which hides the secrets, of which there are more now
		}
	}
	return nil
}

// scoresOfNoJudge returns a problem for each score in the gate that no judge gives.
func (l *Loaded) scoresOfNoJudge() (found diag.List) {
	var known, ranked []string
	add := func(specs []judge.Spec) {
		ranked = append(ranked, groupJudges(specs)...)
		for _, s := range specs {
			known = append(known, s.Name)
			for _, c := range s.Criteria {
				known = append(known, s.Name+"."+c.Name)
			}
		}
	}
	add(l.Job.Judges)
	for _, t := range l.Tasks() {
		add(t.Config.Judges)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	check := func(at fields.Path, limits map[string]gate.ScoreLimits, agents string) {
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			if slices.Contains(ranked, name) && limits[name].Min != nil && l.allAgents(agents) {
				at := at.Child("scores").Child(name).Child("min")
				found = append(found, l.judgeProblem(nil, judging.Problem{Problem: judge.Problem{
					Key: at, Message: fmt.Sprintf("the mean score %q of all agents is always 0.5, because the judge ranks their trials among each other", fields.Shorten(name)),
					Hint: "limit one of several agents: gate.groups: [{agent: NAME, scores: {" + name + ": {min: 0.5}}}]",
				}}))
			}
			if slices.Contains(ranked, name) && limits[name].MaxDrop != nil {
				at := at.Child("scores").Child(name).Child("max_drop")
				found = append(found, l.judgeProblem(nil, judging.Problem{Problem: judge.Problem{
					Key: at, Message: fmt.Sprintf("the score %q compares trials of one job with each other, so it cannot drop against another job", fields.Shorten(name)),
					Hint: "use min, or a judge without scope: group",
				}}))
			}
			if slices.Contains(known, name) {
				continue
			}
			hint := cmp.Or(diag.DidYouMean(name, known), "scores are: "+strings.Join(known[:min(len(known), 20)], ", "))
			if len(known) == 0 {
				hint = "the job has no judges: add judges, or remove the limit"
			}
			at := at.Child("scores").Child(name)
			found = append(found, l.judgeProblem(nil, judging.Problem{Problem: judge.Problem{Key: at, Message: fmt.Sprintf("no judge gives the score %q", fields.Shorten(name)), Hint: hint}}))
		}
	}
	check(fields.Path{"gate"}, l.Job.Gate.Scores, "")
	for i, g := range l.Job.Gate.Groups {
		check(fields.Path{"gate", "groups"}.Index(i), g.Scores, g.Agent)
	}
	return found
}

// allAgents reports whether a glob matches all agents of a job with several, as "" does. --agent
// may leave only one.
func (l *Loaded) allAgents(glob string) bool {
	return glob == "" || len(l.Job.Agents) > 1 && !slices.ContainsFunc(l.Job.Agents, func(a agent.Agent) bool {
		ok, _ := path.Match(glob, a.Name)
		return !ok
	})
}

// changeJudges gives the judges the model of the request.
func (l *Loaded) changeJudges(req JobRequest) error {
	if req.JudgeModel == "" {
		return nil
	}
	if _, ok := l.Job.Models[req.JudgeModel]; !ok {
		known := slices.Sorted(maps.Keys(l.Job.Models))
		return host.Usagef("--model %s: the job has no such model (%s)", host.Clean(req.JudgeModel), host.Clean(cmp.Or(diag.DidYouMean(req.JudgeModel, known), "models has: "+strings.Join(known, ", "))))
	}
	change := func(specs []judge.Spec) []judge.Spec {
		specs = slices.Clone(specs)
		for i, s := range specs {
			if len(req.Judges) == 0 || slices.Contains(req.Judges, s.Name) {
				specs[i].Model = req.JudgeModel
			}
		}
		return specs
	}
	l.Job.Judges = change(l.Job.Judges)
	for _, t := range l.Tasks() {
		t.Config.Judges = change(t.Config.Judges)
	}
	return nil
}

// Judged sets the judges of the trials.
func (l *Loaded) Judged(specs []trial.Spec) {
	if l.Judges == nil {
		return
	}
	type shared struct {
		judges, groups []judging.Judge
		reward         *judge.Reward
	}
	type of struct { // trials with the same judges
		agent string
		task  *task.Task // nil: a task that defines no judges
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
			judges, reward, _ := l.Judges.Of(s.Task) // CheckJudges has reported the problems
			one.reward = reward
			for _, j := range judges {
				a, _ := l.Job.JudgeAgent(j.Spec, s.Agent)
				to := &one.judges
				if j.Ranks() {
					to = &one.groups
				}
				*to = append(*to, judging.Judge{Judge: j, Agent: a, Env: l.Env[a.Name], Files: l.Files[a.Name]})
			}
			known[key] = one
		}
		s.Judges, s.GroupJudges, s.Reward = one.judges, one.groups, one.reward
	}
}

// JudgedTasks groups tasks that have the same judges.
type JudgedTasks struct {
	Tasks  []string // dataset/task
	Judges []TaskJudge
	// MaxCostUSD is the limit on the cost of all judges of a trial, with their retries; nil: no
	// limit.
	MaxCostUSD *float64
	// GroupCostUSD is the limit on the cost of all judges of groups in a task; nil: no limit.
	GroupCostUSD *float64
}

// TaskJudge is a judge of tasks.
type TaskJudge struct {
	Name, Agent, Model string
	Policy             bool   // the model is that of the trial's agent
	Placement          string // "" for a call
	Attempts           int
	MaxCostUSD         *float64 // of one attempt; nil: no limit
	Orders             int      // number of orders in which a judge of groups ranks the trials of a task; 0 for others
}

// JudgedTasks returns the judged tasks in order.
func (l *Loaded) JudgedTasks() []JudgedTasks {
	if l.Judges == nil {
		return nil
	}
	var out []JudgedTasks
	at := map[string]int{} // of tasks with the same judges
	for _, set := range l.Sets {
		for _, t := range set.Tasks {
			if t.Missing || t.Err() != nil {
				continue
			}
			one := l.judgedTask(t)
			if len(one.Judges) == 0 {
				continue
			}
			key := fmt.Sprint(one.MaxCostUSD != nil, one.GroupCostUSD != nil)
			for _, j := range one.Judges {
				key += fmt.Sprintf("\n%q %q %q %q %v %d", j.Name, j.Agent, j.Model, j.Placement, optional(j.MaxCostUSD), j.Orders)
			}
			i, known := at[key]
			if !known {
				i = len(out)
				at[key], out = i, append(out, one)
			}
			out[i].Tasks = append(out[i].Tasks, set.Name+"/"+t.Name)
		}
	}
	return out
}

func (l *Loaded) judgedTask(t *task.Task) (one JudgedTasks) {
	judges, _, _ := l.Judges.Of(t)
	attempts := judging.Attempts(l.Job)
	one.MaxCostUSD, one.GroupCostUSD = new(float64), new(float64)
	for _, j := range judges {
		told := TaskJudge{
			Name: j.Name, Agent: j.Spec.Agent, Model: j.Model, Policy: j.Model == judge.PolicyModel, Placement: string(j.Place()), Attempts: attempts, MaxCostUSD: j.Budget.MaxCostUSD,
		}
		total, times := &one.MaxCostUSD, attempts
		if j.Ranks() {
			told.Orders = j.Rankings()
			total, times = &one.GroupCostUSD, attempts*told.Orders
		}
		one.Judges = append(one.Judges, told)
		switch {
		case j.Budget.MaxCostUSD == nil:
			*total = nil
		case *total != nil:
			**total += float64(times) * *j.Budget.MaxCostUSD
		}
	}
	return one
}

func optional(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// judgeProblem returns a problem with the judges of a task, with its position.
func (l *Loaded) judgeProblem(t *task.Task, p judging.Problem) diag.Diagnostic {
	var d diag.Diagnostic
	name := p.Key.String()
	if p.OfTask {
		d, name = t.JudgeAt(p.Key), fmt.Sprintf("%q", name)
		d.File = l.Host.Paths.ShownTask(t, t.Files().Config)
	} else {
		at := l.At(p.Key)
		d = diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column}
	}
	d.File, d.Message, d.Hint = host.Clean(d.File), host.Clean(name+": "+p.Message), host.Clean(p.Hint)
	if p.Warning {
		d.Severity = diag.Warning
	}
	return d
}
