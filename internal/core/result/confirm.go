package result

import (
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/lib/plural"
)

// PlannedConfirmation describes the confirmation attempts (Trial.Confirmation) that a job plans. A
// task that looks broken gets no further attempt after one has passed; for a job that runs with its
// baseline, NextBeside documents the rule.
type PlannedConfirmation struct {
	Attempts int   `json:"attempts"` // at most, of each task
	Tasks    []Key `json:"tasks"`    // without Attempt, sorted
	// Both: tasks that look fixed are tried again by the same rule as those that look broken. Only
	// a job that runs with its baseline does that.
	Both bool `json:"both,omitempty"`
	// Fixed are those of Tasks that look fixed, sorted. The others look broken.
	Fixed []Key `json:"fixed,omitempty"`
}

// MaxConfirmations bounds the confirmation attempts of a task. Check refuses plans with more.
const MaxConfirmations = 100

// Unnumbered returns the key without its attempt. It identifies an agent's group of attempts at a
// task.
func (k Key) Unnumbered() Key {
	k.Attempt = 0
	return k
}

// ConfirmationKeys returns the keys that confirmation attempts may have, sorted. Those of a task
// follow its planned attempts.
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

// lastAttempts returns the highest number of the planned attempts at each task, other shards
// included.
func (p Plan) lastAttempts(tasks []Key) map[Key]int {
	last := make(map[Key]int, len(tasks))
	for _, t := range tasks {
		last[t] = 0
	}
	for _, k := range p.Trials.All() {
		if n, ok := last[k.Unnumbered()]; ok && k.Attempt > n {
			last[k.Unnumbered()] = k.Attempt
		}
	}
	return last
}

// LooksFixed reports whether the plan has confirmation attempts at a task because it looks fixed.
// The key may have an Attempt.
func (p Plan) LooksFixed(k Key) bool {
	return p.Confirm != nil && has(p.Confirm.Fixed, k.Unnumbered())
}

// has reports whether sorted keys have one.
func has(keys []Key, k Key) bool {
	_, ok := slices.BinarySearchFunc(keys, k, Key.Compare)
	return ok
}

// NextConfirmations returns the confirmation attempts that the job can make now by itself: one for
// each task that looks broken, has attempts left and has passed none. Attempts whose keys are in
// again count as not made.
func (p Plan) NextConfirmations(confirmations []Trial, again map[Key]bool) []Key {
	settled := map[Key]bool{}
	if p.Confirm != nil {
		for _, task := range p.Confirm.Fixed {
			settled[task] = true
		}
	}
	for _, t := range confirmations {
		if t.Confirmation && !again[t.Key] && t.Passed() {
			settled[t.Key.Unnumbered()] = true
		}
	}
	return p.next(confirmations, again, settled)
}

// next returns the first attempt that was not made at each unsettled task.
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

// Confirming is a job, or its baseline, with the confirmation attempts made so far.
type Confirming struct {
	Plan  Plan
	Made  []Trial      // trials, of which the confirmation attempts count
	Again map[Key]bool // those that count as not made
}

// ConfirmedLike returns the baseline's plan with the confirmation attempts that match the head's:
// as many at each task that both have.
func (p Plan) ConfirmedLike(head Plan) Plan {
	if head.Confirm == nil {
		return p
	}
	last := p.lastAttempts(head.Confirm.Tasks)
	return p.WithConfirmation(head.Confirm.Without(func(k Key) bool { return last[k] == 0 }))
}

// Without returns c without some of its tasks. c is not changed.
func (c PlannedConfirmation) Without(leave func(Key) bool) PlannedConfirmation {
	c.Tasks, c.Fixed = slices.DeleteFunc(slices.Clone(c.Tasks), leave), slices.DeleteFunc(slices.Clone(c.Fixed), leave)
	return c
}

// WithBaseline returns c without the tasks that look fixed and that the baseline running with the
// job does not have: only the baseline's attempts could confirm them.
func (c PlannedConfirmation) WithBaseline(base Plan) PlannedConfirmation {
	last := base.lastAttempts(c.Fixed)
	return c.Without(func(k Key) bool { n, ok := last[k]; return ok && n == 0 })
}

// NextBeside returns the confirmation attempts that can be made now by a job and by the baseline
// that runs with it, so that both make equally many. A task that looks broken gets no further ones
// after the job has passed one, or when the baseline can no longer pass more than half of its
// attempts: then the job did not break it (see NotBroken). For a task that looks fixed, the same
// holds with job and baseline exchanged (see NotFixed), so that chance confirms as many of the one
// kind as of the other. If the baseline does not have a task, the attempts of the job alone decide.
func NextBeside(head, base Confirming) (ofHead, ofBase []Key) {
	if head.Plan.Confirm == nil {
		return nil, nil
	}
	settled := map[Key]bool{}
	settle := func(c Confirming, fails bool) { // fails: whether it is the side that must fail if the task is broken
		for _, t := range counted(c) {
			if fails != head.Plan.LooksFixed(t.Key) {
				settled[t.Key] = settled[t.Key] || t.Passed > 0
			} else {
				settled[t.Key] = settled[t.Key] || 2*(len(t.Scores())-t.Passed) >= head.Plan.Confirm.Attempts
			}
		}
	}
	settle(head, true)
	settle(base, false)
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

// checkConfirm returns an error for confirmation attempts that no run plans.
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
	for i, task := range c.Fixed {
		if !c.Both || !has(c.Tasks, task) || i > 0 && c.Fixed[i-1].Compare(task) >= 0 {
			return fmt.Errorf("it confirms that %s is fixed, which it does not confirm, or not in its place", task)
		}
	}
	return nil
}

// counted returns the results of the confirmation attempts that count as made, by task.
func counted(c Confirming) []TaskAttempts {
	var made Outcomes
	for _, t := range c.Made {
		if t.Confirmation && !c.Again[t.Key] {
			made.Append(OutcomeOf(t))
		}
	}
	return named(attempts(made, nil))
}

// WithConfirmation returns the plan with further confirmation attempts. For a task that it has
// already, c decides whether the task looks fixed. p and c are not changed.
func (p Plan) WithConfirmation(c PlannedConfirmation) Plan {
	c.Tasks, c.Fixed = sorted(c.Tasks), sorted(c.Fixed)
	if p.Confirm != nil {
		known := func(k Key) bool { return has(c.Tasks, k) }
		c.Fixed = sorted(append(slices.DeleteFunc(slices.Clone(p.Confirm.Fixed), known), c.Fixed...))
		c.Tasks = sorted(append(slices.Clone(p.Confirm.Tasks), c.Tasks...))
		c.Attempts = max(c.Attempts, p.Confirm.Attempts)
		c.Both = c.Both || p.Confirm.Both
	}
	if len(c.Tasks) > 0 {
		p.Confirm = &c
	}
	return p
}

// sorted returns a sorted copy of keys, each once.
func sorted(keys []Key) []Key {
	return slices.Compact(slices.SortedFunc(slices.Values(keys), Key.Compare))
}

// ConfirmedTasks returns the results of the confirmation attempts at each task that has some. The
// keys have no Attempt.
func ConfirmedTasks(job Job) map[Key]*Attempts {
	tasks := map[Key]*Attempts{}
	made := attempts(job.Confirmations, nil)
	for i := range made {
		tasks[made[i].key()] = &made[i]
	}
	return tasks
}

// ConfirmedText describes the results of the confirmation attempts; "" if there were none.
func (d TaskDiff) ConfirmedText() string {
	if d.Head == nil {
		return ""
	}
	return ConfirmedText(d.Confirmation, d.BaseConfirmation, d.Head.Passed > 0)
}

// LooksFixed reports whether the task passed in no attempt of the baseline and in every one of the
// job, confirmation attempts aside. If one side has more attempts than the other, the surplus is
// ignored: only with equally many attempts does chance fix a task at least as often as it breaks
// one.
func (d TaskDiff) LooksFixed() bool {
	if !d.Comparable() {
		return false
	}
	n := min(len(d.Base.Scores()), len(d.Head.Scores()))
	if d.Base.Runs() != nil || d.Head.Runs() != nil { // each run has as many
		return d.Base.Passed == 0 && !slices.ContainsFunc(d.Head.Scores(), func(v float64) bool { return v != 1 })
	}
	return !slices.Contains(d.Base.Scores()[:n], 1) && !slices.ContainsFunc(d.Head.Scores()[:n], func(v float64) bool { return v != 1 })
}

// NotBroken reports whether confirmation attempts showed that this job did not break a task that
// looked broken: the job has passed one, or the baseline that ran with it has passed at most half
// of its attempts.
func NotBroken(head, base *Attempts) bool { return head != nil && head.Passed > 0 || failsNow(base) }

// failsNow reports whether attempts of a baseline show that it no longer passes a task either. It
// may pass some of them: were all required, a task that it passes nearly always would be found half
// as often if the job does break it.
func failsNow(base *Attempts) bool {
	return base != nil && len(base.Scores()) > 0 && 2*base.Passed <= len(base.Scores())
}

// NotFixed reports whether confirmation attempts showed that this job did not fix a task that
// looked fixed. It is NotBroken with job and baseline exchanged. Without attempts of the baseline
// it is false.
func NotFixed(head, base *Attempts) bool { return base != nil && NotBroken(base, head) }

// ConfirmedText describes the confirmation attempts of a job, and of the baseline that ran with it,
// at a task that looks broken, or with fixed set, at one that looks fixed; "" if there are none.
// Attempts that the infrastructure ended do not count. base is nil if only the job made some.
func ConfirmedText(head, base *Attempts, fixed bool) string {
	if head == nil && base == nil {
		return ""
	}
	tried, of := 0, 0
	if head != nil {
		tried = len(head.Scores())
	}
	if base != nil {
		of = len(base.Scores())
	}
	switch {
	case tried == 0 && of == 0:
	case fixed && base != nil && base.Passed > 0:
		return fmt.Sprintf("not fixed by this change: the baseline passed %d of %s now", base.Passed, plural.Count(of, "more attempt"))
	case fixed && failsNow(head):
		return fmt.Sprintf("not fixed: passed %d of %s", head.Passed, plural.Count(tried, "more attempt"))
	case fixed && tried > 0 && of > 0:
		return fmt.Sprintf("confirmed fixed: passed %d of %s, and the baseline none of %d", head.Passed, plural.Count(tried, "more attempt"), of)
	case fixed && tried > 0: // the baseline's attempts are not known here
		return fmt.Sprintf("looked fixed: passed %d of %s", head.Passed, plural.Count(tried, "more attempt"))
	case fixed:
	case head != nil && head.Passed > 0: // the last one, after which there are no more
		return fmt.Sprintf("not broken: passed %d of %s", head.Passed, plural.Count(tried, "more attempt"))
	case failsNow(base):
		return fmt.Sprintf("not broken by this change: the baseline passed %d of %s now", base.Passed, plural.Count(of, "more attempt"))
	case tried > 0 && of > 0:
		return fmt.Sprintf("confirmed broken: passed 0 of %s, and the baseline %d of %d", plural.Count(tried, "more attempt"), base.Passed, of)
	case tried > 0:
		return "confirmed broken: passed 0 of " + plural.Count(tried, "more attempt")
	}
	return "not confirmed: no further attempt showed anything"
}
