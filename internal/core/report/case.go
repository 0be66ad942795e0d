package report

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// State classifies the results of one agent's attempts at one task.
type State string

// The states. Cancelled attempts count only if no other one has a result, and skipped ones only if
// all were skipped.
const (
	Passed     State = "passed"     // every attempt has reward 1
	Flaky      State = "flaky"      // some attempts have reward 1, others less, or an error
	Failed     State = "failed"     // there are rewards, and none is 1
	Errored    State = "errored"    // errors kept every attempt from a reward
	Skipped    State = "skipped"    // no attempt has a result
	Unverified State = "unverified" // the attempts ended well and were not verified (verifier.disable)
)

// States lists all states, the most important first.
var States = []State{Errored, Failed, Flaky, Skipped, Unverified, Passed}

// Case holds the attempts of one agent at one task.
type Case struct {
	Agent, Dataset, Task string
	// Path is the task's directory in its repository, with forward slashes and never outside of it;
	// "" if unknown.
	Path string
	// tried has the planned attempts by number: from 1 on without a gap, or as in numbers.
	tried   []result.Packed
	numbers *[]int
	sums    sums
	State   State
	// Diff compares the task with the baseline; nil without one.
	Diff *result.TaskDiff
	// Confirmation sums up the confirmation attempts, made because the task looked broken or fixed
	// (gate.confirm), with a baseline or without; nil if there were none. They are not among
	// Attempts, and State, Reward, Cost and Seconds are without them.
	Confirmation *result.Attempts
	// Quarantine is the quarantine that covers the task, with its reason; nil if the task is gated.
	Quarantine *gate.Quarantined
}

// Attempt is one planned trial. Trial is zero if it has no result.
type Attempt struct {
	Number int // Key.Attempt
	Trial  result.Packed
}

// Attempts returns the planned attempts, by number.
func (c Case) Attempts() []Attempt {
	all := make([]Attempt, len(c.tried))
	for i, t := range c.tried {
		if all[i] = (Attempt{i + 1, t}); c.numbers != nil {
			all[i].Number = (*c.numbers)[i]
		}
	}
	return all
}

// Planned returns the number of the planned attempts.
func (c Case) Planned() int { return len(c.tried) }

// Key returns the key of one of the attempts.
func (c Case) Key(a Attempt) result.Key {
	return result.Key{Agent: c.Agent, Dataset: c.Dataset, Task: c.Task, Attempt: a.Number}
}

// Change returns how the task changed since the baseline; "" without one.
func (c Case) Change() result.Change {
	if c.Diff == nil {
		return ""
	}
	return c.Diff.Change
}

// NotBroken reports whether the task looked broken and was shown not to be; see result.NotBroken.
func (c Case) NotBroken() bool {
	return !c.passedOnce() && result.NotBroken(c.Confirmation, c.baseConfirmation())
}

// ConfirmedText describes the results of the confirmation attempts; "" without any.
func (c Case) ConfirmedText() string {
	return result.ConfirmedText(c.Confirmation, c.baseConfirmation(), c.passedOnce())
}

// passedOnce reports whether a planned attempt passed, so that the task cannot have looked broken.
func (c Case) passedOnce() bool {
	return slices.ContainsFunc(c.tried, result.Packed.Passed)
}

func (c Case) baseConfirmation() *result.Attempts {
	if c.Diff == nil {
		return nil
	}
	return c.Diff.BaseConfirmation
}

// fileNames are the files of a task that a reader may want to open.
type fileNames struct{ config, instruction, tests, dockerfile string }

// terminalBench is the format of tasks with a task.yaml, in results.
const terminalBench = "terminal-bench"

// File returns the file of the task that a reader should open first, as a path in the task's
// repository: the one that an attempt which did not pass points to, or its configuration. It
// returns "" if the task's place is unknown.
func (c Case) File() string {
	if c.Path == "" {
		return ""
	}
	names := fileNames{"task.toml", "instruction.md", "tests/test.sh", "environment/Dockerfile"}
	if slices.ContainsFunc(c.tried, func(t result.Packed) bool { return t.There() && t.Unpack().TaskFormat == terminalBench }) {
		names = fileNames{"task.yaml", "task.yaml", "run-tests.sh", "Dockerfile"}
	}
	file := names.config
	if t := c.FirstFailure(); t != nil {
		switch {
		case t.Error == nil:
			file = names.instruction
		case strings.HasPrefix(string(t.Error.Type), "agent_"):
			file = names.instruction
		case strings.HasPrefix(string(t.Error.Type), "verifier_"):
			file = names.tests
		case t.Error.Type == result.EnvironmentBuildFailed, t.Error.Type == result.EnvironmentBuildTimeout:
			file = names.dockerfile
		}
	}
	return path.Join(c.Path, file)
}

// Expected reports whether the agent is nop and did not pass, as it should: a sound task gives it
// less than 1.
func (c Case) Expected() bool { return c.Agent == agent.Nop && c.State == Failed }

// Reward returns the mean reward of the attempts that have one. ok is false if none has.
func (c Case) Reward() (mean float64, ok bool) {
	return c.sums.reward / float64(max(c.sums.rewards, 1)), c.sums.rewards > 0
}

// Advantages returns the advantages of the attempts, in their order; nil for fewer than two, or if
// one of them has no reward.
func (c Case) Advantages() []result.Advantage {
	var rewards []float64
	for _, t := range c.tried {
		if !t.Completed() {
			return nil
		}
		rewards = append(rewards, *t.Unpack().Reward)
	}
	if len(rewards) < 2 {
		return nil
	}
	return result.Advantages(rewards)
}

// Cost returns the cost of all attempts.
func (c Case) Cost() (cost result.USD) { return c.sums.cost }

// Seconds returns the duration of all attempts together.
func (c Case) Seconds() (sec float64) { return c.sums.seconds }

// sums are those of the attempts of a case.
type sums struct {
	reward  float64
	rewards int // attempts with one
	cost    result.USD
	seconds float64
}

func sumsOf(tried []result.Packed) (s sums) {
	for _, packed := range tried {
		t := packed.Unpack()
		if t == nil {
			continue
		}
		if t.Reward != nil {
			s.reward, s.rewards = s.reward+*t.Reward, s.rewards+1
		}
		s.cost = s.cost.Plus(t.Cost)
		s.seconds += t.Durations.TotalSec
	}
	return s
}

// FirstFailure returns the attempt that shows why the task did not pass: the first with a reward
// below 1, otherwise the first with an error, or nil if there is none.
func (c Case) FirstFailure() *result.Trial {
	var failed result.Packed
	for _, t := range c.tried {
		switch {
		case t.Completed() && !t.Passed():
			return t.Unpack()
		case t.Failed() && !failed.There():
			failed = t
		}
	}
	return failed.Unpack()
}

// WithCases returns the input with its cases, so that several reporters share them. Nothing else of
// it may be changed afterwards, except what cases do not depend on: notes, files and links.
func (in Input) WithCases() Input {
	in.cases = Cases(in)
	return in
}

// Cases returns a job's tasks for each agent, sorted by agent, dataset and task. Trials that the
// plan does not name are ignored, as is a second result with the same key. The list must not be
// changed.
func Cases(in Input) []Case {
	if in.cases != nil {
		return in.cases
	}
	type name struct{ dataset, task string }
	own := in.Plan.Own()
	trials := own.Find(in.Trials)
	paths, quarantined := map[name]string{}, map[name]*gate.Quarantined{}
	for _, t := range in.Plan.Tasks {
		paths[name{t.Dataset, t.Task}] = cleanPath(t.Path)
	}
	for i, q := range in.Verdict.Quarantined {
		quarantined[name{q.Dataset, q.Task}] = &in.Verdict.Quarantined[i]
	}
	confirmations := result.ConfirmedTasks(in.Job)
	at, of := map[result.Key]int32{}, make([]int32, own.Len())
	for k, key := range own.All() {
		i, ok := at[key.Unnumbered()]
		if !ok {
			i = int32(len(at))
			at[key.Unnumbered()] = i
		}
		of[k] = i
	}
	cases := make([]Case, len(at))
	for k, key := range own.All() {
		c := &cases[of[k]]
		if c.tried == nil {
			task := name{key.Dataset, key.Task}
			c.Agent, c.Dataset, c.Task, c.Path = key.Agent, key.Dataset, key.Task, paths[task]
			c.Quarantine, c.Confirmation = quarantined[task], confirmations[key.Unnumbered()]
		}
		*c = c.with(key.Attempt, trials[k:])
	}
	for i := range cases {
		cases[i].sortAttempts()
		cases[i].State, cases[i].sums = state(cases[i].tried), sumsOf(cases[i].tried)
	}
	slices.SortFunc(cases, compareCases)
	addDiffs(cases, in.Diff)
	return cases
}

// with returns the case with the first of the trials as the attempt with a number. The attempts of
// a case share the memory of the trials while they are next to each other there and their numbers
// have no gap; later ones are in no order before sortAttempts.
func (c Case) with(number int, trials []result.Packed) Case {
	n := len(c.tried)
	switch {
	case n == 0 && number == 1:
		c.tried = trials[:1]
		return c
	case c.numbers == nil && number == n+1 && n < cap(c.tried) && &c.tried[:n+1][n] == &trials[0]:
		c.tried = c.tried[:n+1]
		return c
	case c.numbers == nil:
		numbers := make([]int, n)
		for i := range numbers {
			numbers[i] = i + 1
		}
		c.numbers, c.tried = &numbers, slices.Clip(c.tried)
	}
	*c.numbers, c.tried = append(*c.numbers, number), append(c.tried, trials[0])
	return c
}

// sortAttempts sorts the attempts of a case that does not share the memory of the trials.
func (c Case) sortAttempts() {
	if c.numbers == nil {
		return
	}
	all := c.Attempts()
	slices.SortStableFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Number, b.Number) })
	for i, a := range all {
		(*c.numbers)[i], c.tried[i] = a.Number, a.Trial
	}
}

// addDiffs adds to sorted cases how they differ from the baseline.
func addDiffs(cases []Case, diff *result.Diff) {
	if diff == nil {
		return
	}
	next := 0
	for i := range diff.Tasks { // in the same order
		d := &diff.Tasks[i]
		for next < len(cases) && compareCases(cases[next], Case{Agent: d.Agent, Dataset: d.Dataset, Task: d.Task}) < 0 {
			next++
		}
		if c := next; c < len(cases) && cases[c].Agent == d.Agent && cases[c].Dataset == d.Dataset && cases[c].Task == d.Task {
			cases[c].Diff = d
		}
	}
}

func compareCases(a, b Case) int {
	return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Task, b.Task))
}

func state(tried []result.Packed) State {
	var passed, below, failed, cancelled, unverified int
	for _, t := range tried {
		switch {
		case !t.There():
		case t.Passed():
			passed++
		case t.Completed():
			below++
		case t.Failed() && t.Cancelled():
			cancelled++
		case t.Failed():
			failed++
		default:
			unverified++
		}
	}
	switch {
	case passed > 0 && below+failed > 0:
		return Flaky
	case below > 0:
		return Failed
	case failed > 0:
		return Errored
	case passed > 0:
		return Passed
	case cancelled > 0:
		return Errored
	case unverified > 0:
		return Unverified
	}
	return Skipped
}

// cleanPath returns a path of a plan, or "" if it leads out of the repository or has forbidden
// characters: the plan may come from an artifact.
func cleanPath(p string) string {
	if p == "" || p != untrusted.Line(p) || p != path.Clean(p) || path.IsAbs(p) || p == "." || p == ".." || strings.HasPrefix(p, "../") {
		return ""
	}
	return p
}

// Problems returns the cases that a reader should see first: those that got worse and those that
// did not pass. The most important come first, those in quarantine last. The pointers lead into
// cases, which Problems does not change.
func Problems(cases []Case) []*Case {
	type problem struct {
		severity int
		c        *Case
	}
	var found []problem
	for i := range cases {
		if s := cases[i].severity(); s < fine {
			found = append(found, problem{s, &cases[i]})
		}
	}
	slices.SortStableFunc(found, func(a, b problem) int {
		if a.severity != b.severity {
			return cmp.Compare(a.severity, b.severity)
		}
		return compareCases(*a.c, *b.c)
	})
	problems := make([]*Case, len(found))
	for i, p := range found {
		problems[i] = p.c
	}
	return problems
}

// Ordered returns all cases, the problems first, and the others in their own order.
func Ordered(cases []Case) []*Case {
	out := slices.Grow(Problems(cases), len(cases))
	first := make(map[*Case]bool, len(out))
	for _, c := range out {
		first[c] = true
	}
	for i := range cases {
		if c := &cases[i]; !first[c] {
			out = append(out, c)
		}
	}
	return out
}

// Severities, the most severe first. A task in quarantine comes after all others.
const (
	fine        = 20
	quarantined = 10
)

func (c Case) severity() int {
	order := fine
	switch {
	case c.Change() == result.Broken:
		order = 0
	case c.Change() == result.Errored:
		order = 1
	case c.State == Errored && !c.NotBroken():
		order = 2
	case c.Change() == result.Worse:
		order = 3
	case (c.State == Failed || c.State == Errored) && !c.Expected():
		order = 4
	case c.State == Flaky:
		order = 5
	}
	if order < fine && c.Quarantine != nil {
		order += quarantined
	}
	return order
}
