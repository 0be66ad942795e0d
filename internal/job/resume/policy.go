package resume

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/result"
)

// RerunPolicy says which trials with a result are run again. The zero value: those that the infrastructure failed.
type RerunPolicy struct {
	// Types has further error types with which trials are run again, even if the result has a reward.
	Types []result.ErrorType
	// OnlyFailed leaves out trials without a whole result and cancelled ones, so that only failed trials are run again.
	OnlyFailed bool
}

// allErrors stands for every error type.
const allErrors = "all"

// ParseErrorTypes returns the error types with these names; "all" stands for every type. The error names all unknown ones.
func ParseErrorTypes(names []string) ([]result.ErrorType, error) {
	var types []result.ErrorType
	var unknown []string
	for _, name := range names {
		switch t := result.ErrorType(strings.TrimSpace(name)); {
		case t == allErrors:
			types = slices.Clone(result.ErrorTypes)
		case slices.Contains(result.ErrorTypes, t):
			types = append(types, t)
		default:
			unknown = append(unknown, unknownType(string(t)))
		}
	}
	if len(unknown) > 0 {
		return nil, errors.New(strings.Join(unknown, "; "))
	}
	return types, nil
}

func unknownType(name string) string {
	all := []string{allErrors}
	for _, t := range result.ErrorTypes {
		all = append(all, string(t))
	}
	hint := diag.DidYouMean(name, all)
	if hint == "" {
		hint = "there are: " + strings.Join(all, ", ")
	}
	return fmt.Sprintf("there is no error type %q (%s)", name, hint)
}

// reruns reports whether a trial with this result is run again. By default a trial with a reward is not, and failures of agents,
// verifiers and tasks are outcomes.
func (p RerunPolicy) reruns(t result.Trial) bool {
	if t.Error == nil {
		return false
	}
	kind := t.Error.Type
	if slices.Contains(p.Types, kind) {
		return true
	}
	return t.Failed() && kind.Infrastructure() && !(p.OnlyFailed && kind == result.Cancelled)
}
