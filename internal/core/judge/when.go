package judge

import (
	"github.com/org/rollout-action/internal/lib/fields"
)

// Facts holds the results of a trial that are known before its judges run. Tests is nil if the
// tests have left no reward.
type Facts struct {
	Tests   *float64
	Rewards map[string]float64
}

// env returns the facts as variables of an expression.
func (f Facts) env() map[string]any {
	rewards := make(map[string]any, len(f.Rewards))
	for name, value := range f.Rewards {
		rewards[name] = value
	}
	return map[string]any{"tests": optional(f.Tests), "rewards": rewards}
}

// optional returns the value of a pointer, or nil.
func optional(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// anyRewards is the type of rewards, whose names only the tests know.
var anyRewards = &kind{fields: map[string]*kind{}, extra: numberKind}

// facts are the variables of when.
var facts = &kind{fields: map[string]*kind{"tests": numberKind, "rewards": anyRewards}}

// sampleTests are the rewards of tests that expressions are tried with.
var sampleTests = []float64{0, 0.5, 1}

func (j *Judge) compileWhen(found *problems) {
	if j.When == "" {
		return
	}
	key := fields.Path{"when"}
	when, err := compileExpression(j.When, facts)
	if err != nil {
		found.add(key, hint(err), "%v", err)
		return
	}
	for _, f := range when.sampleFacts() {
		if _, err := when.truth(f.env()); err != nil {
			found.add(key, "write a condition such as tests > 0", "with tests = %v it %v", *f.Tests, err)
			return
		}
	}
	j.when = when
}

// sampleFacts returns facts with all values that an expression reads.
func (e *expression) sampleFacts() []Facts {
	names, _ := e.below("rewards")
	var out []Facts
	for _, tests := range sampleTests {
		for _, all := range []float64{0, 1} {
			f := Facts{Tests: &tests, Rewards: map[string]float64{}}
			for _, name := range names {
				f.Rewards[name] = all
			}
			out = append(out, f)
		}
	}
	return out
}

// Applies reports whether the judge runs. The error completes a sentence about the condition:
// "cannot be computed: …".
func (j *Judge) Applies(f Facts) (bool, error) {
	if j.when == nil {
		return true, nil
	}
	return j.when.truth(f.env())
}
