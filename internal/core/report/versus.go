package report

import (
	"fmt"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// MaxPairs bounds how many pairs of agents a report shows.
const MaxPairs = 30

// ComparedPair shows how an agent A does against an agent B. All texts are safe to print on a line.
type ComparedPair struct {
	A, B string
	Rows [][]string // as gate.Contrast.Cells
	Says string     // what the rows are about
}

// ComparedPairs returns the pairs of agents that the job compares. Of more than most, the last one
// that is returned says how many are left out.
func (in Input) ComparedPairs(most int) []ComparedPair {
	var pairs []ComparedPair
	for _, v := range in.Versus[:min(len(in.Versus), most)] {
		p := ComparedPair{A: shortName(v.A), B: shortName(v.B), Says: v.Sentence(in.Confidence())}
		for _, c := range v.Contrasts {
			p.Rows = append(p.Rows, c.Cells())
		}
		pairs = append(pairs, p)
	}
	if more := len(in.Versus) - len(pairs); more > 0 && len(pairs) > 0 {
		pairs[len(pairs)-1].Says += " The JSON report has " + Plural(more, "more pair") + "."
	}
	return pairs
}

// shortName returns a name from outside, bounded.
func shortName(s string) string { return untrusted.Cut(untrusted.Line(s), 150) }

// Lines returns the rows as sentences.
func (p ComparedPair) Lines() []string {
	var lines []string
	for _, r := range p.Rows {
		name, a, b, difference, interval, chance, outcome := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
		if difference == gate.UnknownCell {
			lines = append(lines, name+": "+outcome)
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s against %s, %s, interval %s, chance %s: %s", name, a, b, difference, interval, chance, outcome))
	}
	return lines
}
