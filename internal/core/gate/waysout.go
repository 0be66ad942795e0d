package gate

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// The names of ways out of an inconclusive verdict.
const (
	wayAttempts = "n_attempts"
	wayTasks    = "tasks"
	wayConfirm  = "confirm"
	wayAgainst  = "against"
	WayFail     = "on_inconclusive" // makes the verdict count, and decides nothing
)

// WayOut is something that would decide an inconclusive verdict, or that makes it count.
type WayOut struct {
	Name string `json:"name"` // n_attempts, tasks, confirm, against or on_inconclusive
	// Text is a sentence with the numbers, none of it from outside.
	Text string `json:"text"`
	// Trials is how many more trials it takes, and CostUSD what these cost if they cost what those
	// of this job do: estimates. nil: the costs of this job are not known, or there is no trial.
	Trials  int      `json:"trials,omitempty"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

// usualConfirm is the number of further attempts that is proposed, as in init's job file.
const usualConfirm = 4

// waysOut returns the ways out of an inconclusive verdict, at most one of each name. advises: the
// policy only advises today.
func (k *checker) waysOut(head result.Job, advises bool) []WayOut {
	size := sizeOf(head)
	var out []WayOut
	add := func(name string, trials int, format string, args ...any) {
		w := WayOut{Name: name, Trials: trials}
		says := fmt.Sprintf(format, args...)
		if trials > 0 {
			estimate := "cost unknown"
			if size.known {
				w.CostUSD = new(finite(float64(trials) * size.trialCost))
				estimate = "about " + amount(*w.CostUSD)
			}
			says = strings.Replace(says, "TRIALS", plural.Count(trials, "more trial")+", "+estimate, 1)
		}
		w.Text = says
		out = append(out, w)
	}
	tested, broken := k.openDrop()
	if tested != nil {
		k.growth(*tested, size, add)
	}
	early := k.policy.Stop == StopEarly // further attempts at broken tasks are part of it
	if broken != nil && broken.confirm == 0 && len(broken.names) > 0 && !early {
		again := min(len(broken.names), defaultMaxTasks(false))
		add(wayConfirm, again*usualConfirm, "gate.confirm: {attempts: %d} tries %s that %s broken again, and one that passes does not count: at most TRIALS", usualConfirm, plural.Count(again, "task"), looks(again))
	}
	if head.Beside == nil {
		k.addAgainst(broken, size, add)
	}
	if k.policy.OnInconclusive != Fail {
		text := "on_inconclusive: fail makes every such check red, also those that chance alone explains"
		if advises {
			text += ", but not while the gate only advises"
		}
		add(WayFail, 0, "%s", text)
	}
	return out
}

// looks returns the verb of n tasks that look broken.
func looks(n int) string {
	if n == 1 {
		return "looks"
	}
	return "look"
}

// openDrop returns the inconclusive drop whose decision takes most attempts, and the inconclusive
// broken tasks; nil if there are none.
func (k *checker) openDrop() (most *drop, broken *brokenTasks) {
	for _, t := range k.tests {
		switch t := t.(type) {
		case drop:
			if c := k.checks[t.check]; c.Outcome == Inconclusive && (most == nil || c.Test.NeededAttempts > k.checks[most.check].Test.NeededAttempts) {
				most = &t
			}
		case *brokenTasks:
			if k.checks[t.check].Outcome == Inconclusive && (broken == nil || t.count() > broken.count()) {
				broken = t
			}
		}
	}
	return most, broken
}

// growth adds the number of attempts, or of tasks, that would show a drop of the size that the
// check asks for.
func (k *checker) growth(d drop, size jobSize, add func(string, int, string, ...any)) {
	c := k.checks[d.check]
	alpha := (1 - c.Test.IntervalConfidence) / 2
	asked := 2 * d.limit
	if asked == 0 {
		asked = d.size()
	}
	if n := c.Test.NeededAttempts; n > size.attempts {
		add(wayAttempts, (n-size.attempts)*size.tasks, "n_attempts: %d, here and in the baseline, shows a drop of %s that many tasks share: in each of the two, TRIALS", n, d.unsigned(asked))
		return
	}
	if c.Test.Detectable != nil && *c.Test.Detectable <= asked*(1+rounding) {
		return
	}
	if n := paired.NeededTasks(d.Sample, asked/d.Scale, alpha); n > len(d.tasks) {
		more := (n - len(d.tasks)) * max(1, size.trials/max(1, len(d.tasks)))
		add(wayTasks, more, "about %d tasks like these %d show a drop of %s: in each of the two jobs, TRIALS", n, len(d.tasks), d.unsigned(asked))
	}
}

// addAgainst adds a run of the baseline with the job: of all tasks, or of those alone that look
// broken or fixed if only their number is in doubt.
func (k *checker) addAgainst(broken *brokenTasks, size jobSize, add func(string, int, string, ...any)) {
	others := false
	for _, c := range k.checks {
		others = others || c.Outcome == Inconclusive && c.Test != nil && c.Name != "max_broken_tasks"
	}
	switch {
	case others || broken != nil && k.policy.Stop == StopEarly:
		add(wayAgainst, size.trials, "--against COMMIT runs the baseline now, with the job, so that neither chance in the old results nor the day decides: TRIALS")
	case broken != nil:
		attempts := broken.confirm
		if attempts == 0 {
			attempts = usualConfirm
		}
		tasks := min(broken.looked+broken.fixed, defaultMaxTasks(true))
		add(wayAgainst, 2*attempts*tasks, "--confirm-against COMMIT --confirm %d tries %s that %s broken or fixed again, in both jobs, today: at most TRIALS; --against COMMIT runs all tasks of both",
			attempts, plural.Count(tasks, "task"), looks(tasks))
	}
}

// jobSize is how large a job is, and what a trial of it costs in dollars, if most costs are known.
type jobSize struct {
	trials, tasks int // planned trials, and pairs of an agent and a task
	attempts      int // of each, rounded up
	trialCost     float64
	known         bool
}

func sizeOf(head result.Job) jobSize {
	tasks := map[result.Key]bool{}
	s := jobSize{trials: head.Results.Len() + len(head.Skipped)}
	var costs []float64
	of := func(key result.Key) {
		key.Attempt = 0
		tasks[key] = true
	}
	for _, o := range head.Results.All() {
		of(o.Key)
		if cost, ok := o.KnownCost().Reported(); ok && cost >= 0 {
			costs = append(costs, cost)
		}
	}
	for _, key := range head.Skipped {
		of(key)
	}
	s.tasks = len(tasks)
	s.attempts = (s.trials + s.tasks - 1) / max(1, s.tasks)
	if 2*len(costs) > head.Results.Len() {
		s.trialCost, s.known = result.Mean(costs), true
	}
	return s
}
