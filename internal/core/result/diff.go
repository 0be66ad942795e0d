package result

import (
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/org/rollout-action/internal/core/agent"
)

// Change classifies how the results of one agent at one task differ between two jobs.
type Change string

// The changes, the most important first. An attempt that the agent, the verifier or a judge ended
// without a reward counts as one with reward 0 (Attempts.Scores). Attempts that the infrastructure
// or a cancel ended do not count, unless stated otherwise. An attempt passes with a reward of
// exactly 1.
const (
	Broken  Change = "broken"  // every attempt passed, now none does, confirmation attempts included
	Errored Change = "errored" // there were rewards, and now there are only errors
	Worse   Change = "worse"   // the mean reward fell, or a task that looked broken is not (NotBroken)
	Fixed   Change = "fixed"   // no attempt passed (or there were only errors), now every one does, confirmation attempts included
	Better  Change = "better"  // the mean reward rose, there is a reward where there were only errors, or a task that looked fixed is not (NotFixed)
	Changed Change = "changed" // the task's own files changed, so that the two are not comparable
	New     Change = "new"     // the baseline has no such task
	Removed Change = "removed" // only the baseline has the task
	Unknown Change = "unknown" // one side has no results: its attempts were not selected, skipped, cancelled or not verified
	Same    Change = "same"    // the mean reward is equal, or there are only errors as before
)

// Changes lists all changes in that order.
var Changes = []Change{Broken, Errored, Worse, Fixed, Better, Changed, New, Removed, Unknown, Same}

// Diff is the comparison of a job with its baseline, task by task. The zero value compares nothing.
// Its JSON form is for programs; see MarshalJSON.
type Diff struct {
	Base, Head Job
	Tasks      []TaskDiff     // sorted by agent, dataset and task
	Counts     map[Change]int // of Tasks; every change has an entry
	Flaky      int            // how many of Tasks are flaky
	// NotAffected counts the tasks of the baseline that are not among Tasks, because this job left
	// them out on purpose (Job.NotAffected).
	NotAffected int
	// NotSelected counts the tasks of the baseline that are not among Tasks, because this job did
	// not select them or their agent (Job.NotSelected). It counts a task once for each agent.
	NotSelected int
	Overall     GroupDiff   // of the agents that are evaluated
	Agents      []GroupDiff // for each agent, over its datasets, sorted
	Groups      []GroupDiff // for each agent and dataset, sorted
}

// TaskDiff compares one agent's attempts at one task. Base or Head is nil if that job does not have
// the task.
type TaskDiff struct {
	Agent   string `json:"agent_name"`
	Dataset string `json:"dataset_name"`
	Task    string `json:"task_name"`
	Change  Change `json:"change"`
	// Flaky: the attempts of this job disagree, confirmation attempts included. Some pass, others
	// do not or end with an error. Cancelled and skipped ones do not count.
	Flaky bool      `json:"flaky"`
	Base  *Attempts `json:"base"`
	Head  *Attempts `json:"head"`
	// Confirmation holds the confirmation attempts of this job at the task; nil if there are none.
	// They decide only between "broken" or "errored" and "worse", and between "fixed" and "better".
	Confirmation *Attempts `json:"confirmation,omitempty"`
	// BaseConfirmation holds those of the baseline, if the two jobs ran together; see NotBroken and
	// NotFixed.
	BaseConfirmation *Attempts `json:"base_confirmation,omitempty"`
	// TakenOver: this job took trials over, and the task is equal on both sides by construction. A
	// difference is no evidence; see takenOver.
	TakenOver bool `json:"taken_over,omitempty"`
}

// Comparable reports whether both sides have scores of the same task, so that their difference is
// meaningful.
func (d TaskDiff) Comparable() bool {
	return d.Change != Changed && d.Base != nil && d.Head != nil && len(d.Base.Scores()) > 0 && len(d.Head.Scores()) > 0
}

// Attempts sums up the attempts of one agent at one task. A large job has hundreds of thousands of
// them, so what few callers need is computed (Sum) or elsewhere (rare).
type Attempts struct {
	Rewards   []float64 // of completed attempts, by attempt
	Passed    int       // with reward 1
	Total     int32     // planned ones
	Failed    int32     // ended with an error and without a reward
	Cancelled int32     // those of Failed that a cancel stopped
	Lost      int32     // those of Failed that the agent, the verifier or a judge ended; see Fault.Loses

	from, to int32     // the indexes of the first one in of, and of the one after the last
	of       *Outcomes // has the attempts in order; of a task without a result, one without a result
	rare     *rareAttempts
}

// rareAttempts holds what few Attempts have.
type rareAttempts struct {
	scores []float64 // nil: as the rewards
	runs   []*Attempts
}

// Scores returns the values that comparisons of jobs use, by attempt: the rewards, and 0 for each
// lost attempt. Callers must not write to them.
func (a *Attempts) Scores() []float64 {
	if a.rare == nil || a.rare.scores == nil {
		return a.Rewards
	}
	return a.rare.scores
}

// Runs returns those of each run, if these are of a baseline of several runs (Job.Pool), the newest
// first; nil for a run that has none.
func (a *Attempts) Runs() []*Attempts {
	if a.rare == nil {
		return nil
	}
	return a.rare.runs
}

// AttemptsSum is the sum of what attempts took.
type AttemptsSum struct {
	Errors      []ErrorType // by attempt
	Cost        USD
	DurationSec float64
	TrialSec    float64 // Outcome.TrialSec
	Ended       int     // those that have a result
	Costed      int     // those of Ended whose cost is known
}

// Sum computes the sum.
func (a *Attempts) Sum() AttemptsSum {
	var s AttemptsSum
	for _, run := range a.Runs() {
		if run != nil {
			s.add(run.Sum())
		}
	}
	if a.Runs() == nil {
		a.each(func(o Outcome) bool { s.add(sumOf(&o)); return true })
	}
	return s
}

// sumOf returns the sum of one outcome.
func sumOf(o *Outcome) AttemptsSum {
	s := AttemptsSum{Cost: o.Cost, DurationSec: o.DurationSec, TrialSec: o.TrialSec()}
	if o.Error != "" {
		s.Errors = []ErrorType{o.Error}
	}
	if o.Completed() || o.Error != "" || o.DurationSec > 0 {
		s.Ended = 1
	}
	if _, ok := o.KnownCost().Reported(); ok {
		s.Costed = 1
	}
	return s
}

func (s *AttemptsSum) add(more AttemptsSum) {
	s.Errors = append(s.Errors, more.Errors...)
	s.Cost = s.Cost.Plus(more.Cost)
	s.DurationSec += more.DurationSec
	s.TrialSec += more.TrialSec
	s.Ended += more.Ended
	s.Costed += more.Costed
}

// Digest returns the digest of the task, in the newest of several runs; "" if it is not known.
func (a *Attempts) Digest() (digest string) {
	a.each(func(o Outcome) bool { digest = o.TaskDigest; return digest == "" })
	return digest
}

// key returns the names of the task. The attempts must be those of a job.
func (a *Attempts) key() Key {
	t := &a.of.tasks[a.of.rows[a.from].task]
	return Key{Agent: t.agent, Dataset: t.dataset, Task: t.task}
}

// Scored returns the attempts behind Scores, in the same order.
func (a *Attempts) Scored() iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		if a.Runs() == nil {
			a.scored(yield)
			return
		}
		for _, run := range a.Runs() {
			if run != nil && !run.scored(yield) {
				return
			}
		}
	}
}

// scored yields the scored attempts of one run, until yield returns false.
func (a *Attempts) scored(yield func(Outcome) bool) bool {
	return a.each(func(o Outcome) bool {
		return !o.Completed() && !(o.Failed() && o.Error.Fault().Loses()) || yield(o)
	})
}

// each yields the attempts of one run, the newest of several, until yield returns false.
func (a *Attempts) each(yield func(Outcome) bool) bool {
	for i := int(a.from); i < int(a.to); i++ {
		if i > int(a.from) && a.of.compare(i-1, i) == 0 { // the first of each key counts
			continue
		}
		if !yield(a.of.At(i)) {
			return false
		}
	}
	return true
}

// MeanCost returns the mean cost of the scored attempts that have reported one; null if none has.
func (a *Attempts) MeanCost() USD {
	var few [fewAttempts]float64
	costs, atLeast := few[:0], false
	for o := range a.Scored() {
		if usd, ok := o.Cost.Reported(); ok {
			costs, atLeast = append(costs, usd), atLeast || o.Cost.AtLeast()
		}
	}
	if len(costs) == 0 {
		return USD{}
	}
	return Dollars(Mean(costs)).boundIf(atLeast)
}

// MeanDuration returns the mean time of the scored attempts in seconds (Outcome.TrialSec); nil if
// there are none that ran as a whole.
func (a *Attempts) MeanDuration() *float64 {
	var few [fewAttempts]float64
	seconds := few[:0]
	for o := range a.Scored() {
		if !o.Again {
			seconds = append(seconds, o.TrialSec())
		}
	}
	return meanIfAny(seconds)
}

// fewAttempts is the number of attempts up to which means are computed without allocations: a large
// job has millions of such means.
const fewAttempts = 16

// Mean returns the mean of Scores, or 0 if there are none.
func (a *Attempts) Mean() float64 { return Mean(a.Scores()) }

// PassRate returns the share of Scores that are passes, or 0 if there are none.
func (a *Attempts) PassRate() float64 { return ratio(float64(a.Passed), len(a.Scores())) }

// LeftOut returns the number of attempts without a score because of an error that is no evidence
// about the agent: the infrastructure's, the task's, or a cancel.
func (a *Attempts) LeftOut() int { return int(a.Failed - a.Lost) }

// crashed reports whether attempts ended with errors other than a cancel, and none with a reward.
func (a *Attempts) crashed() bool { return len(a.Rewards) == 0 && a.Failed > a.Cancelled }

// flaky computes TaskDiff.Flaky. confirmation may be nil.
func (a *Attempts) flaky(confirmation *Attempts) bool {
	passed, others := 0, 0
	for _, some := range []*Attempts{a, confirmation} {
		if some != nil {
			passed += some.Passed
			others += len(some.Rewards) - some.Passed + int(some.Failed-some.Cancelled)
		}
	}
	return passed > 0 && others > 0
}

// GroupDiff compares the comparable tasks of a group: those that both jobs have, unchanged, with
// scores on both sides. Rates and rewards are means over these tasks; each counts once, however
// many attempts it has.
type GroupDiff struct {
	Agent, Dataset string // "" for all
	Tasks          int    // comparable ones; a task that two agents tried counts twice
	Base, Head     Level
	// Usage compares the agents' usage of their models; nil if no comparable task has that on
	// either side.
	Usage *UsageDiff
	// Scores compares the judges' scores; nil without judges.
	Scores []ScoreDiff
}

// Delta returns Head minus Base.
func (g GroupDiff) Delta() Level {
	l := Level{
		PassRate:   g.Head.PassRate - g.Base.PassRate,
		MeanReward: finite(g.Head.MeanReward - g.Base.MeanReward),
		Cost:       g.Head.Cost.Minus(g.Base.Cost), CostAtLeast: g.Head.Cost.Minus(g.Base.Cost).AtLeast(),
	}
	if g.Head.DurationSec != nil && g.Base.DurationSec != nil {
		l.DurationSec = new(*g.Head.DurationSec - *g.Base.DurationSec)
	}
	return l
}

// Level sums up the results of a job on a group of tasks. Each number is a mean over tasks of the
// mean over a task's scored trials, so that jobs with different numbers of attempts can be
// compared.
type Level struct {
	PassRate   float64 `json:"pass_rate"`
	MeanReward float64 `json:"mean_reward"`
	// Cost is over the tasks that have one on both sides. It is that of a trial; null if no trial
	// has reported one.
	Cost        USD  `json:"mean_cost"`
	CostAtLeast bool `json:"mean_cost_at_least,omitempty"` // Cost is a lower bound; of a difference: of one, so it may be more or less
	// DurationSec is that of a trial without the wait for its image; null if trials did not run as
	// a whole on one of the sides, as those of verify.
	DurationSec *float64 `json:"mean_duration_sec"`
}

// Compare compares head with base. Trials are matched by key, tasks by digest. If both digests are
// known and differ, the task is Changed, whatever its rewards; if one is unknown, the task counts
// as the same. The numbers of attempts may differ. If several results have one key, the first
// counts, as in Summarize. The attempts of base.Pool are further ones of base. The jobs are not
// changed. The agent nop is left out, because it does nothing that could get better or worse.
func Compare(base, head Job) Diff {
	before, after := attempts(base.Results, slices.Concat(base.Skipped, base.NotAffected.leftOut())), attempts(head.Results, head.Skipped)
	if len(base.Pool) > 0 {
		addPool(before, base.Pool)
	}
	confirmations, ofBase := ConfirmedTasks(head), map[Key]*Attempts{}
	if base.Beside.baselineOf(head) { // other baselines' attempts confirm another comparison
		ofBase = ConfirmedTasks(base)
	}
	equal := takenOver(base, head)
	d := Diff{Base: base, Head: head, Counts: map[Change]int{}, Tasks: make([]TaskDiff, 0, max(len(before), len(after)))}
	for _, c := range Changes {
		d.Counts[c] = 0
	}
	for len(before)+len(after) > 0 {
		t := pair(&before, &after)
		if t.Agent == agent.Nop {
			continue
		}
		if t.Head == nil && head.NotAffected.Has(Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task}) {
			d.NotAffected++
			continue
		}
		if t.Head == nil && head.NotSelected.Has(Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task}) {
			d.NotSelected++
			continue
		}
		if t.Base == nil && base.NotSelected.Has(Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task}) {
			t.Base = &Attempts{Rewards: []float64{}} // it has the task, and no results
		}
		if t.Head != nil {
			key := Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task}
			t.Confirmation, t.BaseConfirmation = confirmations[key], ofBase[key]
			t.Flaky = t.Head.flaky(t.Confirmation)
		}
		t.Change = change(t.Base, t.Head)
		t.TakenOver = t.Comparable() && equal[Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task}]
		if NotBroken(t.Confirmation, t.BaseConfirmation) && (t.Change == Broken || t.Change == Errored) {
			t.Change = Worse
		}
		if t.Change == Fixed && t.LooksFixed() && NotFixed(t.Confirmation, t.BaseConfirmation) {
			t.Change = Better
		}
		d.Counts[t.Change]++
		if t.Flaky {
			d.Flaky++
		}
		d.Tasks = append(d.Tasks, t)
	}
	d.Overall = group("", "", d.Evaluated())
	d.Agents = groups(d.Tasks, func(t TaskDiff) GroupDiff { return GroupDiff{Agent: t.Agent} })
	d.Groups = groups(d.Tasks, func(t TaskDiff) GroupDiff { return GroupDiff{Agent: t.Agent, Dataset: t.Dataset} })
	return d
}

// Evaluated returns the Tasks of the agents that agent.Evaluated selects from the job's agents. It
// shares its elements if these are all.
func (d Diff) Evaluated() []TaskDiff {
	names := map[string]bool{}
	for _, t := range d.Tasks {
		if t.Head != nil {
			names[t.Agent] = true
		}
	}
	kept := agent.Evaluated(slices.Collect(maps.Keys(names)))
	left := func(t TaskDiff) bool {
		return len(names) > 0 && (agent.Agent{Name: t.Agent}).Reserved() && !slices.Contains(kept, t.Agent)
	}
	if !slices.ContainsFunc(d.Tasks, left) {
		return slices.Clip(d.Tasks)
	}
	return slices.DeleteFunc(slices.Clone(d.Tasks), left)
}

// CountsEvaluated counts the changes of Evaluated. Changes that do not occur have no entry.
func (d Diff) CountsEvaluated() map[Change]int {
	counts := map[Change]int{}
	for _, t := range d.Evaluated() {
		counts[t.Change]++
	}
	return counts
}

// TaskAttempts holds one agent's attempts at one task.
type TaskAttempts struct {
	Key Key // its Attempt is 0
	Attempts
}

// AttemptsOf returns the attempts of a job, sorted by agent, dataset and task. It counts the same
// attempts as Compare. The job is not changed.
func AttemptsOf(job Job) []TaskAttempts { return named(attempts(job.Results, job.Skipped)) }

// named returns attempts with their keys.
func named(tasks []Attempts) []TaskAttempts {
	list := make([]TaskAttempts, len(tasks))
	for i := range tasks {
		list[i] = TaskAttempts{tasks[i].key(), tasks[i]}
	}
	return list
}

// pair removes the first task from two lists, or from one of them if the other does not begin with
// it.
func pair(base, head *[]Attempts) (t TaskDiff) {
	order, key := 0, Key{}
	switch {
	case len(*base) == 0:
		order = 1
	case len(*head) == 0:
		order = -1
	default:
		order = (*base)[0].key().Compare((*head)[0].key())
	}
	if order <= 0 {
		t.Base = next(base)
		key = t.Base.key()
	}
	if order >= 0 {
		t.Head = next(head)
		key = t.Head.key()
	}
	t.Agent, t.Dataset, t.Task = key.Agent, key.Dataset, key.Task
	return t
}

// next removes the first element of a list, and returns it.
func next(list *[]Attempts) *Attempts {
	first := &(*list)[0]
	*list = (*list)[1:]
	return first
}

// attempts groups outcomes, and planned trials without one.
func attempts(all Outcomes, skipped []Key) []Attempts {
	all = all.Sorted()
	if !slices.IsSortedFunc(skipped, Key.Compare) {
		skipped = slices.SortedFunc(slices.Values(skipped), Key.Compare)
	}
	n, rewarded := 0, 0
	for i := range all.rows {
		if i == 0 || !all.sameTask(i-1, i) {
			n++
		}
		if all.rows[i].marks&rowRewarded > 0 {
			rewarded++
		}
	}
	tasks := make([]Attempts, 0, n)
	rewards := make([]float64, 0, rewarded) // of all tasks, one after the other
	var last Key
	count := func(o *Outcome) *Attempts {
		if len(tasks) == 0 || last.Unnumbered() != o.Unnumbered() {
			tasks = append(tasks, Attempts{Rewards: []float64{}})
		} else if o.Key == last { // the first of each key counts, and results before skipped trials
			return &tasks[len(tasks)-1]
		}
		last = o.Key
		a := &tasks[len(tasks)-1]
		if o.Completed() {
			rewards = append(rewards, *o.Reward)
			a.Rewards = rewards[len(rewards)-len(a.Rewards)-1 : len(rewards) : len(rewards)]
		}
		add(a, o)
		return a
	}
	without := &Outcomes{}
	skip := func(k Key) {
		if a := count(&Outcome{Key: k}); a.of == nil {
			without.Append(Outcome{Key: k})
			a.of, a.from, a.to = without, int32(without.Len()-1), int32(without.Len())
		}
	}
	for i, o := range all.All() {
		for ; len(skipped) > 0 && skipped[0].Compare(o.Key) < 0; skipped = skipped[1:] {
			skip(skipped[0])
		}
		a := count(&o)
		if a.of != &all {
			a.of, a.from = &all, int32(i)
		}
		a.to = int32(i) + 1
	}
	for _, k := range skipped {
		skip(k)
	}
	return tasks
}

// add adds an attempt, whose reward is in a.Rewards.
func add(a *Attempts, o *Outcome) {
	a.Total++
	if o.Completed() && a.Lost > 0 {
		a.rare.scores = append(a.rare.scores, *o.Reward)
	}
	if o.Passed() {
		a.Passed++
	}
	if !o.Failed() {
		return
	}
	a.Failed++
	if o.Error == Cancelled {
		a.Cancelled++
	}
	if o.Error.Fault().Loses() {
		if a.Lost == 0 {
			a.rare = &rareAttempts{scores: slices.Clip(a.Rewards)}
		}
		a.Lost++
		a.rare.scores = append(a.rare.scores, 0)
	}
}

func change(base, head *Attempts) Change {
	switch {
	case base == nil:
		return New
	case head == nil:
		return Removed
	case base.Digest() != "" && head.Digest() != "" && base.Digest() != head.Digest():
		return Changed
	case len(base.Rewards) > 0 && head.crashed():
		return Errored
	case base.crashed() && head.crashed():
		return Same
	case len(base.Scores()) > 0 && len(head.Scores()) > 0:
		return scoreChange(*base, *head)
	case base.crashed() && len(head.Rewards) > 0 && head.Passed == len(head.Rewards):
		return Fixed
	case base.crashed() && len(head.Rewards) > 0:
		return Better
	}
	return Unknown
}

// scoreChange returns the change of a task with scores on both sides.
func scoreChange(base, head Attempts) Change {
	before, after := base.Mean(), head.Mean()
	switch {
	case base.Passed == len(base.Scores()) && head.Passed == 0:
		return Broken
	case base.Passed == 0 && head.Passed == len(head.Scores()):
		return Fixed
	case math.Abs(after/2-before/2) <= rounding*max(largest(base.Scores()), largest(head.Scores())):
		return Same // the mean of three times 0.1 is not 0.1
	case after < before:
		return Worse
	}
	return Better
}

// rounding bounds the difference of two means of the same rewards, as a share of the largest
// reward.
const rounding = 1e-12

func largest(values []float64) float64 {
	m := 0.0
	for _, v := range values {
		m = max(m, math.Abs(v))
	}
	return m
}

// groups sums up each run of tasks for which of returns the same names.
func groups(tasks []TaskDiff, of func(TaskDiff) GroupDiff) []GroupDiff {
	var out []GroupDiff
	for i := 0; i < len(tasks); {
		g, j := of(tasks[i]), i
		for ; j < len(tasks); j++ {
			if next := of(tasks[j]); next.Agent != g.Agent || next.Dataset != g.Dataset {
				break
			}
		}
		out = append(out, group(g.Agent, g.Dataset, tasks[i:j]))
		i = j
	}
	return out
}

// group sums up the comparable tasks.
func group(agent, dataset string, tasks []TaskDiff) GroupDiff {
	g := GroupDiff{Agent: agent, Dataset: dataset}
	var base, head []*Attempts
	for _, t := range tasks {
		if t.Comparable() {
			base, head = append(base, t.Base), append(head, t.Head)
		}
	}
	g.Tasks, g.Base, g.Head = len(base), LevelOf(base), LevelOf(head)
	g.Base.Cost, g.Head.Cost = meanCosts(base, head)
	g.Base.CostAtLeast, g.Head.CostAtLeast = g.Base.Cost.AtLeast(), g.Head.Cost.AtLeast()
	g.Base.DurationSec, g.Head.DurationSec = meanDurations(base, head)
	g.Usage, g.Scores = usageDiff(base, head), scoreDiffs(base, head)
	return g
}

// LevelOf returns the level of tasks that have scores. Each task counts once.
func LevelOf(tasks []*Attempts) Level {
	var l Level
	passes, rewards := make([]float64, len(tasks)), make([]float64, len(tasks))
	for i, t := range tasks {
		passes[i], rewards[i] = t.PassRate(), t.Mean()
	}
	l.Cost, _ = meanCosts(tasks, tasks)
	l.DurationSec, _ = meanDurations(tasks, tasks)
	l.PassRate, l.MeanReward, l.CostAtLeast = Mean(passes), Mean(rewards), l.Cost.AtLeast()
	return l
}

// Mean returns the mean of finite values, which is finite even if their sum is not; 0 if there are
// none.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		sum = 0
		for _, v := range values {
			sum += v / float64(len(values))
		}
		return finite(sum)
	}
	return ratio(sum, len(values))
}

// finite returns f, or the nearest float that JSON can represent.
func finite(f float64) float64 {
	return max(-math.MaxFloat64, min(math.MaxFloat64, f))
}
