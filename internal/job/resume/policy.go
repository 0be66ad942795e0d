package resume

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/result"
)

// RerunPolicy says which of the trials that have a result are run again.
type RerunPolicy struct {
	// Types are error types that are run again besides those of the infrastructure, whatever else the result says.
	Types []result.ErrorType
	// OnlyFailed leaves out what has no result yet, and what was cut short or torn: only failed trials are run again.
	OnlyFailed bool
}

// allErrors stands for every error type.
const allErrors = "all"

// ParseErrorTypes reads a list of error types, or "all". The error names all that there are not.
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

// reruns reports whether a trial with this result is to be run again. A trial with a reward is complete, and failures of agents,
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
