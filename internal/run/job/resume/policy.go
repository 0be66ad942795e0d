package resume

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/run/job"
)

// RerunPolicy selects the trials with a result that are run again. The zero value selects those
// that the infrastructure failed.
type RerunPolicy struct {
	// Types holds further error types with which trials are run again, even if the result has a
	// reward.
	Types []result.ErrorType
	// OnlyFailed leaves out trials without a whole result and cancelled ones, so that only failed
	// trials are run again.
	OnlyFailed bool
	// Trials holds globs of trials that are run again whatever their result is. See matches.
	Trials []string
	// JudgesOnly reports whether only judges of a trial have to run, because its agent and its
	// tests have ended. Such a trial is pending. nil: there are none.
	JudgesOnly func(key result.Key) bool
}

// CheckTrials returns an error if a glob of RerunPolicy.Trials can name no trial. A malformed one
// can: see matches.
func CheckTrials(globs []string) error {
	for _, glob := range globs {
		if !strings.Contains(glob, "/") {
			return fmt.Errorf("%q: want AGENT/TASK or AGENT/DATASET/TASK, with globs (*, ?, [a-z]), and __N at the end for one attempt", glob)
		}
	}
	return nil
}

// matches reports whether a glob names a trial: as AGENT/TASK or AGENT/DATASET/TASK, with or
// without __ATTEMPT, or as its directory. A * matches no slash. A name matches itself, also one
// that is a pattern, or a malformed one: tasks may be called fix[1] or fix[1.
func matches(glob string, key result.Key) bool {
	attempt := fmt.Sprintf("__%d", key.Attempt)
	short, long := key.Agent+"/"+key.Task, key.Agent+"/"+key.Dataset+"/"+key.Task
	return slices.ContainsFunc([]string{short, short + attempt, long, long + attempt, key.Dir()}, func(name string) bool {
		ok, _ := path.Match(glob, name)
		return ok || glob == name
	})
}

// names reports whether the policy names a trial.
func (p RerunPolicy) names(key result.Key) bool {
	return slices.ContainsFunc(p.Trials, func(glob string) bool { return matches(glob, key) })
}

// checkMatches refuses globs that match none of the trials.
func (p RerunPolicy) checkMatches(keys []result.Key) error {
	for _, glob := range p.Trials {
		if slices.ContainsFunc(keys, func(k result.Key) bool { return matches(glob, k) }) {
			continue
		}
		var names []string
		for _, k := range keys {
			names = append(names, k.Agent+"/"+k.Task)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		hint := diag.DidYouMean(glob, names)
		if hint == "" {
			more := ""
			if len(names) > maxListed {
				names, more = names[:maxListed], ", …"
			}
			hint = "there are: " + strings.Join(names, ", ") + more
		}
		malformed := ""
		if _, err := path.Match(glob, ""); err != nil {
			malformed = `, and is no valid pattern: a [ begins a set of characters such as [a-z], and \[ is the character itself`
		}
		return job.Refuse("--rerun %s matches none of its trials%s (%s)", glob, malformed, hint)
	}
	return nil
}

// maxListed limits the names that a message lists.
const maxListed = 20

// allErrors stands for every error type.
const allErrors = "all"

// ParseErrorTypes returns the error types with these names; "all" stands for every type. The error
// names all unknown ones.
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

// reruns reports whether a trial with this result is run again. By default a trial with a reward is
// not, and failures of agents, verifiers and tasks are outcomes.
func (p RerunPolicy) reruns(t result.Trial) bool {
	if p.names(t.Key) {
		return true
	}
	if t.Error == nil {
		return false
	}
	kind := t.Error.Type
	if slices.Contains(p.Types, kind) {
		return true
	}
	if kind.Fault() == result.FaultJudge && p.JudgesOnly != nil && p.JudgesOnly(t.Key) {
		return true
	}
	return t.Failed() && kind.Infrastructure() && !(p.OnlyFailed && kind == result.Cancelled)
}
