package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/reporttest"
)

func TestExplainByTypeOfError(t *testing.T) {
	in := reporttest.Errors()
	want := map[result.ErrorType]string{
		result.AgentInstallFailed: "setup/stderr.txt", result.AgentInstallTimeout: "setup/stderr.txt",
		result.AgentExecutionFailed: "command/stderr.txt", result.AgentExecutionTimeout: "command/stderr.txt",
		result.VerifierFailed: "logs/verifier/stdout.txt", result.VerifierTimeout: "logs/verifier/stdout.txt",
		result.VerifierRewardMissing: "logs/verifier/stdout.txt", result.VerifierRewardInvalid: "logs/verifier/stdout.txt",
	}
	for _, trial := range result.UnpackAll(in.Trials) {
		file, told := report.Explain(in, trial)
		lines := told.Lines()
		log := want[trial.Error.Type]
		if log == "" {
			log = "error.txt"
		}
		if file != trial.Dir()+"/"+log || len(lines) != 1 {
			t.Errorf("%s is explained by %q (%q), want %s", trial.Error.Type, file, lines, log)
		}
	}
}

// at returns a job of one trial with a reward of 0, whose logs are in dir.
func at(dir string) (report.Input, result.Trial) {
	in := reporttest.Make("x", []reporttest.Spec{{Agent: "a", Dataset: "d", Task: "t", Reward: new(0.0)}})
	in.Files = os.DirFS(dir)
	return in, *in.Trials[0].Unpack()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestExplainReadsTheBeginningAndTheEnd(t *testing.T) {
	dir := t.TempDir()
	in, trial := at(dir)
	log := filepath.Join(dir, "a/d/t__1/logs/verifier/stdout.txt")
	text := "the cause\n" + strings.Repeat("a line between\n", 100_000) + "\x1b[31mthe end\x1b[0m\n::error::x\n\n"
	write(t, log, text)
	file, told := report.Explain(in, trial)
	lines := told.Lines()
	if n := len(lines); file == "" || n != 50 || lines[n-2] != "the end" || lines[n-1] != ": :error::x" || lines[0] != "the cause" || lines[1] != "a line between" {
		t.Errorf("%s: %d lines, the last %q", file, n, lines[max(0, n-3):])
	}
	shown := 0
	for _, line := range slices.Concat(told.Head, told.Tail) {
		shown += len(line) + 1
	}
	// The colours and the blank line at the end are not shown, and a workflow command is broken up
	// by a space.
	if want := int64(len(text) - shown - len("\x1b[31m\x1b[0m\n") + 1); told.Dropped != want || !slices.Contains(lines, fmt.Sprintf("[%d bytes are left out here]", want)) {
		t.Errorf("%d bytes are left out, want %d: %q", told.Dropped, want, lines)
	}
	write(t, log, "\n \n")
	write(t, filepath.Join(dir, "a/d/t__1/logs/verifier/stderr.txt"), "told here")
	if file, told := report.Explain(in, trial); !strings.HasSuffix(file, "stderr.txt") || !slices.Equal(told.Lines(), []string{"told here"}) {
		t.Errorf("%s: %q", file, told.Lines())
	}
}

func TestExplainBoundsAHugeLine(t *testing.T) {
	dir := t.TempDir()
	in, trial := at(dir)
	log := filepath.Join(dir, "a/d/t__1/logs/verifier/stdout.txt")
	write(t, log, "x")
	if err := os.Truncate(log, 1<<36); err != nil { // a hole of 64 GiB, too large to be read from its start
		t.Fatal(err)
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("\nthe end\n" + strings.Repeat("日", 2000)); err != nil {
		t.Fatal(err)
	}
	_, told := report.Explain(in, trial)
	lines := told.Lines()
	if len(lines) != 4 || lines[0] != "x" || lines[2] != "the end" || len(lines[3]) > 500 || !strings.HasSuffix(lines[3], "日") || !strings.Contains(lines[3], " bytes…] 日") || told.Dropped < 1<<36-64<<10 {
		t.Errorf("%d lines: %.100q", len(lines), lines)
	}
}

func TestExplainFollowsNoLinkAndOpensNoPipe(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, filepath.Join(secret, "stdout.txt"), "secret")
	write(t, filepath.Join(secret, "ctrf.json"), `{"results":{"tests":[{"name":"secret","status":"failed"}]}}`)
	write(t, filepath.Join(secret, "junit.xml"), `<testsuite><testcase name="secret"/></testsuite>`)
	for name, plant := range map[string]func(dir string) error{
		"a link to a file": func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "a/d/t__1/logs/verifier"), 0o755); err != nil {
				return err
			}
			for _, f := range []string{"stdout.txt", "ctrf.json", "junit.xml"} {
				if err := os.Symlink(filepath.Join(secret, f), filepath.Join(dir, "a/d/t__1/logs/verifier", f)); err != nil {
					return err
				}
			}
			return nil
		},
		"a link on the way": func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "a/d/t__1/logs"), 0o755); err != nil {
				return err
			}
			return os.Symlink(secret, filepath.Join(dir, "a/d/t__1/logs/verifier"))
		},
		"a link at the top": func(dir string) error {
			if err := os.MkdirAll(filepath.Join(secret, "top/d/t__1/logs"), 0o755); err != nil {
				return err
			}
			_ = os.Symlink(secret, filepath.Join(secret, "top/d/t__1/logs/verifier"))
			return os.Symlink(filepath.Join(secret, "top"), filepath.Join(dir, "a"))
		},
		"pipes": func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "a/d/t__1/logs/verifier"), 0o755); err != nil {
				return err
			}
			for _, f := range []string{"stdout.txt", "ctrf.json", "junit.xml"} { // opening one would wait for ever
				if err := unix.Mkfifo(filepath.Join(dir, "a/d/t__1/logs/verifier", f), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
		"a directory": func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "a/d/t__1/logs/verifier/stdout.txt"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := plant(dir); err != nil {
				t.Fatal(err)
			}
			in, trial := at(dir)
			if file, log := report.Explain(in, trial); file != "" || !log.Empty() {
				t.Errorf("%s: %q", file, log.Lines())
			}
			if tests, ok := report.VerifierTests(in, trial); ok {
				t.Errorf("tests: %+v", tests)
			}
			if logs := report.Logs(in, trial); len(logs) > 0 {
				t.Errorf("logs: %q", logs)
			}
		})
	}
}

func TestExplainWithoutFiles(t *testing.T) {
	in := reporttest.Errors()
	in.Files = nil
	if file, log := report.Explain(in, *in.Trials[0].Unpack()); file != "" || !log.Empty() {
		t.Errorf("%s: %q", file, log.Lines())
	}
	if _, ok := report.VerifierTests(in, *in.Trials[0].Unpack()); ok {
		t.Error("tests out of nothing")
	}
}

func verifier(name, text string) (report.Input, result.Trial) {
	in := reporttest.Make("x", []reporttest.Spec{{Agent: "a", Dataset: "d", Task: "t", Reward: new(0.0)}})
	in.Files = fstest.MapFS{"a/d/t__1/logs/verifier/" + name: {Data: []byte(text), Mode: 0o644}}
	return in, *in.Trials[0].Unpack()
}

func TestVerifierTests(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		want             report.Tests // File is not compared; nil List: no tests
	}{
		{
			"CTRF", "ctrf.json", `{"results":{"tests":[{"name":"a","status":"passed","duration":1500},{"name":"b","status":"failed","message":"m","trace":"t","suite":["x","y"]},{"name":"c","status":"pending"},{"name":"d","status":"other","suite":"s"}]}}`,
			report.Tests{Passed: 1, Failed: 1, Skipped: 2, List: []report.Test{
				{Name: "b", Suite: "x / y", Status: report.TestFailed, Message: "m\nt"}, {Name: "c", Status: report.TestSkipped},
				{Name: "d", Suite: "s", Status: report.TestSkipped}, {Name: "a", Status: report.TestPassed, Seconds: 1.5},
			}},
		},
		{
			"JUnit", "report.xml", `<testsuites><testsuite name="s"><testcase classname="c" name="a" time="0.5"/><testcase name="b"><failure message="m">m and more</failure></testcase><testcase name="e"><error message="x">y</error><system-out>z</system-out></testcase><testcase name="d"><skipped/></testcase></testsuite></testsuites>`,
			report.Tests{Passed: 1, Failed: 2, Skipped: 1, List: []report.Test{
				{Name: "b", Status: report.TestFailed, Message: "m and more"}, {Name: "e", Status: report.TestFailed, Message: "x\ny"},
				{Name: "d", Status: report.TestSkipped}, {Name: "a", Suite: "c", Status: report.TestPassed, Seconds: 0.5},
			}},
		},
		{
			"text around CDATA and comments", "report.xml", `<testsuite><testcase name="b"><error>in<!-- -->two<![CDATA[ & three]]></error></testcase><testcase name="c"><failure><![CDATA[a[b[0]]]]><![CDATA[> 1]]></failure></testcase></testsuite>`,
			report.Tests{Failed: 2, List: []report.Test{{Name: "b", Status: report.TestFailed, Message: "in\ntwo\n & three"}, {Name: "c", Status: report.TestFailed, Message: "a[b[0]]> 1"}}},
		},
		{"no CTRF", "ctrf.json", `{"results":{"tests":[]}}`, report.Tests{}},
		{"a wrong type", "ctrf.json", `{"results":{"tests":[{"name":1}]}}`, report.Tests{}},
		{"other XML", "report.xml", `<html><testcase/></html>`, report.Tests{}},
		{"torn XML", "report.xml", `<testsuite><testcase name="a"/>`, report.Tests{}},
		{"an entity that grows", "report.xml", `<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>`, report.Tests{}},
		{"an external entity", "report.xml", `<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite><testcase name="a">&a;</testcase></testsuite>`, report.Tests{}},
		{"deep XML", "report.xml", strings.Repeat("<testsuite>", 5000) + "<testcase/>" + strings.Repeat("</testsuite>", 5000), report.Tests{}},
		{"another name", "report.txt", `<testsuite><testcase name="a"/></testsuite>`, report.Tests{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, trial := verifier(c.file, c.text)
			got, ok := report.VerifierTests(in, trial)
			if ok != (c.want.List != nil) || got.Passed != c.want.Passed || got.Failed != c.want.Failed || got.Skipped != c.want.Skipped || !slices.Equal(got.List, c.want.List) {
				t.Errorf("got %v %+v, want %+v", ok, got, c.want)
			}
		})
	}
}

// A test case of two bytes takes a hundred in memory, so only those within the bound are kept.
func TestVerifierTestsTakeLittleMemory(t *testing.T) {
	in, trial := verifier("ctrf.json", `{"results":{"tests":[`+strings.Repeat("{},", 2_700_000)+`{}]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tests, ok := report.VerifierTests(in, trial)
	runtime.ReadMemStats(&after)
	if !ok || tests.Skipped != 200_000 {
		t.Errorf("got %v and %d tests", ok, tests.Skipped)
	}
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 300 {
		t.Errorf("%d MB were allocated", mb)
	}
}

func TestVerifierTestsAreBounded(t *testing.T) {
	in, trial := verifier("ctrf.json", `{"results":{"tests":[`+strings.Repeat(`{"name":"a","status":"passed"},`, 5000)+`{"name":"`+strings.Repeat("b", 1<<20)+`","status":"failed"}]}}`)
	tests, ok := report.VerifierTests(in, trial)
	if !ok || tests.Passed != 5000 || tests.Failed != 1 || len(tests.List) != 1000 || tests.List[0].Status != report.TestFailed || len(tests.List[0].Name) > 2100 {
		t.Errorf("got %v, %d passed, %d failed, %d kept, the first %.50q", ok, tests.Passed, tests.Failed, len(tests.List), tests.List[0].Name)
	}
	in, trial = verifier("ctrf.json", `{"results":{"tests":[{"name":"a","status":"passed"}]}}`+strings.Repeat(" ", 8<<20))
	if _, ok := report.VerifierTests(in, trial); ok {
		t.Error("a file of more than 8 MiB was read")
	}
}

func FuzzVerifierTests(f *testing.F) {
	f.Add([]byte(`<testsuite><testcase name="a" time="NaN"><failure>x</failure></testcase></testsuite>`), true)
	f.Add([]byte(`{"results":{"tests":[{"name":"a","status":"failed","duration":-1e308}]}}`), false)
	f.Fuzz(func(t *testing.T, data []byte, asXML bool) {
		name := "ctrf.json"
		if asXML {
			name = "a.xml"
		}
		in, trial := verifier(name, string(data))
		tests, ok := report.VerifierTests(in, trial)
		if ok && (len(tests.List) == 0 || len(tests.List) > 1000 || len(tests.List) > tests.Passed+tests.Failed+tests.Skipped) {
			t.Errorf("%d tests, %d passed, %d failed, %d skipped", len(tests.List), tests.Passed, tests.Failed, tests.Skipped)
		}
		for _, test := range tests.List {
			if !(test.Seconds >= 0 && test.Seconds <= 1e9) || len(test.Name) > 2100 || len(test.Message) > 2100 {
				t.Errorf("%+v", test)
			}
		}
	})
}
