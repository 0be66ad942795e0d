package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/fields"
)

// Reward computes the reward of a trial from those of its tests and the scores of its judges. It is
// safe for concurrent use.
type Reward struct {
	expression *expression
	judges     []*Judge
}

// CompileReward checks the expression reward over the scores of judges. It returns nil if text is
// empty: the reward is then that of the tests. Without tests, the expression cannot use them.
func CompileReward(text string, judges []*Judge, hasTests bool) (*Reward, []Problem) {
	if text == "" {
		return nil, nil
	}
	var found problems
	at := fields.Path{"reward"}
	scores := &kind{fields: map[string]*kind{}}
	all := judges
	judges = slices.DeleteFunc(slices.Clone(judges), func(j *Judge) bool { return j.Ranks() })
	for _, j := range judges {
		scores.fields[j.Name] = numberKind
	}
	e, err := compileExpression(text, &kind{fields: map[string]*kind{"tests": numberKind, "rewards": anyRewards, "scores": scores}})
	if err != nil {
		found.add(at, hint(err), "%v", err)
		if unknown := (*nameError)(nil); errors.As(err, &unknown) && len(unknown.path) > 1 {
			if name := unknown.path[1]; slices.ContainsFunc(all, func(j *Judge) bool { return j.Name == name }) {
				found[0].Message = fmt.Sprintf("scores.%s is the place of a trial among those of its task, which is known when they have all ended: no reward can use it", name)
				found[0].Hint = "remove it"
				return nil, found
			}
			found[0].Score = unknown.path[1]
		}
		return nil, found
	}
	if !hasTests && (e.uses("tests") || e.uses("rewards")) {
		found.add(at, "leave tests out of it, or set verifier.disable: false", "it uses the tests, but they are not run (verifier.disable)")
		return nil, found
	}
	r := &Reward{expression: e, judges: judges}
	if r.try(&found); len(found) > 0 {
		return nil, found
	}
	return r, nil
}

// errNoReward is the error of a nil Reward without tests.
var errNoReward = errors.New("the tests have left no reward")

// Value returns the reward, from 0 to 1. tests is nil if the tests have left none; a score is nil
// if its judge gave none. A nil Reward returns the reward of the tests unchanged. Other errors
// complete a sentence about the reward: "is 1.2, which is not from 0 to 1".
func (r *Reward) Value(tests *float64, rewards map[string]float64, scores map[string]*float64) (float64, error) {
	if r == nil {
		if tests == nil {
			return 0, errNoReward
		}
		return *tests, nil
	}
	env := Facts{tests, rewards}.env()
	named := make(map[string]any, len(r.judges))
	for _, j := range r.judges {
		named[j.Name] = optional(scores[j.Name])
	}
	env["scores"] = named
	return r.expression.unit(env)
}

// try evaluates the reward for possible scores, and reports the first that give no reward.
func (r *Reward) try(found *problems) {
	names, whole := r.expression.below("scores")
	if whole {
		names = nil
		for _, j := range r.judges {
			names = append(names, j.Name)
		}
	}
	used := slices.DeleteFunc(slices.Clone(r.judges), func(j *Judge) bool { return !slices.Contains(names, j.Name) })
	for _, f := range r.expression.sampleFacts() {
		for scores := range combinations(used, f) {
			_, err := r.Value(f.Tests, f.Rewards, scores)
			if err == nil {
				continue
			}
			var null []string
			for _, j := range used {
				if scores[j.Name] == nil {
					null = append(null, j.Name)
				}
			}
			way := "write an expression such as 0.7 * tests + 0.3 * scores.NAME"
			outside := (*rangeError)(nil)
			switch {
			case len(null) > 0:
				way = fmt.Sprintf("write scores.%s ?? 0, or remove what leaves the judge without a score: %s", null[0], r.reason(null[0]))
			case errors.As(err, &outside):
				way = "choose factors whose sum is at most 1"
			case errors.Is(err, errInfinite):
				way = "write what counts if the divisor is 0"
			}
			found.add(fields.Path{"reward"}, way, "with %s it %v", r.described(f, used, scores), err)
			return
		}
	}
}

// reason returns the keys of the specification that let a judge give no score.
func (r *Reward) reason(name string) string {
	j := r.judges[slices.IndexFunc(r.judges, func(j *Judge) bool { return j.Name == name })]
	switch {
	case j.When != "" && j.OnError == Ignore:
		return "its when and on_error: ignore"
	case j.When != "":
		return "its when"
	}
	return "on_error: ignore"
}

// described returns the values of a sample that the expression reads.
func (r *Reward) described(f Facts, used []*Judge, scores map[string]*float64) string {
	var parts []string
	if r.expression.uses("tests") {
		parts = append(parts, fmt.Sprintf("tests = %v", *f.Tests))
	}
	names, _ := r.expression.below("rewards")
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("rewards.%s = %v", name, f.Rewards[name]))
	}
	for _, j := range used {
		value := "null"
		if s := scores[j.Name]; s != nil {
			value = fmt.Sprint(*s)
		}
		parts = append(parts, fmt.Sprintf("scores.%s = %s", j.Name, value))
	}
	if len(parts) == 0 {
		return "all values"
	}
	return strings.Join(parts, ", ")
}

// maxCombined is the number of judges up to which all combinations of scores are tried. Beyond it,
// one judge at a time varies while the others are alike.
const maxCombined = 5

// combinations yields the scores that judges may have in a trial.
func combinations(judges []*Judge, f Facts) func(yield func(map[string]*float64) bool) {
	options := make([][]*float64, len(judges))
	for i, j := range judges {
		options[i] = []*float64{new(0.0), new(1.0), new(0.5)}
		if j.maybeNull(f) {
			options[i] = append(options[i], nil)
		}
	}
	return func(yield func(map[string]*float64) bool) {
		scores := make(map[string]*float64, len(judges))
		if len(judges) > maxCombined {
			for others := range 2 {
				for i, j := range judges {
					for _, own := range options[i] {
						for k, other := range judges {
							scores[other.Name] = options[k][others]
						}
						if scores[j.Name] = own; !yield(scores) {
							return
						}
					}
				}
			}
			return
		}
		total := 1
		for _, o := range options {
			total *= len(o)
		}
		for n := range total {
			for i, j := range judges {
				scores[j.Name] = options[i][n%len(options[i])]
				n /= len(options[i])
			}
			if !yield(scores) {
				return
			}
		}
	}
}

// maybeNull reports whether the judge may have no score in a trial with these facts.
func (j *Judge) maybeNull(f Facts) bool {
	if j.OnError == Ignore {
		return true
	}
	if j.when == nil {
		return false
	}
	if j.when.uses("rewards") {
		return true // whose values are not known
	}
	applies, err := j.Applies(f)
	return err != nil || !applies
}
