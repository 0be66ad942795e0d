package task

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/diag"
)

// variables are the env tables of a task.toml with the host's values in them: for memory only. Config has them as
// they are written.
type variables struct {
	environment, verifier, solution map[string]string
	solutionProblems                diag.List // what only the oracle cannot do without
	harborKey                       string    // see harborKeys
}

// EnvironmentEnv are the variables of every process in the task's environments, expanded: never write them.
func (t *Task) EnvironmentEnv() map[string]string { return t.variables.environment }

// VerifierEnv are the verifier's further variables, expanded: never write them.
func (t *Task) VerifierEnv() map[string]string { return t.variables.verifier }

// SolutionEnv are the further variables of the solution, expanded: never write them.
func (t *Task) SolutionEnv() map[string]string { return t.variables.solution }

// SolutionProblems keep the oracle, and nobody else, from running the task.
func (t *Task) SolutionProblems() diag.List { return t.variables.solutionProblems }

// Names of variables as shells take them, and values with placeholders. ${NAME} and ${NAME:-default} (for a variable
// that is unset or empty) may stand anywhere in a value; $${ is ${. Harbor knows them only as whole values, whose
// default may then have braces.
var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	wholeValue   = regexp.MustCompile(`(?s)^\$\{([^{}:]*)(?::-(.*))?\}$`)
	placeholder  = regexp.MustCompile(`\$?\$\{([^{}]*)\}`)
)

// instructionVar is set by Rollout, for agents.
const instructionVar = "ROLLOUT_TASK_INSTRUCTION"

// env reads a table of variables, and makes its values of opts. With wanting, problems with what the host lacks go there.
func (t table) env(opts Options, wanting *diag.List) (written, expanded map[string]string) {
	if len(t.values) == 0 {
		return nil, nil
	}
	written, expanded = map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.values)) {
		text, ok := t.values[name].(string)
		switch {
		case !variableName.MatchString(name):
			t.problem(name, fmt.Sprintf("%q is not a name for a variable", t.name(name)), "use letters, digits and _")
			continue
		case name == instructionVar:
			t.problem(name, fmt.Sprintf("%q is set by Rollout", t.name(name)), "choose another name")
			continue
		case !ok:
			t.wrongType(name, "a string", fmt.Sprintf("write %s = \"...\"", name))
			continue
		case strings.ContainsRune(text, 0):
			t.problem(name, fmt.Sprintf("%q holds a NUL, which no variable can", t.name(name)), "")
			continue
		}
		written[name] = text
		before := len(t.doc.problems)
		expanded[name] = t.expand(name, text, opts)
		if wanting != nil {
			*wanting = append(*wanting, t.doc.problems[before:].Errors()...)
			t.doc.problems = append(t.doc.problems[:before], t.doc.problems[before:].Warnings()...)
		}
	}
	return written, expanded
}

// expand puts what the host has in the place of key's placeholders.
func (t table) expand(key, text string, opts Options) string {
	if wholeValue.MatchString(text) && strings.Count(text, "${") == 1 {
		return t.host(key, text[2:len(text)-1], opts)
	}
	if len(placeholder.FindAllString(text, -1)) != strings.Count(text, "${") {
		t.problem(key, fmt.Sprintf("%q has a ${ that begins no ${NAME} or ${NAME:-default}", t.name(key)), "write $${ for the characters themselves")
		return ""
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if literal, ok := strings.CutPrefix(found, "$$"); ok {
			return "$" + literal
		}
		return t.host(key, found[2:len(found)-1], opts)
	})
}

// host is what the inside of a placeholder stands for.
func (t table) host(key, inside string, opts Options) string {
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	if !variableName.MatchString(name) {
		t.problem(key, fmt.Sprintf("%q has a placeholder that names no variable", t.name(key)), "write ${NAME} or ${NAME:-default}; $${ is ${")
		return ""
	}
	value, set := "", false
	if opts.Getenv != nil {
		value, set = opts.Getenv(name)
	}
	passed := slices.Contains(opts.PassEnv, name)
	pass := fmt.Sprintf("if the task may have it, set environment.pass_env: [%s] in the job", name)
	switch {
	case passed && set && (value != "" || !hasFallback):
		return value
	case hasFallback:
		if !passed && set && value != "" {
			t.warning(key, fmt.Sprintf("%q has its default: the job does not pass on the host's variable %s", t.name(key), name), pass)
		}
		return fallback
	case !passed:
		t.problem(key, fmt.Sprintf("%q needs the host's variable %s, which the job does not pass on", t.name(key), name), pass)
	default:
		t.problem(key, fmt.Sprintf("%q needs the host's variable %s, which is not set", t.name(key), name),
			fmt.Sprintf("export it, or give a default in task.toml: ${%s:-…}", name))
	}
	return ""
}
