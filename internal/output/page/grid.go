package page

import (
	"slices"

	"github.com/org/rollout-action/internal/core/result"
)

// GridRow has the results of all agents at one task.
type GridRow struct {
	N             int // the rows of the table with this number are of the same task
	Task, Dataset string
	Cells         []GridCell // one for each of Page.Columns
}

// GridCell is the result of an agent at a task. Result is "" if the agent did not try it.
type GridCell struct {
	Result string
	Sign   string // the change or, without one, the state
	Class  string // that of Sign; "": it is neither good nor bad
}

// addGrid makes the tables of tasks by agents of the rows, if there are several agents, and lists
// agents and datasets for the filter.
func (p *Page) addGrid() {
	type task struct{ dataset, name string }
	at := map[task]int{}
	var agents, datasets []string
	for _, r := range p.Rows {
		if !slices.Contains(agents, r.Agent) {
			agents = append(agents, r.Agent)
		}
		if !slices.Contains(datasets, r.Dataset) {
			datasets = append(datasets, r.Dataset)
		}
	}
	slices.Sort(datasets)
	if len(datasets) > 1 {
		p.Datasets = datasets
	}
	if len(agents) < 2 {
		return
	}
	slices.Sort(agents)
	p.Columns = agents
	for i := range p.Rows {
		r := &p.Rows[i]
		key := task{r.Dataset, r.Task}
		n, ok := at[key]
		if !ok {
			n = len(p.Grid)
			at[key] = n
			p.Grid = append(p.Grid, GridRow{N: n + 1, Task: r.Task, Dataset: r.Dataset, Cells: make([]GridCell, len(agents))})
		}
		r.N = n + 1
		p.Grid[n].Cells[slices.Index(agents, r.Agent)] = r.inGrid()
	}
}

// inGrid returns the row as a cell.
func (r *Row) inGrid() GridCell {
	c := GridCell{Result: r.Result, Sign: r.State, Class: r.State}
	switch {
	case r.Change != "" && r.Change != string(result.Same):
		c.Sign, c.Class = r.Change, r.Change
	case r.Expected:
		c.Class = ""
	}
	return c
}
