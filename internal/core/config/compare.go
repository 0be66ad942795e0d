package config

import (
	"slices"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/fields"
)

// mostCompared bounds how many agents are compared with each other: the number of pairs grows with
// its square.
const mostCompared = 8

// compared checks that the lists of compare name agents of the job.
func compared(c *checker) {
	for i, names := range c.out.Job.Compare {
		at := fields.Path{"compare"}.Index(i)
		if len(names) < 2 {
			c.Problem(at, "write it like [[with-skill, without-skill]]", "%q: a comparison needs two agents", at)
		}
		if len(names) > mostCompared {
			c.Problem(at, "write several lists", "%q: at most %d agents are compared with each other", at, mostCompared)
		}
		for j, name := range names {
			switch {
			case !slices.ContainsFunc(c.out.Job.Agents, func(a agent.Agent) bool { return a.Name == name }):
				c.Problem(at.Index(j), "name agents of this job", "%q: there is no agent %q", at.Index(j), fields.Shorten(name))
			case slices.Contains(names[:j], name):
				c.Problem(at.Index(j), "leave one out", "%q: agent %q is named twice", at.Index(j), fields.Shorten(name))
			}
		}
	}
}
