package judge

import (
	"errors"
	"fmt"

	"github.com/org/rollout-action/internal/keys"
)

// Reward computes the reward of a trial from those of its tests and the scores of its judges. It is safe for concurrent use.
type Reward struct {
	expression *expression
	judges     []*Judge
}

// CompileReward checks the expression reward over the scores of judges. It returns nil if text is empty: the reward is then that of the
// tests. Without tests, the expression cannot use them.
func CompileReward(text string, judges []*Judge, hasTests bool) (*Reward, []Problem) {
	if text == "" {
		return nil, nil
	}
	var found problems
	at := keys.Path{"reward"}
	scores := &kind{fields: map[string]*kind{}}
	for _, j := range judges {
		scores.fields[j.Name] = numberKind
	}
	e, err := compileExpression(text, &kind{fields: map[string]*kind{"tests": numberKind, "rewards": facts.fields["rewards"], "scores": scores}})
	if err != nil {
		found.add(at, "", "reward: %v", err)
		return nil, found
	}
	if !hasTests && (e.uses("tests") || e.uses("rewards")) {
		found.add(at, "leave tests out of it, or set verifier.disable: false", "reward uses tests, but the tests are not run (verifier.disable)")
		return nil, found
	}
	return &Reward{expression: e, judges: judges}, nil
}

// errNoReward is the error of a nil Reward without tests.
var errNoReward = errors.New("the tests have left no reward")

// Value returns the reward, from 0 to 1. tests is nil if the tests have left none; a score is nil if its judge has none. A nil Reward returns
// that of the tests as it is.
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
	v, err := r.expression.unit(env)
	if err != nil {
		return 0, fmt.Errorf("reward: %w", err)
	}
	return v, nil
}
