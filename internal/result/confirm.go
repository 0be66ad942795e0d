package result

import (
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/plural"
)

// PlannedConfirmation describes the confirmation attempts (Trial.Confirmation) that a job plans. A task gets no further one
// after one has passed.
type PlannedConfirmation struct {
	Attempts int   `json:"attempts"` // at most, of each task
	Tasks    []Key `json:"tasks"`    // without Attempt, sorted
}

// MaxConfirmations bounds the confirmation attempts of a task. Check refuses plans with more.
const MaxConfirmations = 100

// Unnumbered returns the key without its attempt. It identifies an agent's group of attempts at a task.
func (k Key) Unnumbered() Key {
	k.Attempt = 0
	return k
}

// ConfirmationKeys returns the keys that confirmation attempts may have, sorted. Those of a task follow its planned attempts.
func (p Plan) ConfirmationKeys() []Key {
	if p.Confirm == nil {
		return nil
	}
	last := p.lastAttempts(p.Confirm.Tasks)
	keys := make([]Key, 0, len(p.Confirm.Tasks)*p.Confirm.Attempts)
	for _, task := range p.Confirm.Tasks {
		for n := range p.Confirm.Attempts {
			k := task
			k.Attempt = last[task] + 1 + n
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}

// lastAttempts returns the highest number of the planned attempts at each task, other shards included.
func (p Plan) lastAttempts(tasks []Key) map[Key]int {
	last := make(map[Key]int, len(tasks))
	for _, t := range tasks {
		last[t] = 0
	}
	for _, k := range p.Trials {
		if n, ok := last[k.Unnumbered()]; ok && k.Attempt > n {
			last[k.Unnumbered()] = k.Attempt
		}
	}
	return last
}

// NextConfirmations returns the confirmation attempts that can be made now: one for each task that has attempts left and has
// passed none. Attempts whose keys are in again count as not made.
func (p Plan) NextConfirmations(confirmations []Trial, again map[Key]bool) []Key {
	made, passed := map[Key]bool{}, map[Key]bool{}
	for _, t := range confirmations {
		if t.Confirmation && !again[t.Key] {
			made[t.Key] = true
			passed[t.Key.Unnumbered()] = passed[t.Key.Unnumbered()] || t.Passed()
		}
	}
	var next []Key
	for _, k := range p.ConfirmationKeys() { // by number
		task := k.Unnumbered()
		if !made[k] && !passed[task] {
			next = append(next, k)
			passed[task] = true // one at a time
		}
	}
	return next
}

// checkConfirm returns an error for what no run plans.
func (p Plan) checkConfirm() error {
	c := p.Confirm
	if c == nil {
		return nil
	}
	if c.Attempts < 1 || c.Attempts > MaxConfirmations {
		return fmt.Errorf("it confirms with %d attempts", c.Attempts)
	}
	last := p.lastAttempts(c.Tasks)
	for i, task := range c.Tasks {
		if task.Attempt != 0 || last[task] == 0 || i > 0 && c.Tasks[i-1].Compare(task) >= 0 {
			return fmt.Errorf("it confirms %s, which is no task of it, or not in its place", task)
		}
	}
	return nil
}

// WithConfirmation returns the plan with further confirmation attempts. p is not changed.
func (p Plan) WithConfirmation(attempts int, tasks []Key) Plan {
	c := PlannedConfirmation{Attempts: attempts, Tasks: slices.Clone(tasks)}
	if p.Confirm != nil {
		c.Attempts = max(c.Attempts, p.Confirm.Attempts)
		c.Tasks = append(c.Tasks, p.Confirm.Tasks...)
	}
	slices.SortFunc(c.Tasks, Key.Compare)
	c.Tasks = slices.Compact(c.Tasks)
	if len(c.Tasks) > 0 {
		p.Confirm = &c
	}
	return p
}

// ConfirmedTasks returns what the confirmation attempts at each task came to that has some. The keys have no Attempt.
func ConfirmedTasks(job Job) map[Key]*Attempts {
	tasks := map[Key]*Attempts{}
	for _, t := range attempts(job.Confirmations, nil) {
		tasks[t.Key] = &t.Attempts
	}
	return tasks
}

// ConfirmedText describes for people what the confirmation attempts showed. It returns "" if there were none.
func (d TaskDiff) ConfirmedText() string {
	if d.Head == nil {
		return ""
	}
	return ConfirmedText(d.Confirmation)
}

// ConfirmedText says for people what attempts showed that confirm whether a task is broken; "" without any. Those that the infrastructure ended
// showed nothing, and are not among them.
func ConfirmedText(a *Attempts) string {
	if a == nil {
		return ""
	}
	switch tried := len(a.Rewards) + a.Lost; {
	case a.Passed > 0: // the last one, after which there are no more
		return fmt.Sprintf("not broken: passed %d of %s", a.Passed, plural.Count(tried, "more attempt"))
	case tried > 0:
		return "confirmed broken: failed " + plural.Count(tried, "more attempt")
	default:
		return "not confirmed: no further attempt showed anything"
	}
}
