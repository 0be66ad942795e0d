package provereport

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/prove"
)

// JUnit writes a suite for each dataset with a case for each task. A task that is not proven is a
// failure whose type is the verdict; one without any result is an error. Warnings are in
// system-out. All attributes are in Jenkins' junit-10.xsd.
func JUnit(w io.Writer, in prove.Report) error {
	doc := junit.Testsuites{Name: "rollout validate"}
	names := map[string]int{}
	total := 0.0
	for from := 0; from < len(in.Tasks); {
		to := from
		for to < len(in.Tasks) && in.Tasks[to].Dataset == in.Tasks[from].Dataset {
			to++
		}
		s := suite(in, in.Tasks[from:to], names)
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

func suite(in prove.Report, tasks []prove.TaskReport, names map[string]int) junit.Testsuite {
	dataset := cmp.Or(untrusted.Cut(untrusted.XMLLine(tasks[0].Dataset), maxName), "dataset")
	s := junit.Testsuite{Name: dataset}
	s.SetTimestamp(in.StartedAt.UTC())
	if in.Dir != "" {
		s.AddProperty("rollout.job_dir", untrusted.Cut(untrusted.XMLLine(in.Dir), maxLine))
	}
	total := 0.0
	for _, p := range tasks {
		total += p.Seconds()
		c := junit.Testcase{Classname: "validate." + dataset, Time: seconds(p.Seconds())}
		c.Name = unique(names, c.Classname, cmp.Or(untrusted.Cut(untrusted.XMLLine(p.Task), maxName), "task"))
		outcome := &junit.Result{Message: message(p), Type: string(p.Verdict), Data: text(p, prove.Finding.Counts)}
		switch {
		case p.Passed():
		case p.Verdict.NothingKnown():
			c.Error = outcome
		default:
			c.Failure = outcome
		}
		if rest := text(p, func(f prove.Finding) bool { return !f.Counts() }); rest != "" {
			c.SystemOut = &junit.Output{Data: rest}
		}
		s.AddTestcase(c)
	}
	s.Time = seconds(total)
	return s
}

// Bounds of texts, in bytes.
const (
	maxName = 250
	maxLine = 1000
	maxText = 64 << 10
)

// unique returns the name, with a number if the class already has it: different names may become
// equal when they are made safe, and readers keep only the first of a name.
func unique(names map[string]int, class, name string) string {
	for n := 1; ; n++ {
		try := name
		if n > 1 {
			try += " (" + strconv.Itoa(n) + ")"
		}
		if key := class + "\x00" + try; names[key] == 0 {
			names[key] = 1
			return try
		}
	}
}

// message returns a task's verdict in one line.
func message(p prove.TaskReport) string {
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
	return untrusted.Cut(untrusted.XMLLine(out), maxLine)
}

// text returns a task's findings of some kind, in two lines each.
func text(p prove.TaskReport, kind func(prove.Finding) bool) string {
	var lines []string
	for _, f := range p.Findings {
		if !kind(f) {
			continue
		}
		line := untrusted.Line(place(p, f)) + ": " + string(f.Severity) + ": " + untrusted.Line(f.Message) + " [" + f.Rule + "]"
		switch {
		case f.Ignored != "":
			line += "\n    ignored: " + untrusted.Line(f.Ignored)
		case f.Hint != "":
			line += "\n    " + untrusted.Line(f.Hint)
		}
		lines = append(lines, line)
	}
	return untrusted.Cut(untrusted.XML(strings.Join(lines, "\n")), maxText)
}

// seconds formats a time as all readers accept it: digits with three decimals.
func seconds(sec float64) string {
	if !(sec > 0 && sec < 1e12) || math.IsNaN(sec) {
		sec = 0
	}
	return strconv.FormatFloat(sec, 'f', 3, 64)
}
