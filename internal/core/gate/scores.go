package gate

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
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
	values, missing, left := s.scoresOf(score)
	if len(values) == 0 {
		k.add(s, Check{Name: name, Limit: *limit, Outcome: Fail, Message: fmt.Sprintf("no trial has the score %s, so there is nothing to check", score), Hint: "rollout show has the errors of the trials; look at the judge's when, too"})
		return
	}
	mean, most := result.Mean(values), 0
	if m := s.Scores[score].MaxMissing; m != nil {
		most = *m
	}
	c := Check{Name: name, Value: mean, Limit: *limit, Outcome: failIf(below(mean, *limit) || missing > most)}
	if missing > 0 {
		left = fmt.Sprintf("no score in %d of %s, max_missing is %d", missing, plural.Count(missing+len(values), "trial"), most) + left
	}
	if missing > most {
		c.Hint = fmt.Sprintf("look at the errors of these trials, or set scores.%s.max_missing", score)
	}
	if left = strings.TrimPrefix(left, ", "); left != "" {
		left = " (" + left + ")"
	}
	c.Message = fmt.Sprintf("mean score %s %s over %s%s, at least %s is asked for", score, number(mean), plural.Count(len(values), "trial"), left, number(*limit))
	k.add(s, c)
}

// scoresOf returns the scores with a name, the number of trials that lack theirs, and a text that
// counts the trials that the judge did not have to judge.
func (s scope) scoresOf(name string) (values []float64, missing int, skipped string) {
	owner, _, _ := strings.Cut(name, ".") // a judge without a verdict has no criteria
	type task struct{ dataset, task string }
	has := map[task]bool{}
	everywhere, left := true, 0 // every trial that was judged has the judge, so it is not one of some tasks
	for _, o := range s.gated.All() {
		if !s.evaluated[o.Agent] {
			continue
		}
		_, judged := o.Scores[owner]
		has[task{o.Dataset, o.Task}] = has[task{o.Dataset, o.Task}] || judged
		everywhere = everywhere && (judged || len(o.Scores) == 0)
	}
	for _, o := range s.gated.All() {
		given, ok := o.Scores[name]
		if !s.evaluated[o.Agent] {
			continue
		}
		if !ok {
			given, ok = o.Scores[owner]
			given.Score = nil
		}
		switch {
		case ok && given.Score != nil:
			values = append(values, *given.Score)
		case ok && given.Skipped:
			left++
		case ok, len(o.Scores) == 0 && o.Failed() && (everywhere || has[task{o.Dataset, o.Task}]): // it ended before its judges
			missing++
		}
	}
	if left > 0 {
		skipped = fmt.Sprintf(", %s not to be judged", plural.Count(left, "trial"))
	}
	return values, missing, skipped
}

// scoreCounts counts the compared trials and tasks without a score.
type scoreCounts struct {
	without [2]int // trials, in the baseline and in the job
	tasks   int    // left out, because no trial of theirs has the score on one side
	changed int    // tasks whose judge has changed
}

// String returns the counts in parentheses, to append to a sentence; "" if every trial has the
// score.
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

// scoreDrop checks the limit on the drop of a score, or adds a comparison to decide it.
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
		k.incomparable(s, name, *limit)
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
			left.without[0] += len(t.Base.Scores()) - len(base)
			left.without[1] += len(t.Head.Scores()) - len(head)
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

// maxJudgeCost checks the limit on the cost of the judges' models.
func (k *checker) maxJudgeCost(s scope) {
	const name = "max_judge_cost_usd"
	if s.MaxJudgeCostUSD == nil || (s.matched == 0 || s.unchanged) && k.nothingToCheck(s, name, *s.MaxJudgeCostUSD) {
		return
	}
	var cost result.USD
	judged, unknown := 0, 0
	for _, o := range s.all.All() {
		if o.Reused {
			continue
		}
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
	text := fmt.Sprintf("judges cost %s%s", costBound(cost), amount(spent))
	if unknown > 0 {
		text += fmt.Sprintf(" and their cost in %d of %s is not known", unknown, plural.Count(judged, "trial"))
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
