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
	Path     string
	Attempts []Attempt // planned ones, by number
	sums     sums
	State    State
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
	return slices.ContainsFunc(c.Attempts, func(a Attempt) bool { return a.Trial.Passed() })
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
	if slices.ContainsFunc(c.Attempts, func(a Attempt) bool { return a.Trial.There() && a.Trial.Unpack().TaskFormat == terminalBench }) {
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
	for _, a := range c.Attempts {
		if !a.Trial.Completed() {
			return nil
		}
		rewards = append(rewards, *a.Trial.Unpack().Reward)
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

func sumsOf(attempts []Attempt) (s sums) {
	for _, a := range attempts {
		t := a.Trial.Unpack()
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
	for _, a := range c.Attempts {
		switch t := a.Trial; {
		case t.Completed() && !t.Passed():
			return t.Unpack()
		case t.Failed() && !failed.There():
			failed = t
		}
	}
	return failed.Unpack()
}

// Cases returns a job's tasks for each agent, sorted by agent, dataset and task. Trials that the
// plan does not name are ignored, as is a second result with the same key.
func Cases(in Input) []Case {
	type name struct{ agent, dataset, task string }
	own := in.Plan.Own()
	trials := result.Find(own, in.Trials)
	paths, quarantined, diffs := map[name]string{}, map[name]*gate.Quarantined{}, map[name]*result.TaskDiff{}
	for _, t := range in.Plan.Tasks {
		paths[name{dataset: t.Dataset, task: t.Task}] = cleanPath(t.Path)
	}
	for i, q := range in.Verdict.Quarantined {
		quarantined[name{dataset: q.Dataset, task: q.Task}] = &in.Verdict.Quarantined[i]
	}
	if in.Diff != nil {
		for i, d := range in.Diff.Tasks {
			diffs[name{d.Agent, d.Dataset, d.Task}] = &in.Diff.Tasks[i]
		}
	}
	confirmations := result.ConfirmedTasks(in.Job)
	planned := map[name]int{}
	for _, key := range own {
		planned[name{key.Agent, key.Dataset, key.Task}]++
	}
	cases := make([]Case, 0, len(planned))
	at := make(map[name]int, len(planned))
	for k, key := range own {
		n := name{key.Agent, key.Dataset, key.Task}
		i, ok := at[n]
		if !ok {
			i = len(cases)
			at[n] = i
			task := name{dataset: key.Dataset, task: key.Task}
			cases = append(cases, Case{
				Agent: key.Agent, Dataset: key.Dataset, Task: key.Task,
				Path: paths[task], Diff: diffs[n], Quarantine: quarantined[task], Confirmation: confirmations[key.Unnumbered()],
				Attempts: make([]Attempt, 0, planned[n]),
			})
		}
		cases[i].Attempts = append(cases[i].Attempts, Attempt{key.Attempt, trials[k]})
	}
	for i := range cases {
		slices.SortFunc(cases[i].Attempts, func(a, b Attempt) int { return cmp.Compare(a.Number, b.Number) })
		cases[i].State, cases[i].sums = state(cases[i].Attempts), sumsOf(cases[i].Attempts)
	}
	slices.SortFunc(cases, compareCases)
	return cases
}

func compareCases(a, b Case) int {
	return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Task, b.Task))
}

func state(attempts []Attempt) State {
	var passed, below, failed, cancelled, unverified int
	for _, a := range attempts {
		switch t := a.Trial; {
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
// did not pass. The most important come first, those in quarantine last. cases is not changed.
func Problems(cases []Case) []Case {
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
	problems := make([]Case, len(found))
	for i, p := range found {
		problems[i] = *p.c
	}
	return problems
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
