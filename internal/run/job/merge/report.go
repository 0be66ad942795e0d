package merge

import (
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// maxSentences limits the incomplete shards that are named.
const maxSentences = 20

// report adds the missing parts of each shard, and the files that were left out, to the result.
func (m *merge) report(out *outcomes) {
	parts := map[int]*shardDir{}
	for _, p := range m.parts {
		parts[p.index] = p
	}
	var sentences []string
	for index := 1; index <= m.total; index++ {
		if sentence := m.missing(index, parts[index], out); sentence != "" {
			sentences = append(sentences, untrusted.Line(sentence))
		}
	}
	if more := len(sentences) - maxSentences; more > 0 {
		sentences = append(sentences[:maxSentences], fmt.Sprintf("%d more shards are missing or incomplete", more))
	}
	if len(sentences) > 0 {
		sentences = append(sentences, m.damaged...) // they may be the reason
	}
	m.out.Incomplete = slices.Concat(sentences, m.out.Incomplete)
	if more := m.notes - maxNotes; more > 0 {
		m.out.Notes = append(m.out.Notes, "and "+plural.Count(more, "more note"))
	}
	m.out.Notes = append(m.out.Notes, m.skipped.sentences()...)
}

// missing returns a sentence about the missing parts of one shard, and "" if it is complete. p is
// nil if the shard was not found.
func (m *merge) missing(index int, p *shardDir, out *outcomes) string {
	var without []string
	cut := 0
	trials := m.own(index)
	planned := len(trials)
	for _, i := range trials {
		if !out.has(int(i)) {
			without = append(without, m.plan.Trials.At(int(i)).String())
		} else if out.trials[i].Cancelled() {
			cut++
		}
	}
	shard := "shard " + result.Shard{Index: index, Total: m.total}.String()
	switch {
	case p == nil && planned == 0:
		m.note("%s is missing, but has no trials", shard)
		return ""
	case p == nil:
		return fmt.Sprintf("%s is missing, and with it %s: %s", shard, plural.Count(planned, "trial"), untrusted.Names(without))
	case p.state == cancelled:
		shard += " was cancelled"
	case p.state == unfinished:
		shard += fmt.Sprintf(" did not finish (%s has no whole %s; if its run did end, download it again)", p.label, result.ResultFile)
	case len(without) > 0 && p.behind(m.plan):
		shard += fmt.Sprintf(" has made only %d of %s (gate.stop)", p.upto(), plural.Count(p.plan.Rounds.Attempts, "round"))
	case len(without) > 0:
		shard += fmt.Sprintf(" finished, but results of it are gone or cannot be read (download %s again)", p.label)
	default:
		return ""
	}
	shard += fmt.Sprintf(": of its %s, %d %s no result", plural.Count(planned, "trial"), len(without), plural.Have(len(without)))
	if cut > 0 {
		shard += fmt.Sprintf(" and %d %s cut short", cut, map[bool]string{true: "was", false: "were"}[cut == 1])
	}
	if len(without) > 0 {
		shard += ": " + untrusted.Names(without)
	}
	return shard
}

// behind reports whether the shard was not told to make the last round of the job.
func (p *shardDir) behind(plan result.Plan) bool {
	if plan.Rounds == nil { // all attempts are needed
		return p.upto() > 0 && p.upto() < p.plan.Rounds.Attempts
	}
	return p.upto() > 0 && p.upto() < plan.Rounds.Upto
}

// upto returns the number of rounds that the shard was told to make; 0: it has none, or makes them
// by itself.
func (p *shardDir) upto() int {
	if p.plan.Rounds == nil {
		return 0
	}
	return p.plan.Rounds.Upto
}

// counts returns the number of a shard's planned trials, and the number of their results.
func (m *merge) counts(trials []int32, out *outcomes) (planned, have int) {
	for _, i := range trials {
		if out.has(int(i)) {
			have++
		}
	}
	return len(trials), have
}

// own returns a shard's trials, as indexes in the plan.
func (m *merge) own(index int) []int32 {
	if m.owned == nil {
		m.owned = make([][]int32, m.total+1)
		if m.plan.OnlyConfirms() {
			return nil
		}
		for i, of := range m.shardOf[:m.plan.Trials.Len()] {
			if !m.plan.Rounds.Leaves(m.plan.Trials.At(i)) {
				m.owned[of] = append(m.owned[of], int32(i))
			}
		}
	}
	return m.owned[index]
}

// omissions counts files that were left out.
type omissions struct {
	n     int
	first []string
}

func (o *omissions) add(name string) {
	if o.n++; len(o.first) < 3 {
		o.first = append(o.first, untrusted.Line(name[:min(len(name), 200)]))
	}
}

func (o *omissions) sentences() []string {
	if o.n == 0 {
		return nil
	}
	names := untrusted.Names(o.first)
	if more := o.n - len(o.first); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return []string{fmt.Sprintf("%s left out (links, special files, names that no run writes): %s", plural.Count(o.n, "file"), names)}
}
