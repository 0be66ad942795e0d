package sections

import (
	"cmp"
	"strconv"

	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// pastRuns is how many runs of the history are summed up, and pastAgents of how many agents.
const (
	pastRuns   = 20
	pastAgents = 5
)

// Past says how the agents of the job did in the last runs of the history, in one line for each;
// with blocks, a block for each run shows its pass rate. It is "" without a history.
func (p *Page) Past(blocks bool) string {
	if len(p.in.History) == 0 {
		return ""
	}
	branch := untrusted.Markdown(untrusted.Cut(untrusted.Line(cmp.Or(history.BranchOf(p.in.History), "the history")), 100))
	now := history.PointOf(p.in.Job, "", "")
	var names []string
	for _, name := range history.Names(p.in.History) {
		if _, ok := p.in.Job.Agents[name]; ok {
			names = append(names, name)
		}
	}
	text := ""
	for i, agent := range names {
		if i == pastAgents {
			return text + "and " + strconv.Itoa(len(names)-i) + " more agents\n"
		}
		line := history.Line(p.in.History, branch, agent, pastRuns)
		if line == "" {
			continue
		}
		if history.IsPart(p.in.History, now, agent) {
			line += ", of all tasks, not of the part that ran now"
		}
		if len(names) > 1 {
			line = name(agent) + ": " + line
		}
		if blocks {
			line += " " + history.Blocks(p.in.History, agent, pastRuns)
		}
		if text != "" {
			text += "<br>"
		}
		text += line + "\n"
	}
	return text
}
