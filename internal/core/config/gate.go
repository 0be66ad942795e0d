package config

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// gateCheck checks the key gate.
type gateCheck struct {
	*decoder
	policy gate.Policy
}

// check checks globs, days and groups, without what they match.
func (c gateCheck) check() {
	groups := fields.Path{"gate", "groups"}
	first := map[[2]string]int{}
	for i, g := range c.policy.Groups {
		at := groups.Index(i)
		bad := c.BadBelow(at) // an unreadable threshold is missing in g
		c.glob(at.Child("agent"), g.Agent)
		c.glob(at.Child("dataset"), g.Dataset)
		about := [2]string{g.Agent, g.Dataset}
		same, seen := first[about]
		if !seen {
			first[about] = i
		}
		switch {
		case g.Agent == "" && g.Dataset == "":
			c.Problem(at, "name one, or write its thresholds directly below gate", "%s has neither agent nor dataset", at)
		case g.None() && !bad:
			c.Problem(at, "add one, such as min_pass_rate, or remove the group", "%s has no threshold", at)
		case seen:
			c.Problem(at, "merge them", "%s selects the same trials as %s", at, groups.Index(same))
		}
	}
	for i, q := range c.policy.Quarantine {
		at := fields.Path{"gate", "quarantine"}.Index(i)
		c.glob(at.Child("task"), q.Task)
		c.glob(at.Child("dataset"), q.Dataset)
		if _, err := time.Parse(time.DateOnly, q.Until); err != nil {
			c.Problem(at.Child("until"), lastDay, "%s: %q is not a date", at.Child("until"), fields.Shorten(q.Until))
		}
	}
	c.mode()
	c.stop()
}

// stop refuses what cannot be combined with a job that ends early.
func (c gateCheck) stop() {
	at := fields.Path{"gate", "stop"}
	if c.policy.Stop != gate.StopEarly || c.BadBelow(fields.Path{"gate"}) {
		return
	}
	if c.policy.Confirm.Attempts > 0 {
		c.Problem(at, "remove gate.confirm, or gate.stop", "gate.stop: early makes further attempts at the tasks that may break, and gate.confirm would make others")
	}
	if c.policy.Noise == gate.NoiseIgnore {
		c.Problem(at, "remove gate.noise: ignore, or gate.stop", "gate.stop: early ends a job when the tests against chance are decided, and gate.noise: ignore makes none")
	}
	if c.policy.Baseline.Pool > 1 {
		c.Problem(at, "remove gate.baseline, or gate.stop", "gate.stop: early compares rounds of attempts with those of one run, and gate.baseline.pool asks for several")
	}
}

// lastDay is the advice about a day that is malformed.
const lastDay = "write the last day like 2026-12-31"

// mode checks the day until which a gate only advises.
func (c gateCheck) mode() {
	at := fields.Path{"gate", "until"}
	if c.policy.Until == "" || c.BadBelow(fields.Path{"gate", "mode"}) {
		return
	}
	if _, err := time.Parse(time.DateOnly, c.policy.Until); err != nil {
		c.Problem(at, lastDay, "%s: %q is not a date", at, fields.Shorten(c.policy.Until))
	}
	if c.policy.Mode != gate.ModeAdvise {
		c.Problem(at, "set gate.mode: advise, or remove gate.until", "%s is the last day of mode: advise, and the gate's mode is %s", at, cmp.Or(c.policy.Mode, gate.ModeEnforce))
	}
}

// confirm warns of a gate.confirm that can never have an effect.
func (c gateCheck) confirm() {
	at := fields.Path{"gate", "confirm"}
	if c.policy.Confirm.Attempts > 0 && !c.policy.LimitsBrokenTasks() && !c.BadBelow(fields.Path{"gate"}) {
		c.Warn(c.Root.Locate(at, false), "set max_broken_tasks, or remove confirm", "gate.confirm has no effect without gate.max_broken_tasks, which says how many tasks may be broken")
	}
}

// rounds warns of a gate.stop that can never have an effect.
func (c gateCheck) rounds(attempts int) {
	if c.policy.Stop == gate.StopEarly && attempts == 1 {
		c.Warn(c.Root.Locate(fields.Path{"gate", "stop"}, false), "set n_attempts to 2 or more, or remove gate.stop", "gate.stop: early has no effect with one attempt at each task")
	}
}

// agents reports groups that match no agent of the file: their thresholds would never be checked.
func (c gateCheck) agents(all []agent.Agent) {
	names := []string{agent.Oracle, agent.Nop} // which --agent adds
	for _, a := range all {
		names = append(names, a.Name)
	}
	for i, g := range c.policy.Groups {
		c.aboutSomething(fields.Path{"gate", "groups"}.Index(i).Child("agent"), g.Agent, "agent", names)
	}
}

// datasets checks datasets, including those of quarantines, as agents checks agents.
func (c gateCheck) datasets(names []string) {
	if len(names) == 0 {
		return // already reported
	}
	for i, g := range c.policy.Groups {
		c.aboutSomething(fields.Path{"gate", "groups"}.Index(i).Child("dataset"), g.Dataset, "dataset", names)
	}
	for i, q := range c.policy.Quarantine {
		c.aboutSomething(fields.Path{"gate", "quarantine"}.Index(i).Child("dataset"), q.Dataset, "dataset", names)
	}
}

func (d *decoder) aboutSomething(at fields.Path, pattern, what string, names []string) {
	matches := func(name string) bool {
		ok, err := path.Match(pattern, name)
		return ok || err != nil // malformed patterns are reported elsewhere
	}
	if pattern == "" || slices.ContainsFunc(names, matches) {
		return
	}
	hint := ""
	if !d.Full(diag.Error) {
		hint = diag.DidYouMean(pattern, names)
	}
	d.Problem(at, hint, "%s: no %s is called %q", at, what, fields.Shorten(pattern))
}
