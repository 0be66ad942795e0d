package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/report"
)

// Trend holds the results of an agent over runs, this job last.
type Trend struct {
	Agent, Level string
	Parts        string // how many runs had a part of the tasks
	Charts       []Chart
	Runs         []TrendRun
	Tasks        []TrendTask
	Heads        []TrendHead // of the columns of Tasks
	LeftOut      string
}

// TrendRun is a row of the table of runs, the newest first.
type TrendRun struct {
	Started, Commit, Verdict, VerdictClass string
	Passed, Rate, Interval                 string
	Reward, Cost, Time, Tokens             TrendMean
	Changed                                string
	Now                                    bool
}

// TrendMean is a mean with its interval, which is "" if there is none.
type TrendMean struct{ Text, Interval string }

// TrendTask is a row of the table of tasks: a cell for each run, the oldest first.
type TrendTask struct {
	Name  string
	Cells []TrendCell
}

// TrendCell is a task in a run.
type TrendCell struct{ Sign, Class, Text string }

// TrendHead is a run as a column.
type TrendHead struct {
	N       int
	Text    string
	Changed bool
}

// Limits on the part of a history that is shown.
const (
	maxTrends     = 5  // agents
	maxTrendDots  = 60 // runs in a chart
	maxTrendRuns  = 20 // runs in a table
	maxTrendTasks = 60
)

// trends returns how the agents of the job did over time; nil without a history.
func trends(in report.Input) (out []Trend) {
	if len(in.History) == 0 {
		return nil
	}
	now := history.PointOf(in.Job, "", in.Verdict.Outcome)
	points := append(history.Without(in.History, now), now)
	for _, agent := range history.Names([]history.Point{now}) {
		if t, ok := trend(points, in.History, agent); ok && len(out) < maxTrends {
			t.Runs[0].Now = true
			out = append(out, t)
		}
	}
	return out
}

// trendsOf returns how agents did over the runs of a directory.
func trendsOf(points []history.Point) (out []Trend) {
	points = history.Sorted(slices.Clone(points))
	points = points[max(0, len(points)-maxTrendDots):]
	for _, agent := range history.Names(points) {
		if t, ok := trend(points, points, agent); ok && len(out) < maxTrends {
			out = append(out, t)
		}
	}
	return out
}

// trend returns how an agent did over runs; false if there are fewer than two. level has those that
// its level is about.
func trend(points, level []history.Point, agent string) (t Trend, ok bool) {
	runs := history.Runs(points, agent)
	if len(runs) < 2 {
		return t, false
	}
	branch := name(cmp.Or(history.BranchOf(level), "the history"))
	t = Trend{Agent: name(agent), Level: history.Line(level, branch, agent, maxTrendRuns), Parts: history.PartsNote(points, agent)}
	if whole := history.Whole(runs); len(whole) > 1 {
		t.Charts = trendCharts(whole[max(0, len(whole)-maxTrendDots):])
	}
	shown := runs[max(0, len(runs)-maxTrendRuns):]
	for _, run := range slices.Backward(shown) {
		t.Runs = append(t.Runs, trendRun(run))
	}
	t.addTasks(shown)
	return t, true
}

func trendRun(run history.Run) TrendRun {
	const unknown = "–"
	a := run.Agent
	r := TrendRun{
		Started: run.StartedAt.UTC().Format("2006-01-02 15:04"), Commit: unknown, Verdict: cmp.Or(name(string(run.Verdict)), unknown), VerdictClass: verdictClass(run),
		Passed: strconv.Itoa(a.Passed) + "/" + strconv.Itoa(a.Attempts), Rate: unknown, Interval: unknown, Changed: run.Changed.String(),
		Reward: rewardOf(a).shown(report.Number), Cost: costOf(a).shown(report.Dollars), Time: timeOf(a).shown(report.Duration), Tokens: tokensOfRun(a).shown(report.Tokens),
	}
	if a.Lost > 0 {
		r.Passed += ", " + report.Count(a.Lost) + " lost"
	}
	if run.Commit != nil {
		r.Commit = cut(*run.Commit, 12)
	}
	if a.Attempts > 0 {
		r.Rate = report.Percent(part(a.PassRate))
	}
	if i := a.Interval; i != nil {
		r.Interval = report.Percent(part(i.Low)) + " to " + report.Percent(part(i.High))
	}
	if a.InputTokens.N > 0 || a.OutputTokens.N > 0 {
		r.Tokens.Text = report.Tokens(a.InputTokens.Mean) + " in, " + report.Tokens(a.OutputTokens.Mean) + " out"
	}
	return r
}

// part returns a share between 0 and 1: a file may say anything.
func part(v float64) float64 {
	if v > 0 {
		return min(v, 1)
	}
	return 0
}

// verdictClass returns the class of a run's verdict, of a fixed set.
func verdictClass(run history.Run) string {
	switch run.Verdict {
	case "pass", "fail", "inconclusive":
		return string(run.Verdict)
	}
	return "unknown"
}

// addTasks adds the table of tasks, those whose attempts did not all pass first.
func (t *Trend) addTasks(runs []history.Run) {
	tasks := history.TasksOf(runs)
	missed := func(t history.TaskRuns) (n int) {
		for _, run := range t.Runs {
			if run.Attempts > 0 && run.Passed < run.Attempts {
				n++
			}
		}
		return n
	}
	slices.SortStableFunc(tasks, func(a, b history.TaskRuns) int { return cmp.Compare(missed(b), missed(a)) })
	for i, run := range runs {
		text := run.StartedAt.UTC().Format("2006-01-02 15:04")
		if run.Commit != nil {
			text += ", " + cut(*run.Commit, 12)
		}
		if run.Changed != (history.Changed{}) {
			text += ", changed: " + run.Changed.String()
		}
		t.Heads = append(t.Heads, TrendHead{i + 1, text, run.Changed != (history.Changed{})})
	}
	for _, task := range tasks[:min(len(tasks), maxTrendTasks)] {
		row := TrendTask{Name: cut(task.Name, 60)}
		for _, run := range task.Runs {
			c := TrendCell{Sign: run.Sign(), Text: strconv.Itoa(run.Passed) + " of " + strconv.Itoa(run.Attempts) + " passed"}
			c.Class = map[string]string{"✓": "passed", "✗": "failed", "~": "flaky", "·": ""}[c.Sign]
			row.Cells = append(row.Cells, c)
		}
		t.Tasks = append(t.Tasks, row)
	}
	if more := len(tasks) - len(t.Tasks); more > 0 {
		t.LeftOut = report.Plural(more, "more task") + ", whose attempts failed in fewer runs"
	}
}
