package result

import (
	"errors"
	"slices"
)

// NotAffected describes the trials that a job leaves out, because nothing that changed can affect
// them (--changed). They are no trials of the job: neither planned nor skipped.
type NotAffected struct {
	Since  string `json:"since"`  // the commit from which changes count
	Files  int    `json:"files"`  // that changed
	Trials int    `json:"trials"` // that are left out
	// Affected is the number of the other trials, of all shards.
	Affected int `json:"affected"`
	// Tasks are those of the trials for each agent, sorted by agent, dataset and task.
	Tasks []LeftOut `json:"tasks"`
}

// LeftOut names an agent and a task, all of whose attempts were left out.
type LeftOut struct {
	Agent   string `json:"agent_name"`
	Dataset string `json:"dataset_name"`
	Task    string `json:"task_name"`
}

// Key returns the key of the task's trials, without an attempt.
func (l LeftOut) Key() Key { return Key{Agent: l.Agent, Dataset: l.Dataset, Task: l.Task} }

// Has reports whether a trial is left out.
func (n *NotAffected) Has(key Key) bool {
	if n == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(n.Tasks, key.Unnumbered(), func(l LeftOut, k Key) int { return l.Key().Compare(k) })
	return found
}

// check returns an error for what no run writes.
func (n *NotAffected) check() error {
	if n == nil {
		return nil
	}
	if n.Trials < len(n.Tasks) || n.Files < 0 || n.Affected < 0 || !slices.IsSortedFunc(n.Tasks, func(a, b LeftOut) int { return a.Key().Compare(b.Key()) }) {
		return errors.New("its trials that are not affected contradict each other")
	}
	return nil
}

// NothingAffected reports whether the job has no trials because nothing that changed can affect
// one. A shard may be without trials although others have some.
func (j *Job) NothingAffected() bool {
	return j.NotAffected != nil && j.NotAffected.Trials > 0 && j.NotAffected.Affected == 0 && j.TotalTrials == 0
}

// leftOut returns keys for the tasks that a baseline has left out, as for trials that were skipped:
// it has no results of them.
func (n *NotAffected) leftOut() []Key {
	if n == nil {
		return nil
	}
	keys := make([]Key, len(n.Tasks))
	for i, l := range n.Tasks {
		keys[i] = l.Key()
		keys[i].Attempt = 1
	}
	return keys
}
