package judge

import (
	"fmt"

	"github.com/org/rollout-action/internal/keys"
)

// Facts are what is known of a trial before its judges run. Tests is nil if the tests have left no reward.
type Facts struct {
	Tests   *float64
	Rewards map[string]float64
}

func (f Facts) env() map[string]any {
	rewards := make(map[string]any, len(f.Rewards))
	for name, value := range f.Rewards {
		rewards[name] = value
	}
	return map[string]any{"tests": optional(f.Tests), "rewards": rewards}
}

// optional returns what a pointer points to, or nil.
func optional(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

// facts are the variables of when.
var facts = &kind{fields: map[string]*kind{"tests": numberKind, "rewards": {fields: map[string]*kind{}, extra: numberKind}}}

func (j *Judge) compileWhen(found *problems) {
	if j.When == "" {
		return
	}
	when, err := compileExpression(j.When, facts)
	if err != nil {
		found.add(keys.Path{"when"}, "", "when: %v", err)
		return
	}
	j.when = when
}

// Applies reports whether the judge runs.
func (j *Judge) Applies(f Facts) (bool, error) {
	if j.when == nil {
		return true, nil
	}
	out, err := j.when.run(f.env())
	if err != nil {
		return false, fmt.Errorf("when of judge %s: %w", j.Name, err)
	}
	is, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("when of judge %s is neither true nor false", j.Name)
	}
	return is, nil
}
