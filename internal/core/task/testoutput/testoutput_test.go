package testoutput

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"
)

func TestOutputsOfTests(t *testing.T) {
	const head = "collected 2 items\n=========== short test summary info ===========\n"
	for _, tc := range []struct {
		name, parser, output string
		passed               bool
		problem              string // a part of the error
	}{
		{"all passed", Pytest, head + "PASSED tests/test_a.py::test_x\nPASSED tests/test_a.py::test_y\n==== 2 passed in 0.01s ====\n", true, ""},
		{"one failed", Pytest, head + "PASSED a.py::test_x\nFAILED a.py::test_y - assert 1 == 2 - really\n", false, ""},
		{"skipped and expected failures pass", Pytest, head + "SKIPPED [1] a.py:3: why\nXFAIL a.py::test_x\n", true, ""},
		{"an unexpected pass fails", Pytest, head + "XPASS a.py::test_x\n", false, ""},
		{"an error fails", Pytest, head + "PASSED a.py::test_x\nERROR a.py - ImportError\n", false, ""},
		{"the last result of a name counts", Pytest, head + "FAILED a.py::test_x - why\nPASSED b.py::test_x\n", true, ""},
		{"a summary before another one counts, too", Pytest, head + "FAILED a.py::test_x\n" + head + "PASSED b.py::test_y\n", false, ""},
		{"no summary", Pytest, "bash: pytest: command not found\n", false, `it has no "short test summary info"`},
		{"an empty summary is no result", Pytest, head + "==== no tests ran ====\n", false, "names no test"},
		{"nothing at all", Pytest, "", false, "short test summary info"},
		{"results before the summary do not count", Pytest, "PASSED a.py::test_x\n", false, "short test summary info"},
		{"swebench passed", SWEBench, "x\nSWEBench results starts here\nPASSED\nSWEBench results ends here\ny", true, ""},
		{"swebench failed", SWEBench, "SWEBench results starts here\nFAILED\nSWEBench results ends here", false, ""},
		{"swebench without an end", SWEBench, "SWEBench results starts here\nPASSED\n", false, "it has no lines"},
		{"swebench with a trace inside", SWEBench, "+ echo 'SWEBench results starts here'\nSWEBench results starts here\nPASSED\nSWEBench results ends here", false, ""},
		{"sweperf passed", SWEPerf, "SWE-Perf results starts here\n PASSED \nSWE-Perf results ends here", true, ""},
		{"mlebench passed", MLEBench, "MLEBench results starts here\nALL TESTS PASSED\nMLEBench results ends here", true, ""},
		{"mlebench without marks", MLEBench, "nothing", false, ""},
		{"swelancer success", SWELancer, "... SWE Lancer SUCCESS", true, ""},
		{"swelancer success wins", SWELancer, "swe lancer failure\nswe lancer success", true, ""},
		{"swelancer failure", SWELancer, "swe lancer failure, user_tool completed", false, ""},
		{"swelancer's tool", SWELancer, "user_tool: Completed", true, ""},
		{"swelancer without a word", SWELancer, "", false, ""},
		{"an unknown parser", "junit", "", false, "no parser"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.parser, tc.output)
			switch {
			case tc.problem != "":
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("the error is %v, want %q", err, tc.problem)
				}
			case err != nil || got.Passed() != tc.passed:
				t.Errorf("%v, %v, want passed: %t", got, err, tc.passed)
			}
		})
	}
}

// The outputs are pieces of pytest's and of other words, mixed at random; the results are those of
// terminal-bench's own parsers, where null is an exception.
func TestParsersAgreeWithTerminalBench(t *testing.T) {
	text, err := os.ReadFile("testdata/terminal-bench-0.2.18.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Text string             `json:"text"`
		Want map[string]Results `json:"want"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	results := 0
	for _, one := range all {
		for _, parser := range Parsers {
			want := one.Want[parser]
			got, err := Parse(parser, one.Text)
			switch {
			case len(want) == 0: // an exception, or a summary without tests
				if err == nil {
					t.Errorf("%s of %q is %v, want an error", parser, one.Text, got)
				}
			case err != nil || !maps.Equal(got, want):
				t.Errorf("%s of %q is %v, %v; want %v", parser, one.Text, got, err, want)
			default:
				results++
			}
		}
	}
	if results < 300 {
		t.Errorf("only %d outputs have a result", results)
	}
}

// A long name is cut. A test that failed does not pass because another one has the same beginning.
func TestLongNamesCannotHideFailures(t *testing.T) {
	long := strings.Repeat("x", 2*maxName)
	got, err := Parse(Pytest, "= short test summary info =\nFAILED a::"+long+"1\nPASSED a::"+long+"2\n")
	if err != nil || got.Passed() {
		t.Errorf("%d results pass: %v", len(got), err)
	}
}

func TestTailKeepsTheEndWithoutColours(t *testing.T) {
	var tail Tail
	for range 40 {
		if _, err := tail.Write([]byte(strings.Repeat("filler ", 1<<16) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = tail.Write([]byte("\x1b[36m\x1b[1m=== short test summary info ===\x1b[0m\r\n\x1b[32mPASSED\x1b[0m a.py::\x1b[1mtest_x\x1b[0m\xff\r\n"))
	text := tail.String()
	if len(text) > maxOutput+100 || strings.HasPrefix(text, "iller") {
		t.Errorf("%d bytes are kept, which begin with %.20q", len(text), text)
	}
	if got, err := Parse(Pytest, text); err != nil || !got.Passed() || !got["test_x\ufffd"] {
		t.Errorf("%v, %v", got, err)
	}
}

// Whatever an agent prints, no parser panics, and a result has tests.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"= short test summary info =\nPASSED a::b\n", "SWEBench results starts here\nPASSED\nSWEBench results ends here", "\xff\x1b[31m", "FAILED - - ::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var tail Tail
		_, _ = tail.Write([]byte(text))
		for _, parser := range Parsers {
			for _, output := range []string{text, tail.String()} {
				if got, err := Parse(parser, output); err == nil && len(got) == 0 {
					t.Errorf("%s finds neither a test nor an error", parser)
				}
			}
		}
	})
}
