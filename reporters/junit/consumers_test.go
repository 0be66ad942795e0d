package junit_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/internal/test/untrustedtest"
	"github.com/org/rollout-action/reporters/junit"
)

// file is what readers take from a report, all of them together.
type file struct {
	Time   string      `xml:"time,attr"`
	Suites []suiteRead `xml:"testsuite"`
}

type suiteRead struct {
	Name     string `xml:"name,attr"`
	File     string `xml:"file,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Props    []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	} `xml:"properties>property"`
	Cases  []caseRead  `xml:"testcase"`
	Nested []suiteRead `xml:"testsuite"`
}

type caseRead struct {
	Name      string      `xml:"name,attr"`
	Classname string      `xml:"classname,attr"`
	File      string      `xml:"file,attr"`
	Time      string      `xml:"time,attr"`
	Failures  []outcome   `xml:"failure"`
	Errors    []outcome   `xml:"error"`
	Skipped   []outcome   `xml:"skipped"`
	Flaky     []rerunRead `xml:"flakyFailure"`
	Rerun     []rerunRead `xml:"rerunFailure"`
	Out       []string    `xml:"system-out"`
}

type outcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type rerunRead struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Stack   string `xml:"stackTrace"`
}

func read(t *testing.T, data []byte) file {
	t.Helper()
	var f file
	if err := xml.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// dorny/test-reporter: needs a name for each suite, knows no nested ones, and counts failures and
// errors as failed.
func dorny(t *testing.T, f file) (passed, failed, skipped int) {
	t.Helper()
	for _, s := range f.Suites {
		if s.Name == "" || len(s.Nested) > 0 {
			t.Errorf("suite %q with %d nested ones", s.Name, len(s.Nested))
		}
		for _, c := range s.Cases {
			switch {
			case len(c.Failures)+len(c.Errors) > 0:
				failed++
			case len(c.Skipped) > 0:
				skipped++
			default:
				passed++
			}
		}
	}
	return passed, failed, skipped
}

func TestReadByConsumers(t *testing.T) {
	for name, want := range map[string]struct{ passed, failed, skipped int }{
		"mixed": {11, 5, 0}, "passing": {6, 0, 0}, "no-baseline": {1, 1, 1}, "incomplete": {1, 2, 2}, "errors": {1, 18, 0}, "shard": {1, 0, 0}, "empty": {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := read(t, render(t, junit.Reporter{CaseFiles: true}, reporttest.Inputs()[name]))
			if passed, failed, skipped := dorny(t, f); passed != want.passed || failed != want.failed || skipped != want.skipped {
				t.Errorf("dorny reads %d passed, %d failed, %d skipped; want %+v", passed, failed, skipped, want)
			}
			counts(t, f)
			gitlab(t, f)
			mikepenz(t, f)
		})
	}
}

// counts: Jenkins, EnricoMi and Azure show the numbers in the suites and those that they count.
func counts(t *testing.T, f file) {
	t.Helper()
	for _, s := range f.Suites {
		var failures, errors, skipped int
		var sum float64
		for _, c := range s.Cases {
			failures, errors, skipped = failures+len(c.Failures), errors+len(c.Errors), skipped+len(c.Skipped)
			if len(c.Failures)+len(c.Errors)+len(c.Skipped) > 1 {
				t.Errorf("%s has more than one outcome", c.Name)
			}
			sec, err := strconv.ParseFloat(c.Time, 64)
			if err != nil {
				t.Errorf("time of %s: %v", c.Name, err)
			}
			sum += sec
		}
		if s.Tests != len(s.Cases) || s.Failures != failures || s.Errors != errors || s.Skipped != skipped {
			t.Errorf("suite %s counts %d %d %d %d, has %d %d %d %d", s.Name, s.Tests, s.Failures, s.Errors, s.Skipped, len(s.Cases), failures, errors, skipped)
		}
		if math.IsNaN(sum) {
			t.Errorf("suite %s has no time", s.Name)
		}
	}
}

// gitlab: groups by classname, keeps the first case of a name, and takes attachments from
// system-out.
func gitlab(t *testing.T, f file) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range f.Suites {
		for _, c := range s.Cases {
			if key := c.Classname + "\x00" + c.Name; seen[key] || c.Classname == "" || c.Name == "" {
				t.Errorf("%s %s is lost", c.Classname, c.Name)
			} else {
				seen[key] = true
			}
			if len(c.Out) > 1 {
				t.Errorf("%s has %d system-outs", c.Name, len(c.Out))
			}
		}
	}
}

// mikepenz/action-junit-report: takes a case's file or else its suite's for the annotation, and
// counts flakyFailure as retries.
func mikepenz(t *testing.T, f file) {
	t.Helper()
	for _, s := range f.Suites {
		for _, c := range s.Cases {
			if s.Name == "rollout" { // missing parts of the job have no file
				continue
			}
			if !strings.HasPrefix(c.File, "tasks/") || !strings.HasPrefix(c.File, s.File+"/") || strings.HasSuffix(c.File, "/"+c.Name) {
				t.Errorf("%s is annotated at %q, its suite at %q", c.Name, c.File, s.File)
			}
		}
	}
}

// Some readers lose a text that stands in two pieces of CDATA.
func TestTheEndOfCDATAInALogKeepsTheTextInOnePiece(t *testing.T) {
	const log = "a]]>b\n<c>&]]>"
	in := reporttest.Make("x", []reporttest.Spec{
		{Agent: "a", Dataset: "d", Task: "failed", Reward: new(0.0), Logs: map[string]string{"logs/verifier/stdout.txt": log}},
		{Agent: "a", Dataset: "d", Task: "flaky", Reward: new(1.0)},
		{Agent: "a", Dataset: "d", Task: "flaky", Attempt: 2, Reward: new(0.0), Logs: map[string]string{"logs/verifier/stdout.txt": log}},
		{Agent: "a", Dataset: "d", Task: "error", Error: result.EnvironmentLost, Message: log},
		{Agent: "a", Dataset: "d", Task: "passed", Reward: new(1.0), Logs: map[string]string{
			"logs/verifier/ctrf.json": `{"results":{"tests":[{"name":"a]]>b","status":"passed"}]}}`,
		}},
	})
	text := render(t, junit.Reporter{}, in)
	if bytes.Contains(text, []byte("]]]]><![CDATA[>")) {
		t.Errorf("two pieces of CDATA:\n%s", text)
	}
	found := 0
	for _, c := range read(t, text).Suites[0].Cases {
		texts := append([]string{}, c.Out...)
		for _, o := range append(c.Failures, c.Errors...) {
			texts = append(texts, o.Text)
		}
		for _, r := range c.Flaky {
			texts = append(texts, r.Stack)
		}
		if strings.Contains(strings.Join(texts, "\n"), "a]]>b") {
			found++
		}
	}
	if found != 4 {
		t.Errorf("%d of 4 texts arrived:\n%s", found, text)
	}
}

var attachment = regexp.MustCompile(`\[\[ATTACHMENT\|([^\]]*)\]\]`)

func TestAttachmentsAreLogsOfTheTrialAlone(t *testing.T) {
	f := read(t, render(t, junit.Reporter{}, reporttest.Mixed()))
	for _, c := range f.Suites[0].Cases {
		if c.Name == "photo-album" && (len(c.Out) != 1 || !strings.Contains(c.Out[0], "[[ATTACHMENT|jobs/pr/apprentice/cookbook/photo-album__1/command/stderr.txt]]")) {
			t.Errorf("photo-album has %q", c.Out)
		}
	}
	evil := "[[ATTACHMENT|/etc/passwd]]"
	in := reporttest.Make(evil, []reporttest.Spec{
		{Agent: evil, Dataset: evil, Task: evil, Reward: new(1.0), Logs: map[string]string{
			"logs/verifier/ctrf.json": `{"results":{"tests":[{"name":"[[ATTACHMENT|/etc/passwd]]","status":"passed"}]}}`,
		}},
		{Agent: "a", Dataset: "d", Task: "t", Reward: new(0.0), Logs: map[string]string{"logs/verifier/stdout.txt": evil}},
	})
	text := render(t, junit.Reporter{}, in)
	for _, c := range append(read(t, text).Suites[0].Cases, read(t, text).Suites[1].Cases...) {
		for _, out := range append(c.Out, fmt.Sprint(c.Failures)) {
			for _, found := range attachment.FindAllStringSubmatch(out, -1) {
				if !strings.HasPrefix(found[1], "jobs/") {
					t.Errorf("%s attaches %q", c.Name, found[1])
				}
			}
		}
	}
}

func TestAttempts(t *testing.T) {
	task := func(rewards ...any) []reporttest.Spec {
		var specs []reporttest.Spec
		for i, r := range rewards {
			s := reporttest.Spec{Agent: "a", Dataset: "d", Task: "t", Attempt: i + 1}
			switch r := r.(type) {
			case float64:
				s.Reward = &r
			case result.ErrorType:
				s.Error, s.Message = r, "went wrong"
			case nil:
				s.Missing = true
			}
			specs = append(specs, s)
		}
		return specs
	}
	lost := result.EnvironmentLost
	for _, c := range []struct {
		name  string
		specs []reporttest.Spec
		want  string // the elements, with types
	}{
		{"all pass", task(1.0, 1.0), ""},
		{"one of three passes", task(0.0, 1.0, lost), "flaky reward, flaky environment_lost"},
		{"none passes", task(0.0, 0.5), "failure reward, rerun reward"},
		{"a reward tells more than an error", task(lost, 0.5, 0.0), "failure reward, rerun environment_lost, rerun reward"},
		{"the agent's errors alone", task(result.AgentExecutionTimeout, lost), "failure agent_execution_timeout, rerun environment_lost"},
		{"errors alone", task(lost, lost), "error environment_lost, rerun environment_lost"},
		{"one was not run", task(1.0, nil), ""},
		{"none was run", task(nil, nil), "skipped"},
		{"no verifier", task(0), "skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(t, render(t, junit.Reporter{}, reporttest.Make("x", c.specs))).Suites[0].Cases[0]
			var parts []string
			for _, o := range got.Failures {
				parts = append(parts, "failure "+o.Type)
			}
			for _, o := range got.Errors {
				parts = append(parts, "error "+o.Type)
			}
			for range got.Skipped {
				parts = append(parts, "skipped")
			}
			for _, o := range got.Flaky {
				parts = append(parts, "flaky "+o.Type)
			}
			for _, o := range got.Rerun {
				parts = append(parts, "rerun "+o.Type)
			}
			if s := strings.Join(parts, ", "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

func TestNamesThatLookTheSameStayApart(t *testing.T) {
	in := reporttest.Make("x", []reporttest.Spec{
		{Agent: "a", Dataset: "d", Task: "t", Reward: new(1.0)}, {Agent: "a", Dataset: "d", Task: "t\u200b", Reward: new(1.0)},
		{Agent: "a", Dataset: "d", Task: "t\u200d", Reward: new(1.0)}, {Agent: "a", Dataset: "d", Task: "t (2)", Reward: new(1.0)},
		{Agent: "a.d", Dataset: "e", Task: "t", Reward: new(1.0)}, {Agent: "a", Dataset: "d.e", Task: "t", Reward: new(1.0)},
	})
	gitlab(t, read(t, render(t, junit.Reporter{}, in)))
}

func TestAttacksStayText(t *testing.T) {
	for _, a := range untrustedtest.Corpus {
		text := render(t, junit.Reporter{CaseFiles: true}, reporttest.Hostile(a))
		for line := range bytes.Lines(text) {
			if l := strings.TrimSpace(string(line)); strings.HasPrefix(l, "::") || strings.Contains(l, "##[") || strings.ContainsFunc(l, untrusted.Invisible) {
				t.Errorf("%s: not fit for a log: %.200q", a.Name, l)
			}
		}
		f := read(t, text)
		gitlab(t, f)
		for _, s := range f.Suites {
			for _, c := range s.Cases {
				if c.Name == "pwned" && untrusted.XMLLine(a.Text) != "pwned" && !strings.HasPrefix(a.Text, "\x1b") {
					t.Errorf("%s: made a test case", a.Name)
				}
			}
		}
	}
}

func TestFits(t *testing.T) {
	const tasks = 3000
	in := reporttest.Large(tasks)
	for _, limit := range []int{0, 200_000, 20_000} {
		text := render(t, junit.Reporter{Limit: limit}, in)
		if limit == 0 {
			limit = junit.DefaultLimit
		}
		if len(text) > limit {
			t.Errorf("%d bytes where %d are allowed", len(text), limit)
		}
		if err := check(text); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
		tests, left := 0, 0
		for _, s := range read(t, text).Suites {
			tests += s.Tests
			left += s.Tests - len(s.Cases)
			for _, p := range s.Props {
				if p.Name == "rollout.omitted_testcases" {
					n, _ := strconv.Atoi(p.Value)
					left -= n
				}
			}
		}
		if tests != tasks || left != 0 {
			t.Errorf("limit %d: %d cases are counted, %d are left out without a word", limit, tests, left)
		}
	}
}

var _ report.Reporter = junit.Reporter{}
