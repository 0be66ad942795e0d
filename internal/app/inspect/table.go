package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// TableConfidence is the confidence of the intervals in tables: the default of gate.confidence.
const TableConfidence = 0.95

// TableRequest is the request of Tabulate.
type TableRequest struct {
	Jobs []string // each as in CompareRequest, without duplicates
	// Agents are the rows, which are then compared in pairs. Empty: all agents, without a
	// comparison.
	Agents []string
	All    bool // count every task of each agent, even those that others do not have
	Stored reporting.StoredAt
}

// Table compares agents of one or several jobs, without a verdict. Its texts are untrusted.
type Table struct {
	Jobs []TabledJob `json:"jobs"`
	Rows []TableRow  `json:"rows"`
	// Tasks are the tasks that are counted, sorted by dataset and name.
	Tasks []TableTask `json:"tasks"`
	// Common is the number of comparable tasks: every row has a score for them, and their files are
	// the same. Of TotalTasks, Changed are those whose files differ.
	Common     int  `json:"common_tasks"`
	Changed    int  `json:"changed_tasks"`
	TotalTasks int  `json:"total_tasks"`
	All        bool `json:"all_tasks"` // TableRequest.All
	// Versus compares each row with each later one, on the tasks that are counted; omitted if
	// TableRequest.Agents is empty.
	Versus []gate.Versus `json:"versus,omitempty"`
	shared []string      // sentences about jobs that ended early, or have trials in common
}

// TabledJob is a job in a table.
type TabledJob struct {
	Name    string  `json:"job"` // unique: its name, or how it was given if two jobs share a name
	Source  string  `json:"source"`
	Commit  *string `json:"commit"`
	Missing int     `json:"missing_trials"` // planned ones without a result
	Text    string  `json:"-"`              // for printing: name, commit, origin, missing results
}

// TableRow is one agent of one job, on the tasks of the table. An attempt that was lost by its
// agent or by the verifier counts as one with reward 0, as in a diff; one that the infrastructure
// or a cancel ended does not count. Numbers are null if nothing counts.
type TableRow struct {
	Job          string         `json:"job"`
	Agent        string         `json:"agent"`
	Tasks        int            `json:"tasks"`  // with a score
	Trials       int            `json:"trials"` // planned ones
	Scored       int            `json:"scored_trials"`
	Passed       int            `json:"passed_trials"`
	PassRate     *float64       `json:"pass_rate"`
	Interval     *gate.Interval `json:"pass_rate_interval"`
	MeanReward   *float64       `json:"mean_reward"`
	Cost         result.USD     `json:"cost"` // of the trials that reported one
	CostUnknown  int            `json:"trials_without_cost"`
	DurationSec  *float64       `json:"duration_sec"`      // of all trials together
	MeanDuration *float64       `json:"mean_duration_sec"` // without the wait for images
	// Usage has means per trial of the model; omitted for agents without a gateway.
	Usage *result.UsageMeans `json:"usage,omitempty"`
}

// TableTask is a task in a table.
type TableTask struct {
	Dataset string `json:"dataset"`
	Task    string `json:"task"`
	Changed bool   `json:"changed"` // the rows do not have the same files of it
	// Cells has an entry for each row; nil where the row does not have the task.
	Cells []*result.Attempts `json:"cells"`
}

// Tabulate compares agents of one or several jobs.
func Tabulate(ctx context.Context, h *host.Host, req TableRequest) (Table, error) {
	f := reporting.FinderOf(h)
	t := Table{All: req.All, Jobs: []TabledJob{}}
	var jobs []result.Job
	var shared []string
	for i, source := range req.Jobs {
		for _, earlier := range req.Jobs[:i] {
			if earlier == source || !host.IsRemote(source) && !host.IsRemote(earlier) && f.SameJob(source, earlier) {
				return Table{}, host.Usagef("%s is given twice", reporting.ShownSource(source))
			}
		}
		job, text, err := f.Side(ctx, source, req.Stored, reporting.Evaluated{})
		if err != nil {
			return Table{}, err
		}
		for k, earlier := range jobs {
			switch n, oneJob := reporting.Shared(earlier, job); {
			case oneJob:
				return Table{}, host.Usagef("%s and %s have %s in common, which would count twice: one is a copy or a shard of the other", reporting.ShownSource(req.Jobs[k]), reporting.ShownSource(source), plural.Count(n, "trial"))
			case n > 0:
				shared = append(shared, fmt.Sprintf("%s and %s have %s in common, because trials were taken over: %s counted in both rows, and tests of a difference leave %s out.",
					reporting.ShownSource(req.Jobs[k]), reporting.ShownSource(source), plural.Count(n, "trial"), map[bool]string{true: "it is", false: "they are"}[n == 1], map[bool]string{true: "its task", false: "their tasks"}[n == 1]))
			}
		}
		if fewer := job.Rounds.Fewer(); fewer != "" {
			shared = append(shared, reporting.ShownSource(source)+" "+fewer+".")
		}
		jobs = append(jobs, job)
		t.Jobs = append(t.Jobs, TabledJob{Name: job.JobName, Source: reporting.ShownSource(source), Commit: job.Commit, Missing: job.SkippedTrials, Text: text})
	}
	names := map[string]int{}
	for _, j := range t.Jobs {
		names[j.Name]++
	}
	for i, j := range t.Jobs {
		if names[j.Name] > 1 {
			t.Jobs[i].Name = j.Source
		}
	}
	if err := checkAgents(req.Agents, jobs); err != nil {
		return Table{}, err
	}
	fill(&t, jobs, req.Agents)
	t.shared = shared
	if len(req.Agents) > 0 {
		if len(t.Rows) < 2 {
			return Table{}, host.Usagef("--agents names one agent of one job: there is nothing to compare it with")
		}
		t.Versus = t.versus()
	}
	return t, nil
}

// checkAgents reports agents that none of the jobs has, and those that are named twice.
func checkAgents(agents []string, jobs []result.Job) error {
	var known []string
	for _, job := range jobs {
		for _, t := range result.AttemptsOf(job) {
			if !slices.Contains(known, t.Key.Agent) {
				known = append(known, t.Key.Agent)
			}
		}
	}
	for i, a := range agents {
		switch {
		case len(known) == 0:
			return host.Usagef("--agents %s: no agent has a result in these jobs", host.Clean(strings.Join(agents, ",")))
		case !slices.Contains(known, a):
			return host.Usagef("--agents: there is no agent %s; there are %s", host.Clean(a), host.Clean(strings.Join(known, ", ")))
		case slices.Contains(agents[:i], a):
			return host.Usagef("--agents: %s is named twice", host.Clean(a))
		}
	}
	return nil
}

// versus compares the rows in pairs.
func (t Table) versus() []gate.Versus {
	var out []gate.Versus
	var pairs [][]result.TaskDiff
	for i, a := range t.Rows {
		for j := i + 1; j < len(t.Rows); j++ {
			var pair []result.TaskDiff
			for _, task := range t.Tasks {
				pair = append(pair, gate.PairOf(task.Dataset, task.Task, task.Cells[i], task.Cells[j]))
			}
			pairs = append(pairs, pair)
			out = append(out, gate.Versus{A: t.name(a), B: t.name(t.Rows[j])})
		}
	}
	for i, contrasts := range gate.Contrasts(pairs, TableConfidence) {
		out[i].Contrasts = contrasts
	}
	return out
}

// name returns the name of a row, with its job if there are several.
func (t Table) name(r TableRow) string {
	if len(t.Jobs) > 1 {
		return r.Agent + " in " + r.Job
	}
	return r.Agent
}

// fill computes the tasks and the rows: all agents, or those that are named, in this order. t.Jobs
// has one entry per element of jobs.
func fill(t *Table, jobs []result.Job, agents []string) {
	type name struct{ dataset, task string }
	at := map[name]int{}
	t.Rows, t.Tasks = []TableRow{}, []TableTask{}
	var tried [][]result.TaskAttempts // of each row
	for i, job := range jobs {
		of := map[string][]result.TaskAttempts{}
		var names []string
		for _, a := range result.AttemptsOf(job) {
			if of[a.Key.Agent] == nil {
				names = append(names, a.Key.Agent)
			}
			of[a.Key.Agent] = append(of[a.Key.Agent], a)
		}
		if len(agents) > 0 {
			names = slices.DeleteFunc(slices.Clone(agents), func(name string) bool { return of[name] == nil })
		}
		for _, name := range names {
			t.Rows = append(t.Rows, TableRow{Job: t.Jobs[i].Name, Agent: name})
			tried = append(tried, of[name])
		}
	}
	for row, tasks := range tried {
		for j := range tasks {
			n := name{tasks[j].Key.Dataset, tasks[j].Key.Task}
			i, ok := at[n]
			if !ok {
				i = len(t.Tasks)
				at[n] = i
				t.Tasks = append(t.Tasks, TableTask{Dataset: n.dataset, Task: n.task, Cells: make([]*result.Attempts, len(t.Rows))})
			}
			t.Tasks[i].Cells[row] = &tasks[j].Attempts
		}
	}
	slices.SortFunc(t.Tasks, func(a, b TableTask) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Task, b.Task))
	})
	t.TotalTasks = len(t.Tasks)
	counted := t.Tasks[:0]
	for _, task := range t.Tasks {
		task.Changed = task.changed()
		common := !task.Changed && !slices.ContainsFunc(task.Cells, func(a *result.Attempts) bool { return a == nil || len(a.Scores()) == 0 })
		if common {
			t.Common++
		}
		if task.Changed {
			t.Changed++
		}
		if common || t.All {
			counted = append(counted, task)
		}
	}
	t.Tasks = counted
	for i := range t.Rows {
		t.Rows[i].count(t.Tasks, i)
	}
}

// changed reports whether two rows have different files of the task.
func (t TableTask) changed() bool {
	digest := ""
	for _, a := range t.Cells {
		if a == nil || a.Digest() == "" {
			continue
		}
		if digest != "" && a.Digest() != digest {
			return true
		}
		digest = a.Digest()
	}
	return false
}

// count computes the numbers of the row with this index.
func (r *TableRow) count(tasks []TableTask, index int) {
	var scored []*result.Attempts
	var rewards []float64
	duration, alone, ended, costs := 0.0, 0.0, 0, 0
	for _, t := range tasks {
		a := t.Cells[index]
		if a == nil {
			continue
		}
		sum := a.Sum()
		r.Trials += int(a.Total)
		r.Passed += a.Passed
		r.Cost = r.Cost.Plus(sum.Cost)
		ended += sum.Ended
		costs += sum.Costed
		duration, alone = duration+sum.DurationSec, alone+sum.TrialSec
		if len(a.Scores()) > 0 {
			r.Tasks++
			scored = append(scored, a)
			rewards = append(rewards, a.Scores()...)
		}
	}
	r.Usage = result.UsageOf(scored)
	r.Scored, r.CostUnknown = len(rewards), ended-costs
	if rate, interval, ok := gate.ScoreRate(scored, TableConfidence); ok {
		r.PassRate, r.Interval, r.MeanReward = &rate, &interval, new(result.Mean(rewards))
	}
	if ended > 0 {
		r.DurationSec, r.MeanDuration = new(duration), new(alone/float64(ended))
	}
}

// Sentences lists the basis of the comparison and the missing results.
func (t Table) Sentences() []string {
	var out []string
	total := plural.Count(t.TotalTasks, "task")
	switch {
	case len(t.Rows) < 2:
	case t.All:
		out = append(out, fmt.Sprintf("Every task counts that an agent tried: %d of %s can be compared.", t.Common, total))
	case t.Common == 0:
		out = append(out, fmt.Sprintf("No task can be compared: none of %s has the same files and a score in every row. --all-tasks counts every task.", total))
	case t.Common < t.TotalTasks:
		out = append(out, fmt.Sprintf("On %d of %s: those with the same files and a score in every row. --all-tasks counts every task.", t.Common, total))
	default:
		out = append(out, fmt.Sprintf("On %s, with the same files and a score in every row.", total))
	}
	if t.Changed > 0 {
		out = append(out, fmt.Sprintf("The files of %s differ between the rows.", plural.Count(t.Changed, "task")))
	}
	for _, s := range t.shared {
		out = append(out, host.Clean(s))
	}
	for _, r := range t.Rows {
		if _, ok := r.Cost.Reported(); ok && r.CostUnknown > 0 {
			out = append(out, fmt.Sprintf("The cost of %s lacks %s that reported none.", host.Clean(t.name(r)), plural.Count(r.CostUnknown, "trial")))
		}
	}
	return out
}
