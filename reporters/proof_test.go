package reporters_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/internal/test/untrustedtest"
	"github.com/org/rollout-action/reporters"
	reporterjson "github.com/org/rollout-action/reporters/json"
	"github.com/org/rollout-action/reporters/markdown"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, format string, in prove.Report) string {
	t.Helper()
	var b bytes.Buffer
	f, _ := reporters.All.Find(format)
	must(t, f.Proof(&b, in, reporters.Options{}))
	return b.String()
}

// runs returns trials of a task with these rewards, each 1.5 s long.
func runs(agent, dataset, task string, rewards ...float64) []result.Trial {
	var out []result.Trial
	for i, r := range rewards {
		zero := 0
		t := result.Trial{Key: result.Key{Agent: agent, Dataset: dataset, Task: task, Attempt: i + 1}, Reward: &r, VerifierExitCode: &zero}
		t.Durations.TotalSec = 1.5
		out = append(out, t)
	}
	return out
}

func of(dataset, task string, verdict prove.Verdict, oracle, nop []float64, findings ...prove.Finding) prove.TaskReport {
	return prove.TaskReport{
		Dataset: dataset, Task: task, Dir: "../" + dataset + "/" + task, Path: "evals/" + task, Verdict: verdict, Findings: findings,
		Runs: prove.Runs{Oracle: runs("oracle", dataset, task, oracle...), Nop: runs("nop", dataset, task, nop...), OracleWanted: 3, NopWanted: 1},
	}
}

// every returns a report with every verdict and kind of finding.
func every() prove.Report {
	lost := of("other", "lost", prove.Unknown, []float64{1, 1}, []float64{0},
		prove.Finding{Rule: "not-run", Severity: prove.Error, Message: "a run of oracle failed for reasons outside of the task (environment_lost): the engine went away", Hint: "run it again: nothing is known about the task"})
	lost.Runs.Oracle = append(lost.Runs.Oracle, result.Trial{
		Key: result.Key{Agent: "oracle", Dataset: "other", Task: "lost", Attempt: 3}, Error: &result.Error{Type: result.EnvironmentLost, Message: "the engine went away"},
	})
	lost.Path = ""
	return prove.Report{
		Dir: "jobs/validate", Notes: []string{"8 of 20 tasks changed since main"}, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Tasks: []prove.TaskReport{
			of("evals", "broken", prove.Broken, []float64{0, 0, 0}, []float64{0},
				prove.Finding{Rule: "oracle-fails", Severity: prove.Error, File: "tests/test.sh", Message: "the solution never scores 1: its runs came to 0, 0, 0", Hint: "mend the solution or the tests"}),
			of("evals", "flaky", prove.Flaky, []float64{1, 0, 1}, []float64{0},
				prove.Finding{Rule: "flaky", Severity: prove.Error, File: "tests/test.sh", Message: "the oracle's 3 runs came to 1, 0, 1", Hint: "compare the logs"},
				prove.Finding{Rule: "verifier-network", Severity: prove.Warning, File: "tests/test.sh", Line: 3, Message: "the verifier needs the network: it runs pip install", Hint: "install its dependencies while the image is built"}),
			of("evals", "flawed", prove.Flawed, []float64{1, 1, 1}, []float64{0},
				prove.Finding{Rule: "secret", Severity: prove.Error, File: "environment/.env", Line: 1, Column: 7, Message: "this looks like a GitHub token (ghp_…, 40 characters)", Hint: "revoke it"}),
			of("evals", "no-solution", prove.NoSolution, nil, []float64{0},
				prove.Finding{Rule: "no-solution", Severity: prove.Error, File: "task.toml", Message: "there is no solution/solve.sh", Hint: "add one that scores 1"}),
			of("evals", "proven", prove.Proven, []float64{1, 1, 1}, []float64{0}),
			of("evals", "proven-with-care", prove.Proven, []float64{1, 1, 1}, []float64{0.5},
				prove.Finding{Rule: "workdir", Severity: prove.Warning, File: "environment/Dockerfile", Line: 1, Message: "there is no WORKDIR", Hint: "add WORKDIR"},
				prove.Finding{Rule: "unpinned-image", Severity: prove.Warning, File: "environment/Dockerfile", Line: 1, Message: "the tag moves", Hint: "pin it", Ignored: "the task is about what is new"}),
			of("evals", "trivial", prove.Trivial, []float64{1, 1, 1}, []float64{1},
				prove.Finding{Rule: "nop-passes", Severity: prove.Error, File: "tests/test.sh", Message: "doing nothing scores 1 (once)", Hint: "test something"}),
			lost,
		},
	}
}

func TestProofs(t *testing.T) {
	for format, name := range map[string]string{"json": "every.json", "junit": "every.xml", "annotations": "every.txt", "markdown": "every.md"} {
		t.Run(format, func(t *testing.T) {
			got := write(t, format, every())
			path := filepath.Join("testdata", "proof", name)
			if *update {
				must(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			must(t, err)
			if got != string(want) {
				t.Errorf("differs from %s (-update rewrites it):\n%s", path, got)
			}
			if again := write(t, format, every()); again != got {
				t.Error("two calls with one input wrote different bytes")
			}
		})
	}
}

func TestProofsOfNothing(t *testing.T) {
	for _, format := range reporters.All.Proofs().Names() {
		text := write(t, format, prove.Report{})
		switch format {
		case "json":
			var doc reporterjson.ProofDocument
			must(t, json.Unmarshal([]byte(text), &doc))
			if doc.Outcome != prove.Passed || doc.Tasks == nil || doc.Notes == nil {
				t.Errorf("json: %s", text)
			}
		case "junit":
			checkXML(t, text, 0)
		case "annotations":
			if text != "" {
				t.Errorf("annotations: %q", text)
			}
		}
	}
}

// attributes are those in junit-10.xsd of Jenkins' xunit plugin, for the elements that are written.
var attributes = map[string][]string{
	"testsuites": {"name", "time", "tests", "failures", "errors"},
	"testsuite":  {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package"},
	"properties": nil, "property": {"name", "value"}, "testcase": {"name", "time", "classname"},
	"failure": {"type", "message"}, "error": {"type", "message"}, "system-out": nil,
}

// checkXML checks a file against the schema and counts its cases.
func checkXML(t *testing.T, text string, cases int) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(text))
	n := 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if start, ok := token.(xml.StartElement); ok {
			known, ok := attributes[start.Name.Local]
			if !ok {
				t.Errorf("there is a <%s>", start.Name.Local)
			}
			for _, a := range start.Attr {
				if !slices.Contains(known, a.Name.Local) {
					t.Errorf("<%s> has the attribute %s", start.Name.Local, a.Name.Local)
				}
			}
			if start.Name.Local == "testcase" {
				n++
			}
		}
	}
	if n != cases {
		t.Errorf("%d cases, want %d", n, cases)
	}
}

// hostile returns a report in which every text is an attack.
func hostile(text string) prove.Report {
	finding := func(severity prove.Severity) prove.Finding {
		return prove.Finding{Rule: "secret", Severity: severity, File: text, Line: 1, Message: text, Hint: text}
	}
	ignored := finding(prove.Warning)
	ignored.Ignored = text
	p := of(text, text, prove.Flawed, []float64{1}, []float64{0}, finding(prove.Error), finding(prove.Warning), ignored)
	p.Dir, p.Path = text, text
	return prove.Report{Tasks: []prove.TaskReport{p, p}, Dir: text, Notes: []string{text}}
}

func TestAttacksInProofsStayText(t *testing.T) {
	for _, a := range untrustedtest.Corpus {
		in := hostile(a.Text)
		texts := map[string]string{}
		for _, format := range reporters.All.Proofs().Names() {
			texts[format] = write(t, format, in)
		}
		var page bytes.Buffer
		must(t, markdown.Proof(&page, in, 50_000))
		texts["markdown"] = page.String()
		checkXML(t, texts["junit"], 2)
		for _, problem := range untrustedtest.Markdown(page.Bytes()) {
			t.Errorf("%s: Markdown: %s", a.Name, problem)
		}
		lines := strings.Split(strings.TrimSuffix(texts["annotations"], "\n"), "\n")
		if len(lines) != 4 && a.Text != "" {
			t.Errorf("%s: %d annotations: %q", a.Name, len(lines), lines)
		}
		for _, line := range lines {
			if !strings.HasPrefix(line, "::error file=") && !strings.HasPrefix(line, "::warning file=") || strings.ContainsFunc(line, untrusted.Invisible) {
				t.Errorf("%s: annotation %q", a.Name, line)
			}
		}
		for format, text := range texts {
			for line := range strings.Lines(text) {
				l := strings.TrimSpace(line)
				if format != "annotations" && strings.HasPrefix(l, "::") || strings.Contains(l, "##[") {
					t.Errorf("%s: %s: %q", a.Name, format, l)
				}
			}
		}
		var doc reporterjson.ProofDocument
		must(t, json.Unmarshal([]byte(texts["json"]), &doc))
		if got := doc.Tasks[0].Findings[0].Message; utf8.ValidString(a.Text) && got != a.Text {
			t.Errorf("%s: JSON has %q", a.Name, got)
		}
	}
}

// What does not fit into the runner's limits is counted.
func TestProofsFit(t *testing.T) {
	var in prove.Report
	for i := range 3000 {
		in.Tasks = append(in.Tasks, of("evals", fmt.Sprintf("task-%d", i), prove.Flawed, []float64{1}, []float64{0},
			prove.Finding{Rule: "secret", Severity: prove.Error, File: "x", Message: strings.Repeat("long ", 200), Hint: "h"}))
	}
	text := write(t, "annotations", in)
	if n := strings.Count(text, "\n"); n != 10 || !strings.HasSuffix(text, "::and 2991 more of this kind: see the job summary\n") {
		t.Errorf("%d annotations, the last: %s", n, text[max(0, len(text)-100):])
	}
	for _, limit := range []int{1, 500, 20_000, markdown.DefaultProofLimit} {
		var b bytes.Buffer
		must(t, markdown.Proof(&b, in, limit))
		if b.Len() > max(limit, 500) || !strings.Contains(b.String(), "0 of 3000 proven") || !strings.Contains(b.String(), "did not fit") {
			t.Errorf("limit %d: %d bytes", limit, b.Len())
		}
	}
	checkXML(t, write(t, "junit", in), 3000)
}
