package job

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
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

// Pending is what is to be run of a job, and what is there.
type Pending struct {
	Keys    map[result.Key]bool // to be run
	Earlier []result.Trial      // every result that is there, also of what is run again
	Kept    int                 // results that stay
	Missing int                 // trials that have none, or a torn one, and are not to be run
	// Confirmations are the confirmation attempts among Earlier that are made again, if they are still asked for.
	Confirmations map[result.Key]bool
	stale         []result.Key // confirmation attempts of a plan with fewer attempts
}

// pending decides for each of a job's trials whether it is to be run. It refuses a folder that holds what no run has left.
func pendingOf(dir string, keys []result.Key, digests map[taskName]string, policy RerunPolicy) (Pending, error) {
	out := Pending{Keys: map[result.Key]bool{}}
	if err := onlyFolders(dir, keys); err != nil {
		return out, err
	}
	trials, errs := result.ReadEachTrial(dir, keys)
	for i, key := range keys {
		t, err := trials[i], errs[i]
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, result.ErrTorn):
			if policy.OnlyFailed {
				out.Missing++
			} else {
				out.Keys[key] = true
			}
			continue
		case err != nil:
			return out, refuse("%v: remove or mend it", err)
		case t.TaskDigest != "" && t.TaskDigest != digests[taskName{key.Dataset, key.Task}]:
			return out, refuse("%s: is the result of other files of the task than plan.json names: it was not written by this job",
				filepath.Join(dir, filepath.FromSlash(key.Dir()), result.ResultFile))
		}
		if t.Confirmation { // of a plan with fewer attempts
			out.Keys[key] = true
			continue
		}
		out.Earlier = append(out.Earlier, t)
		if policy.reruns(t) {
			out.Keys[key] = true
		} else {
			out.Kept++
		}
	}
	return out, nil
}

// confirmations adds what there is of confirmation attempts. Those that show nothing, because they were cut short or the infrastructure
// failed, can be made again. now is the plan of today, which may have more attempts than the one that is there.
func (p *Pending) confirmations(dir string, plan, now result.Plan, policy RerunPolicy) error {
	keys := plan.ConfirmationKeys()
	if len(now.Trials) != len(plan.Trials) {
		planned := map[result.Key]bool{}
		for _, k := range now.Trials {
			planned[k] = true
		}
		p.stale = slices.DeleteFunc(keys, func(k result.Key) bool { return planned[k] })
		return nil
	}
	if err := onlyFolders(dir, keys); err != nil {
		return err
	}
	trials, errs := result.ReadEachTrial(dir, keys)
	p.Confirmations = map[result.Key]bool{}
	for i, t := range trials {
		switch {
		case errors.Is(errs[i], fs.ErrNotExist), errors.Is(errs[i], result.ErrTorn):
			continue // made again when it is its turn
		case errs[i] != nil:
			return refuse("%v: remove or mend it", errs[i])
		case !t.Confirmation:
			return refuse("%s: is no confirmation attempt, as plan.json has it", filepath.Join(dir, filepath.FromSlash(keys[i].Dir()), result.ResultFile))
		}
		p.Earlier = append(p.Earlier, t)
		if policy.reruns(t) {
			p.Confirmations[keys[i]] = true
		}
	}
	return nil
}

// onlyFolders refuses trials' folders that are links or files, or are reached through one.
func onlyFolders(dir string, keys []result.Key) error {
	seen := map[string]bool{}
	for _, key := range keys {
		path := filepath.FromSlash(key.Dir())
		parent := filepath.Dir(path)
		if !seen[parent] {
			seen[parent] = true
			if err := realFolders(dir, parent); err != nil {
				return refuse("%v", err)
			}
		}
		if err := realFolder(filepath.Join(dir, path)); err != nil {
			return refuse("%v", err)
		}
	}
	return nil
}

type taskName struct{ dataset, task string }
