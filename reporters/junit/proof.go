package junit

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/prove"
)

// Proof writes the report of rollout validate --run: a suite for each dataset with a case for each
// task. A task that is not proven is a failure whose type is the verdict; one without any result is
// an error. Warnings are in system-out. All attributes are in Jenkins' junit-10.xsd.
func Proof(w io.Writer, in prove.Report) error {
	doc := junit.Testsuites{Name: "rollout validate"}
	names := map[string]int{}
	total := 0.0
	for from := 0; from < len(in.Tasks); {
		to := from
		for to < len(in.Tasks) && in.Tasks[to].Dataset == in.Tasks[from].Dataset {
			to++
		}
		s := proofSuite(in, in.Tasks[from:to], names)
		s.ID = len(doc.Suites)
		doc.AddSuite(s)
		for _, p := range in.Tasks[from:to] {
			total += p.Seconds()
		}
		from = to
	}
	doc.Time = seconds(total)
	doc.Skipped = 0 // the root has no such attribute in that schema
	var b bytes.Buffer
	b.WriteString(xml.Header)
	enc := xml.NewEncoder(&b)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// proofSuite returns the suite of a dataset.
func proofSuite(in prove.Report, tasks []prove.TaskReport, names map[string]int) junit.Testsuite {
	dataset := cmp.Or(untrusted.Cut(untrusted.XMLLine(tasks[0].Dataset), maxProofName), "dataset")
	s := junit.Testsuite{Name: dataset}
	s.SetTimestamp(in.StartedAt.UTC())
	if in.Dir != "" {
		s.AddProperty("rollout.job_dir", untrusted.Cut(untrusted.XMLLine(in.Dir), maxMessage))
	}
	total := 0.0
	for _, p := range tasks {
		total += p.Seconds()
		c := junit.Testcase{Classname: "validate." + dataset, Time: seconds(p.Seconds())}
		c.Name = unique(names, c.Classname, cmp.Or(untrusted.Cut(untrusted.XMLLine(p.Task), maxProofName), "task"))
		outcome := &junit.Result{Message: proofMessage(p), Type: string(p.Verdict), Data: findingsText(p, prove.Finding.Counts)}
		switch {
		case p.Passed():
		case p.Verdict.NothingKnown():
			c.Error = outcome
		default:
			c.Failure = outcome
		}
		if rest := findingsText(p, func(f prove.Finding) bool { return !f.Counts() }); rest != "" {
			c.SystemOut = &junit.Output{Data: rest}
		}
		s.AddTestcase(c)
	}
	s.Time = seconds(total)
	return s
}

// Bounds of texts about a proven task, in bytes.
const (
	maxProofName = 250
	maxFindings  = 64 << 10
)

// proofMessage returns a task's verdict in one line.
func proofMessage(p prove.TaskReport) string {
	out := p.Verdict.Words()
	if runs := p.Runs.String(); runs != "" {
		out += " (" + runs + ")"
	}
	for _, f := range p.Findings {
		if f.Counts() {
			out += ": " + f.Message
			break
		}
	}
	return untrusted.Cut(untrusted.XMLLine(out), maxMessage)
}

// findingsText returns a task's findings of some kind, in two lines each.
func findingsText(p prove.TaskReport, kind func(prove.Finding) bool) string {
	var lines []string
	for _, f := range p.Findings {
		if !kind(f) {
			continue
		}
		line := untrusted.Line(p.PlaceInRepository(f)) + ": " + string(f.Severity) + ": " + untrusted.Line(f.Message) + " [" + f.Rule + "]"
		switch {
		case f.Ignored != "":
			line += "\n    ignored: " + untrusted.Line(f.Ignored)
		case f.Hint != "":
			line += "\n    " + untrusted.Line(f.Hint)
		}
		lines = append(lines, line)
	}
	return untrusted.Cut(untrusted.XML(strings.Join(lines, "\n")), maxFindings)
}
