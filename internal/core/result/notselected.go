package result

import (
	"cmp"
	"errors"
	"slices"
)

// NotSelected names the agents and tasks that a job could have run and did not select: by flags
// such as --agent, --task and --metadata, or by keys of its job file such as n_tasks. They have no
// trials.
type NotSelected struct {
	Agents   []string   `json:"agents,omitempty"`   // sorted
	Datasets []string   `json:"datasets,omitempty"` // sorted; none of their tasks is selected
	Tasks    []TaskName `json:"tasks,omitempty"`    // of other datasets, sorted
	// ByFlags means that flags selected tasks or datasets, so that the next run of the same job
	// file may have others.
	ByFlags bool `json:"by_flags,omitempty"`
}

// TaskName names a task of a dataset.
type TaskName struct {
	Dataset string `json:"dataset_name"`
	Task    string `json:"task_name"`
}

// Compare orders names by dataset and task.
func (n TaskName) Compare(other TaskName) int {
	return cmp.Or(cmp.Compare(n.Dataset, other.Dataset), cmp.Compare(n.Task, other.Task))
}

// Has reports whether the agent or the task of a trial was not selected.
func (n *NotSelected) Has(key Key) bool {
	return n != nil && (contains(n.Agents, key.Agent) || n.hasTask(TaskName{key.Dataset, key.Task}))
}

func (n *NotSelected) hasTask(name TaskName) bool {
	if contains(n.Datasets, name.Dataset) {
		return true
	}
	_, found := slices.BinarySearchFunc(n.Tasks, name, TaskName.Compare)
	return found
}

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// check returns an error for what no run writes.
func (n *NotSelected) check() error {
	if n == nil || slices.IsSorted(n.Agents) && slices.IsSorted(n.Datasets) && slices.IsSortedFunc(n.Tasks, TaskName.Compare) {
		return nil
	}
	return errors.New("its agents and tasks that are not selected are not sorted")
}
