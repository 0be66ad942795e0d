package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// tableConfidence is the confidence of the intervals in tables: the default of gate.confidence.
const tableConfidence = 0.95

// TableRequest is the request of Tabulate.
type TableRequest struct {
	Jobs   []string // each as in CompareRequest, without duplicates
	All    bool     // count every task of each agent, even those that others do not have
	Stored StoredAt
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
func Tabulate(ctx context.Context, h *Host, req TableRequest) (Table, error) {
	f := h.finder()
	t := Table{All: req.All, Jobs: []TabledJob{}}
	var jobs []result.Job
	for i, source := range req.Jobs {
		for _, earlier := range req.Jobs[:i] {
			if earlier == source || !isRemote(source) && !isRemote(earlier) && f.same(source, earlier) {
				return Table{}, usage("%s is given twice", shown(source))
			}
		}
		job, text, err := f.side(ctx, source, req.Stored, evaluated{})
		if err != nil {
			return Table{}, err
		}
		jobs = append(jobs, job)
		t.Jobs = append(t.Jobs, TabledJob{Name: job.JobName, Source: shown(source), Commit: job.Commit, Missing: job.SkippedTrials, Text: text})
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
	fill(&t, jobs)
	return t, nil
}

// fill computes the tasks and the rows. t.Jobs has one entry per element of jobs.
func fill(t *Table, jobs []result.Job) {
	type name struct{ dataset, task string }
	at := map[name]int{}
	t.Rows, t.Tasks = []TableRow{}, []TableTask{}
	var tried [][]result.TaskAttempts // of each row
	for i, job := range jobs {
		all := result.AttemptsOf(job)
		for len(all) > 0 {
			agent, n := all[0].Key.Agent, 0
			for n < len(all) && all[n].Key.Agent == agent {
				n++
			}
			t.Rows = append(t.Rows, TableRow{Job: t.Jobs[i].Name, Agent: agent})
			tried, all = append(tried, all[:n]), all[n:]
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
		common := !task.Changed && !slices.ContainsFunc(task.Cells, func(a *result.Attempts) bool { return a == nil || len(a.Scores) == 0 })
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
		if a == nil || a.Digest == "" {
			continue
		}
		if digest != "" && a.Digest != digest {
			return true
		}
		digest = a.Digest
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
		r.Trials += a.Total
		r.Passed += a.Passed
		r.Cost = r.Cost.Plus(a.Cost)
		ended += a.Ended
		costs += a.Costed
		duration, alone = duration+a.DurationSec, alone+a.TrialSec
		if len(a.Scores) > 0 {
			r.Tasks++
			scored = append(scored, a)
			rewards = append(rewards, a.Scores...)
		}
	}
	r.Usage = result.UsageOf(scored)
	r.Scored, r.CostUnknown = len(rewards), ended-costs
	if rate, interval, ok := gate.ScoreRate(scored, tableConfidence); ok {
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
	for _, r := range t.Rows {
		if _, ok := r.Cost.Reported(); ok && r.CostUnknown > 0 {
			name := r.Agent
			if len(t.Jobs) > 1 {
				name += " in " + r.Job
			}
			out = append(out, fmt.Sprintf("The cost of %s lacks %s that reported none.", clean(name), plural.Count(r.CostUnknown, "trial")))
		}
	}
	return out
}
