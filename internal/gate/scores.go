package gate

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
)

// Checks of scores are named like their keys.
const (
	scorePrefix     = "scores."
	minSuffix       = ".min"
	scoreDropSuffix = ".max_drop"
)

func isScoreDrop(name string) bool {
	return strings.HasPrefix(name, scorePrefix) && strings.HasSuffix(name, scoreDropSuffix)
}

// minScore checks the limit on the mean of a score.
func (k *checker) minScore(s scope, score string) {
	limit, name := s.Scores[score].Min, scorePrefix+score+minSuffix
	if limit == nil || k.nothingToCheck(s, name, *limit) {
		return
	}
	var values []float64
	without := 0
	for _, o := range s.gated {
		switch given, judged := o.Scores[score]; {
		case !judged:
		case given.Score == nil:
			without++
		default:
			values = append(values, *given.Score)
		}
	}
	left := ""
	if without > 0 {
		left = fmt.Sprintf(" (without %s that the judge gave none)", plural.Count(without, "trial"))
	}
	if len(values) == 0 {
		k.add(s, Check{Name: name, Limit: *limit, Outcome: Fail, Message: fmt.Sprintf("no trial has the score %s, so there is nothing to check", score), Hint: "look at the errors of the trials, and at the judge's when"})
		return
	}
	mean := result.Mean(values)
	k.add(s, Check{
		Name: name, Value: mean, Limit: *limit, Outcome: failIf(below(mean, *limit)),
		Message: fmt.Sprintf("mean score %s %s over %s%s, at least %s is asked for", score, number(mean), plural.Count(len(values), "trial"), left, number(*limit)),
	})
}

// scoreCounts says what of the compared tasks has no score.
type scoreCounts struct {
	without [2]int // trials, in the baseline and in the job
	tasks   int    // left out, because no trial of theirs has the score on one side
	changed int    // tasks whose judge has changed
}

// String returns the counts in parentheses, to append to a sentence; "" if every trial has the score.
func (c scoreCounts) String() string {
	var parts []string
	switch {
	case c.without == [2]int{}:
	case c.without[0] == 0:
		parts = append(parts, plural.Count(c.without[1], "trial")+" without the score left out")
	default:
		parts = append(parts, fmt.Sprintf("%s (and %d of the baseline) without the score left out", plural.Count(c.without[1], "trial"), c.without[0]))
	}
	if c.tasks > 0 {
		parts = append(parts, plural.Count(c.tasks, "task")+" without it on one side")
	}
	if c.changed > 0 {
		parts = append(parts, plural.Count(c.changed, "task")+" whose judge changed left out")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (with " + strings.Join(parts, ", and ") + ")"
}

// scoreDrop checks the limit on the drop of a score, or adds the comparison that will.
func (k *checker) scoreDrop(s scope, score string) {
	limit, name := s.Scores[score].MaxDrop, scorePrefix+score+scoreDropSuffix
	if limit == nil || k.nothingToCheck(s, name, *limit) {
		return
	}
	if k.diff == nil {
		k.lack(s, name, *limit, noBaseline)
		return
	}
	all := s.comparable()
	if len(all) == 0 {
		k.lack(s, name, *limit, noComparison)
		return
	}
	var tasks []result.TaskDiff
	var left scoreCounts
	for _, t := range all {
		base, head, same := t.SameJudge(score)
		switch {
		case !same:
			left.changed++
		case len(base) == 0 || len(head) == 0:
			left.tasks++
		default:
			tasks = append(tasks, t)
			left.without[0] += len(t.Base.Scored) - len(base)
			left.without[1] += len(t.Head.Scored) - len(head)
		}
	}
	switch {
	case len(tasks) == 0 && left.changed > 0:
		k.skip(s, name, *limit, fmt.Sprintf("the judge of the score %s has changed since the baseline: its prompt, schema, agent or model", score))
		return
	case len(tasks) == 0:
		k.skip(s, name, *limit, fmt.Sprintf("no task has the score %s in this job and in the baseline", score))
		return
	}
	k.dropOn(s, name, *limit, scoreMetric(score), tasks, left)
}

func scoreMetric(score string) metric {
	return metric{
		name: "mean score " + score, level: number,
		values: func(a *result.Attempts) []float64 {
			scores, _ := a.ScoresOf(score)
			return scores
		},
		amount: func(v float64) string { return signed(number(v)) },
	}
}

// maxJudgeCost checks the limit on what the models of judges cost.
func (k *checker) maxJudgeCost(s scope) {
	const name = "max_judge_cost_usd"
	if s.MaxJudgeCostUSD == nil || s.matched == 0 && k.nothingToCheck(s, name, *s.MaxJudgeCostUSD) {
		return
	}
	var cost result.USD
	judged, unknown := 0, 0
	for _, o := range s.all {
		cost = cost.Plus(o.JudgeCost)
		if o.Scores == nil {
			continue
		}
		judged++
		if _, ok := o.JudgeCost.Reported(); !ok {
			unknown++
		}
	}
	spent := cost.Amount()
	text := fmt.Sprintf("judges cost %s", amount(spent))
	if unknown > 0 {
		text += fmt.Sprintf(" and what they cost in %d of %s is not known", unknown, plural.Count(judged, "trial"))
	}
	c := Check{
		Name: name, Value: spent, Limit: *s.MaxJudgeCostUSD, Outcome: failIf(above(spent, *s.MaxJudgeCostUSD)),
		Message: fmt.Sprintf("%s, at most %s is allowed", text, amount(*s.MaxJudgeCostUSD)),
	}
	if unknown > 0 && c.Outcome == Pass {
		c.Outcome, c.Hint = Inconclusive, "set the prices of the judges' models (models.NAME.price)"
	}
	k.add(s, c)
}
