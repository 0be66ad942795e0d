package task

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// variables holds the env tables of a task.toml with the values of the host filled in. They must
// stay in memory; Config has them as written.
type variables struct {
	environment, verifier, solution map[string]string
	separate                        map[string]string // of the tests' environment, if apart
	apart, fresh                    bool              // verifier.environment is a table, or the text fresh
	image                           string            // of that table
	outerImage                      string            // of the task's table, for a step
	steps                           []variables       // of the steps, complete
	solutionProblems                diag.List         // problems that only affect the oracle
	unset, solutionUnset            []string          // see Unset
	harborKey                       string            // see harborKeys
	// root is task.toml, if it has judges or reward.
	root *fields.Node
}

// EnvironmentEnv returns the variables of every process in the task's environments, expanded. They
// may be secret: never write them.
func (t *Task) EnvironmentEnv() map[string]string { return t.variables.environment }

// VerifierEnv returns the verifier's additional variables, expanded. They may be secret: never
// write them.
func (t *Task) VerifierEnv() map[string]string { return t.variables.verifier }

// SolutionEnv returns the solution's additional variables, expanded. They may be secret: never
// write them.
func (t *Task) SolutionEnv() map[string]string { return t.variables.solution }

// SolutionProblems returns the problems that prevent the oracle, but no other agent, from running
// the task.
func (t *Task) SolutionProblems() diag.List { return t.variables.solutionProblems }

// Unset returns the names of the host's variables that a task loaded with Options.Unrun needs and
// that are not set or, with Options.NoJob, not passed: those of its environments and its verifier,
// and with those of its solution if it is asked for. They are sorted.
func (t *Task) Unset(withSolution bool) []string {
	names := slices.Clone(t.variables.unset)
	if withSolution {
		names = append(names, t.variables.solutionUnset...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Names of variables, and values with placeholders. ${NAME} and ${NAME:-default} (used if the
// variable is unset or empty) may stand anywhere in a value; $${ is a literal ${. Harbor only knows
// placeholders that are the whole value, whose default may contain braces.
var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	wholeValue   = regexp.MustCompile(`(?s)^\$\{([^{}:]*)(?::-(.*))?\}$`)
	placeholder  = regexp.MustCompile(`\$?\$\{([^{}]*)\}`)
)

// instructionVar is a variable that Rollout sets for agents.
const instructionVar = "ROLLOUT_TASK_INSTRUCTION"

// DecodeNode reads a table of variables.
func (e *Env) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, r fields.Rules) bool {
	if n.Kind != fields.Mapping {
		return d.MustBe(n, p, r, "a table", "write ["+p.String()+"]")
	}
	for _, f := range n.Fields {
		var text string
		switch at := p.Child(f.Name); {
		case !variableName.MatchString(f.Name):
			d.Wrong(f.Value, at, "use letters, digits and _", "%q is not a name for a variable", at)
		case f.Name == instructionVar:
			d.Wrong(f.Value, at, "choose another name", "%q is set by Rollout", at)
		case d.Value(f.Value, at, &text, fields.Rules{Raw: true}):
			if *e == nil {
				*e = Env{}
			}
			(*e)[f.Name] = text
		}
	}
	return true
}

// expand returns the variables at p with the placeholders in their values replaced. Errors go to
// wanting. If the task does not run, the names of variables that are not set go to unset instead.
func (r *reader) expand(p fields.Path, written Env, wanting *fields.Problems, unset *[]string) map[string]string {
	if len(written) == 0 {
		return nil
	}
	expanded := make(map[string]string, len(written))
	for name, text := range written {
		at := p.Child(name)
		e := expansion{r.Problems, wanting, unset, r.opts, at, r.Root.Locate(at, false)}
		expanded[name] = e.expand(text)
	}
	return expanded
}

// passed returns the value of a host's variable that the job passes on.
func (o Options) passed(name string) (value string, ok bool) {
	if o.Getenv == nil || !slices.Contains(o.PassEnv, name) {
		return "", false
	}
	return o.Getenv(name)
}

// expansion expands one value.
type expansion struct {
	warnings, errors *fields.Problems
	unset            *[]string // names
	opts             Options
	path             fields.Path
	at               fields.Place
}

func (e *expansion) problem(hint, format string, args ...any) {
	e.errors.Add(e.at, hint, "%q "+format, append([]any{e.path}, args...)...)
}

func (e *expansion) expand(text string) string {
	if wholeValue.MatchString(text) && strings.Count(text, "${") == 1 {
		return e.host(text[2 : len(text)-1])
	}
	if len(placeholder.FindAllString(text, -1)) != strings.Count(text, "${") {
		e.problem("write $${ for a literal ${", "has a ${ that is neither ${NAME} nor ${NAME:-default}")
		return ""
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if literal, ok := strings.CutPrefix(found, "$$"); ok {
			return "$" + literal
		}
		return e.host(found[2 : len(found)-1])
	})
}

// host returns the value of a placeholder. inside is the text between its braces.
func (e *expansion) host(inside string) string {
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	if !variableName.MatchString(name) {
		e.problem("write ${NAME} or ${NAME:-default}; $${ is a literal ${", "has a placeholder without a valid name")
		return ""
	}
	value, set := "", false
	if e.opts.Getenv != nil {
		value, set = e.opts.Getenv(name)
	}
	passed := slices.Contains(e.opts.PassEnv, name)
	pass := fmt.Sprintf("if the task may have it, set environment.pass_env: [%s] in the job", name)
	switch {
	case passed && set && (value != "" || !hasFallback):
		return value
	case hasFallback:
		if !passed && set && value != "" {
			e.warnings.Warn(e.at, pass, "%q uses its default: the job does not pass on the host's variable %s", e.path, name)
		}
		return fallback
	case !passed && e.opts.NoJob:
		*e.unset = append(*e.unset, name)
	case !passed:
		e.problem(pass, "needs the host's variable %s, which the job does not pass on", name)
	case e.opts.Unrun:
		*e.unset = append(*e.unset, name)
	default:
		e.problem(fmt.Sprintf("export it, put it into a file for --env-file, or give a default in task.toml: ${%s:-…}", name), "needs the host's variable %s, which is not set", name)
	}
	return ""
}
