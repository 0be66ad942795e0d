package config

import (
	"path"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// gate checks the globs, days and groups of the key gate.
func (c *checker) gate() {
	policy := c.out.Job.Gate
	groups := fields.Path{"gate", "groups"}
	first := map[[2]string]int{}
	for i, g := range policy.Groups {
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
	for i, q := range policy.Quarantine {
		at := fields.Path{"gate", "quarantine"}.Index(i)
		c.glob(at.Child("task"), q.Task)
		c.glob(at.Child("dataset"), q.Dataset)
		if _, err := time.Parse(time.DateOnly, q.Until); err != nil {
			c.Problem(at.Child("until"), "write the last day like 2026-12-31", "%s: %q is not a date", at.Child("until"), fields.Shorten(q.Until))
		}
	}
}

// gateConfirm warns of a gate.confirm that can never have an effect.
func (c *checker) gateConfirm() {
	at := fields.Path{"gate", "confirm"}
	if policy := c.out.Job.Gate; policy.Confirm.Attempts > 0 && !policy.LimitsBrokenTasks() && !c.BadBelow(fields.Path{"gate"}) {
		c.Warn(c.Root.Locate(at, false), "set max_broken_tasks, or remove confirm", "gate.confirm has no effect without gate.max_broken_tasks, which says how many tasks may be broken")
	}
}

// gateAgents reports groups that match no agent of the file: their thresholds would never be
// checked.
func (c *checker) gateAgents() {
	names := []string{agent.Oracle, agent.Nop} // which --agent adds
	for _, a := range c.out.Job.Agents {
		names = append(names, a.Name)
	}
	for i, g := range c.out.Job.Gate.Groups {
		c.aboutSomething(fields.Path{"gate", "groups"}.Index(i).Child("agent"), g.Agent, "agent", names)
	}
}

// gateDatasets checks datasets as gateAgents checks agents, including those of quarantines. Call it
// after datasets have their names.
func (c *checker) gateDatasets() {
	var names []string
	for _, d := range c.out.Job.Datasets {
		names = append(names, d.Name)
	}
	if len(c.out.Job.Tasks) > 0 {
		names = append(names, TasksDataset)
	}
	if len(names) == 0 {
		return // already reported
	}
	for i, g := range c.out.Job.Gate.Groups {
		c.aboutSomething(fields.Path{"gate", "groups"}.Index(i).Child("dataset"), g.Dataset, "dataset", names)
	}
	for i, q := range c.out.Job.Gate.Quarantine {
		c.aboutSomething(fields.Path{"gate", "quarantine"}.Index(i).Child("dataset"), q.Dataset, "dataset", names)
	}
}

func (c *checker) aboutSomething(at fields.Path, pattern, what string, names []string) {
	matches := func(name string) bool {
		ok, err := path.Match(pattern, name)
		return ok || err != nil // malformed patterns are reported elsewhere
	}
	if pattern == "" || slices.ContainsFunc(names, matches) {
		return
	}
	hint := ""
	if !c.Full(diag.Error) {
		hint = diag.DidYouMean(pattern, names)
	}
	c.Problem(at, hint, "%s: no %s is called %q", at, what, fields.Shorten(pattern))
}

// glob checks a pattern. An empty pattern matches all.
func (c *checker) glob(at fields.Path, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		c.Problem(at, globHint, "%s: %q is not a valid pattern", at, fields.Shorten(pattern))
	}
}
