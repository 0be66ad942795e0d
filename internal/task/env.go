package task

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/diag"
)

// variables holds the env tables of a task.toml with the values of the host filled in. They must stay in memory; Config has
// them as written.
type variables struct {
	environment, verifier, solution map[string]string
	solutionProblems                diag.List // problems that only affect the oracle
	harborKey                       string    // see harborKeys
}

// EnvironmentEnv returns the variables of every process in the task's environments, expanded. They may be secret: never write them.
func (t *Task) EnvironmentEnv() map[string]string { return t.variables.environment }

// VerifierEnv returns the verifier's additional variables, expanded. They may be secret: never write them.
func (t *Task) VerifierEnv() map[string]string { return t.variables.verifier }

// SolutionEnv returns the solution's additional variables, expanded. They may be secret: never write them.
func (t *Task) SolutionEnv() map[string]string { return t.variables.solution }

// SolutionProblems returns the problems that prevent the oracle, but no other agent, from running the task.
func (t *Task) SolutionProblems() diag.List { return t.variables.solutionProblems }

// Names of variables, and values with placeholders. ${NAME} and ${NAME:-default} (used if the variable is unset or empty) may
// stand anywhere in a value; $${ is a literal ${. Harbor only knows placeholders that are the whole value, whose default may
// contain braces.
var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	wholeValue   = regexp.MustCompile(`(?s)^\$\{([^{}:]*)(?::-(.*))?\}$`)
	placeholder  = regexp.MustCompile(`\$?\$\{([^{}]*)\}`)
)

// instructionVar is a variable that Rollout sets for agents.
const instructionVar = "ROLLOUT_TASK_INSTRUCTION"

// env reads a table of variables and expands them with opts. If wanting is not nil, missing variables of the host go there.
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
			t.problem(name, fmt.Sprintf("%q contains a NUL character", t.name(name)), "")
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

// expand replaces the placeholders in key's value with values of the host.
func (t table) expand(key, text string, opts Options) string {
	if wholeValue.MatchString(text) && strings.Count(text, "${") == 1 {
		return t.host(key, text[2:len(text)-1], opts)
	}
	if len(placeholder.FindAllString(text, -1)) != strings.Count(text, "${") {
		t.problem(key, fmt.Sprintf("%q has a ${ that is neither ${NAME} nor ${NAME:-default}", t.name(key)), "write $${ for a literal ${")
		return ""
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if literal, ok := strings.CutPrefix(found, "$$"); ok {
			return "$" + literal
		}
		return t.host(key, found[2:len(found)-1], opts)
	})
}

// host returns the value of a placeholder, given what is between its braces.
func (t table) host(key, inside string, opts Options) string {
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	if !variableName.MatchString(name) {
		t.problem(key, fmt.Sprintf("%q has a placeholder without a valid name", t.name(key)), "write ${NAME} or ${NAME:-default}; $${ is a literal ${")
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
			t.warning(key, fmt.Sprintf("%q uses its default: the job does not pass on the host's variable %s", t.name(key), name), pass)
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
