package testoutput

import (
	"errors"
	"fmt"
	"strings"
)

// The parsers, by the names of parser_name in task.yaml.
// Source: terminal-bench 0.2.18, parsers/parser_factory.py.
const (
	Pytest    = "pytest"
	SWEBench  = "swebench"
	SWELancer = "swelancer"
	MLEBench  = "mlebench"
	SWEPerf   = "sweperf"
)

// Parsers lists the names of all parsers.
var Parsers = []string{Pytest, SWEBench, SWELancer, MLEBench, SWEPerf}

// Results are tests by their names, and whether they passed.
type Results map[string]bool

// Passed reports whether all tests passed. Terminal-bench calls a task without a test resolved,
// too; Parse returns no such results.
func (r Results) Passed() bool {
	for _, passed := range r {
		if !passed {
			return false
		}
	}
	return len(r) > 0
}

// maxResults limits the tests of one output, and maxName their names' bytes. Beyond it, names are
// cut, which cannot make a failed test pass (see add).
const (
	maxResults = 100_000
	maxName    = 1000
)

// add records a test. As in Python's dict, the last result of a name counts, except among names
// that were cut.
func (r Results) add(name string, passed bool) error {
	if len(name) > maxName {
		name = name[:maxName]
		if before, ok := r[name]; ok {
			passed = passed && before
		}
	}
	if r[name] = passed; len(r) > maxResults {
		return fmt.Errorf("it has more than %d tests", maxResults)
	}
	return nil
}

// errEmpty: terminal-bench resolves such a task, although no test has passed.
var errEmpty = errors.New("its summary names no test")

// Parse reads the output of a task's tests with one of Parsers. The error completes a sentence
// about the output: "it has no …".
func Parse(parser, output string) (Results, error) {
	switch parser {
	case Pytest:
		return pytest(output)
	case SWEBench:
		return between(output, "SWEBench results", "PASSED", true)
	case SWEPerf:
		return between(output, "SWE-Perf results", "PASSED", true)
	case MLEBench:
		return between(output, "MLEBench results", "ALL TESTS PASSED", false)
	case SWELancer:
		return swelancer(output), nil
	default:
		return nil, fmt.Errorf("there is no parser %q", parser)
	}
}

// between reads the text between two marks. It passes if that is good. Without required marks there
// is no result.
func between(output, what, good string, required bool) (Results, error) {
	begin, end := what+" starts here", what+" ends here"
	if required && (!strings.Contains(output, begin) || !strings.Contains(output, end)) {
		return nil, fmt.Errorf("it has no lines %q and %q", begin, end)
	}
	if _, after, found := strings.Cut(output, begin); found {
		output = after
	}
	if at := strings.LastIndex(output, end); at >= 0 {
		output = output[:at]
	}
	return Results{"tests": strip(output) == good}, nil
}

// swelancer looks for words anywhere.
func swelancer(output string) Results {
	output = lower(output)
	has := func(words string) bool { return strings.Contains(output, words) }
	passed := has("swe lancer success") || !has("swe lancer failure") && has("user_tool") && has("completed")
	return Results{"swelancer_task": passed}
}
