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
	settled := map[Key]bool{}
	for _, t := range confirmations {
		if t.Confirmation && !again[t.Key] && t.Passed() {
			settled[t.Key.Unnumbered()] = true
		}
	}
	return p.next(confirmations, again, settled)
}

// next returns the first attempt that was not made at each task that is not settled.
func (p Plan) next(confirmations []Trial, again, settled map[Key]bool) []Key {
	made, chosen := map[Key]bool{}, map[Key]bool{}
	for _, t := range confirmations {
		if t.Confirmation && !again[t.Key] {
			made[t.Key] = true
		}
	}
	var next []Key
	for _, k := range p.ConfirmationKeys() { // by number
		task := k.Unnumbered()
		if !made[k] && !settled[task] && !chosen[task] {
			next = append(next, k)
			chosen[task] = true // one at a time
		}
	}
	return next
}

// Confirming is a job, or its baseline, of which confirmation attempts are made.
type Confirming struct {
	Plan  Plan
	Made  []Trial      // trials, of which the confirmation attempts count
	Again map[Key]bool // those that count as not made
}

// ConfirmedLike returns the plan of the baseline of a job with the confirmation attempts that go with those of the job: as many at
// each task that both have.
func (p Plan) ConfirmedLike(head Plan) Plan {
	if head.Confirm == nil {
		return p
	}
	last := p.lastAttempts(head.Confirm.Tasks)
	tasks := slices.DeleteFunc(slices.Clone(head.Confirm.Tasks), func(k Key) bool { return last[k] == 0 })
	return p.WithConfirmation(head.Confirm.Attempts, tasks)
}

// NextBeside returns the confirmation attempts that can be made now of a job and of the baseline that runs beside it, so that both have
// equally many. A task gets no further ones after the job has passed one, or when the baseline can no longer pass more than half of its
// own: it is not the job then that broke it (see NotBroken). If the baseline does not have a task, the attempts of the job alone decide.
func NextBeside(head, base Confirming) (ofHead, ofBase []Key) {
	if head.Plan.Confirm == nil {
		return nil, nil
	}
	settled := map[Key]bool{}
	for _, t := range counted(head) {
		settled[t.Key] = t.Passed > 0
	}
	for _, t := range counted(base) {
		settled[t.Key] = settled[t.Key] || 2*(len(t.Scores)-t.Passed) >= head.Plan.Confirm.Attempts
	}
	plan := base.Plan.ConfirmedLike(head.Plan)
	ofHead, ofBase = head.Plan.next(head.Made, head.Again, settled), plan.next(base.Made, base.Again, settled)
	rounds := func(p Plan, keys []Key) map[Key]int {
		of := map[Key]int{}
		last := p.lastAttempts(head.Plan.Confirm.Tasks)
		for _, k := range keys {
			of[k.Unnumbered()] = k.Attempt - last[k.Unnumbered()]
		}
		return of
	}
	first, second := rounds(head.Plan, ofHead), rounds(plan, ofBase)
	behind := func(mine, others map[Key]int) func(Key) bool {
		return func(k Key) bool { n, ok := others[k.Unnumbered()]; return ok && n < mine[k.Unnumbered()] }
	}
	return slices.DeleteFunc(ofHead, behind(first, second)), slices.DeleteFunc(ofBase, behind(second, first))
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

// counted returns what the confirmation attempts came to that count as made.
func counted(c Confirming) []TaskAttempts {
	var made []Outcome
	for _, t := range c.Made {
		if t.Confirmation && !c.Again[t.Key] {
			made = append(made, OutcomeOf(t))
		}
	}
	return attempts(made, nil)
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
	return ConfirmedText(d.Confirmation, d.BaseConfirmation)
}

// NotBroken reports whether a task that looked broken was shown to be none that this job broke: the job has passed a confirmation
// attempt, or the baseline beside it has passed no more than half of its own.
func NotBroken(head, base *Attempts) bool { return head != nil && head.Passed > 0 || failsNow(base) }

// failsNow reports whether attempts of a baseline show that it does not pass a task any more either. The baseline need not pass all of
// them: then a task that it passes nearly always would be found half as often if the job does break it.
func failsNow(base *Attempts) bool {
	return base != nil && len(base.Scores) > 0 && 2*base.Passed <= len(base.Scores)
}

// ConfirmedText says for people what attempts of a job, and of the baseline that ran beside it, showed that confirm whether a task is
// broken; "" without any. Those that the infrastructure ended showed nothing, and are not among them. base is nil if only the job made some.
func ConfirmedText(head, base *Attempts) string {
	if head == nil && base == nil {
		return ""
	}
	tried, of := 0, 0
	if head != nil {
		tried = len(head.Scores)
	}
	if base != nil {
		of = len(base.Scores)
	}
	switch {
	case head != nil && head.Passed > 0: // the last one, after which there are no more
		return fmt.Sprintf("not broken: passed %d of %s", head.Passed, plural.Count(tried, "more attempt"))
	case failsNow(base):
		return fmt.Sprintf("not broken by this change: the baseline failed %d of %s now", of-base.Passed, plural.Count(of, "more attempt"))
	case tried > 0 && of > 0:
		return fmt.Sprintf("confirmed broken: failed %s, and the baseline passed %d of %d", plural.Count(tried, "more attempt"), base.Passed, of)
	case tried > 0:
		return "confirmed broken: failed " + plural.Count(tried, "more attempt")
	default:
		return "not confirmed: no further attempt showed anything"
	}
}
