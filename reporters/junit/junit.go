package junit

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// DefaultLimit is below 30 MB, the most that GitLab reads.
const DefaultLimit = 29_000_000

// Reporter writes JUnit XML.
type Reporter struct {
	// Limit is the largest size of the document in bytes; 0 means DefaultLimit. A larger document
	// loses excerpts of logs first, then cases that passed, then all cases. The counts of a suite
	// still include them, and a property has the number of cases left out.
	Limit int
	// CaseFiles adds the attribute file to test cases, with the main file of the task. See the
	// package's documentation.
	CaseFiles bool
}

// document, suite and testcase extend the library's types. Their fields hide the embedded ones of
// the same element.
type document struct {
	XMLName xml.Name `xml:"testsuites"`
	junit.Testsuites
	Suites []suite `xml:"testsuite"`
}

type suite struct {
	junit.Testsuite
	Testcases []testcase `xml:"testcase"`
}

type testcase struct {
	junit.Testcase
	File      string   `xml:"file,attr,omitempty"`
	Skipped   *outcome `xml:"skipped"`
	Error     *outcome `xml:"error"`
	Failure   *outcome `xml:"failure"`
	SystemOut *block   `xml:"system-out"`
	Flaky     []rerun  `xml:"flakyFailure"`
	Rerun     []rerun  `xml:"rerunFailure"`
}

// size returns the bytes of the case's texts, which is less than the case takes in the document.
func (t *testcase) size() int {
	n := len(t.Classname) + len(t.Name)
	if t.SystemOut != nil {
		n += t.SystemOut.size()
	}
	for _, o := range []*outcome{t.Skipped, t.Error, t.Failure} {
		if o != nil {
			n += len(o.Message) + o.size()
		}
	}
	for _, runs := range [][]rerun{t.Flaky, t.Rerun} {
		for _, r := range runs {
			n += len(r.Message) + r.StackTrace.size()
		}
	}
	return n
}

type outcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	block
}

type rerun struct {
	Message    string `xml:"message,attr"`
	Type       string `xml:"type,attr"`
	StackTrace block  `xml:"stackTrace"`
}

// block is text of several lines, written as CDATA, which is readable in the file. Text that
// contains the end of CDATA is escaped instead, because some readers lose text in two sections of
// CDATA or insert something between them.
type block struct {
	CData   string `xml:",cdata"`
	Escaped string `xml:",chardata"`
}

func (b block) size() int { return len(b.CData) + len(b.Escaped) }

// blockOf returns a block with the text.
func blockOf(text string) block {
	if strings.Contains(text, "]]>") {
		return block{Escaped: text}
	}
	return block{CData: text}
}

// detail says what a document contains. details lists the levels in the order in which Write tries
// them.
type detail struct {
	excerpts       bool
	passing, cases bool
}

var details = []detail{{true, true, true}, {false, true, true}, {false, false, true}, {false, false, false}}

// Write implements report.Reporter.
func (r Reporter) Write(w io.Writer, in report.Input) error {
	limit := cmp.Or(r.Limit, DefaultLimit)
	in.Files = report.LookOnce(in.Files)
	cases := report.Cases(in)
	for i, d := range details {
		b := builder{in: in, cases: cases, detail: d, files: r.CaseFiles, excerpt: excerptSize(cases, limit), names: map[string]int{}, limit: limit}
		if i == len(details)-1 {
			b.limit = math.MaxInt // there is nothing else to leave out
		}
		text, err := b.text()
		if errors.Is(err, errTooLarge) {
			continue
		}
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	return nil
}

// text returns the document. The error is errTooLarge if it is larger than the limit: then the rest
// of it is not built, and no log is read for it.
func (b *builder) text() ([]byte, error) {
	doc := b.document()
	if b.size > b.limit {
		return nil, errTooLarge
	}
	return encode(doc, b.limit)
}

var errTooLarge = errors.New("the document is larger than its limit")

// limited is a buffer that refuses more than limit bytes.
type limited struct {
	kept  bytes.Buffer // not embedded: its other methods know no limit
	limit int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.kept.Len()+len(p) > l.limit {
		return 0, errTooLarge
	}
	return l.kept.Write(p)
}

// excerptSize returns how many bytes of logs each failed attempt may show, so that all of them take
// half of limit.
func excerptSize(cases []report.Case, limit int) int {
	attempts := 0
	for _, c := range cases {
		if c.State != report.Passed {
			attempts += len(c.Attempts)
		}
	}
	return min(limit/2/max(attempts, 1), 16<<10)
}

func encode(doc document, limit int) ([]byte, error) {
	b := limited{limit: limit}
	enc := xml.NewEncoder(&b)
	enc.Indent("", "  ")
	_, err := b.Write([]byte(xml.Header))
	if err == nil {
		err = enc.Encode(doc)
	}
	if err == nil {
		_, err = b.Write([]byte("\n"))
	}
	return b.kept.Bytes(), err
}

// builder builds one document.
type builder struct {
	in      report.Input
	cases   []report.Case
	detail  detail
	files   bool
	excerpt int            // bytes of logs for each attempt
	names   map[string]int // how often a class and name were used
	limit   int            // of the document in bytes
	size    int            // the bytes that the cases of the document have at least
}

func (b *builder) document() document {
	var doc document
	doc.Name, doc.Time = cmp.Or(untrusted.XMLLine(b.in.Job.JobName), "rollout"), seconds(b.in.Job.TotalDurationSec)
	if s := b.incomplete(); s != nil {
		doc.add(*s)
	}
	for from := 0; from < len(b.cases) && b.size <= b.limit; {
		to := from
		for to < len(b.cases) && b.cases[to].Agent == b.cases[from].Agent && b.cases[to].Dataset == b.cases[from].Dataset {
			to++
		}
		doc.add(b.suite(b.cases[from:to]))
		from = to
	}
	return doc
}

// add appends a suite and counts its cases.
func (d *document) add(s suite) {
	s.ID = len(d.Suites)
	d.Testsuites.AddSuite(s.Testsuite)
	d.Testsuites.Suites, d.Skipped = nil, 0 // the root has no such attribute in junit-10.xsd
	d.Suites = append(d.Suites, s)
}

// incomplete returns a suite that fails if something is missing from the job; nil if nothing is.
func (b *builder) incomplete() *suite {
	if len(b.in.Incomplete) == 0 {
		return nil
	}
	var s suite
	s.Name, s.Time = "rollout", seconds(0)
	s.SetTimestamp(b.in.Job.StartedAt.UTC())
	c := testcase{Testcase: junit.Testcase{Classname: "rollout", Name: "the job is complete", Time: seconds(0)}}
	c.Error = &outcome{
		Message: untrusted.Cut(untrusted.XMLLine(b.in.Incomplete[0]), maxMessage), Type: "incomplete",
		block: blockOf(untrusted.Cut(text(strings.Join(b.in.Incomplete, "\n")), maxText)),
	}
	s.add(c)
	return &s
}

// add appends a case and counts it.
func (s *suite) add(c testcase) {
	counted := junit.Testcase{}
	if c.Error != nil {
		counted.Error = &junit.Result{}
	}
	if c.Failure != nil {
		counted.Failure = &junit.Result{}
	}
	if c.Skipped != nil {
		counted.Skipped = &junit.Result{}
	}
	s.AddTestcase(counted)
	s.Testsuite.Testcases = nil
	s.Testcases = append(s.Testcases, c)
}

// suite returns the suite of one agent on one dataset.
func (b *builder) suite(cases []report.Case) suite {
	var s suite
	agent, dataset := untrusted.XMLLine(cases[0].Agent), untrusted.XMLLine(cases[0].Dataset)
	s.Name = cut(agent + "/" + dataset)
	s.File = cut(untrusted.XMLLine(commonDir(cases)))
	s.SetTimestamp(b.in.Job.StartedAt.UTC())
	b.properties(&s, cases[0])
	classname := cut(agent + "." + dataset)
	total, left := 0.0, 0
	for _, c := range cases {
		if b.size > b.limit {
			break
		}
		total += c.Seconds()
		tc := b.testcase(c)
		tc.Classname, tc.Name = classname, unique(b.names, classname, cut(cmp.Or(untrusted.XMLLine(c.Task), "task")))
		s.add(tc)
		if !b.detail.cases || !b.detail.passing && c.State == report.Passed {
			s.Testcases = s.Testcases[:len(s.Testcases)-1]
			left++
		} else {
			b.size += tc.size()
		}
	}
	if left > 0 {
		s.AddProperty("rollout.omitted_testcases", strconv.Itoa(left))
	}
	s.Time = seconds(total)
	return s
}

// unique returns the name, with a number if the class already uses it: different names may become
// equal when they are made safe, and "a.b" on "c" has the class of "a" on "b.c". names counts how
// often a class and name were used.
func unique(names map[string]int, classname, name string) string {
	key := func(name string) string { return classname + "\x00" + name }
	n := names[key(name)]
	names[key(name)]++
	if n == 0 {
		return name
	}
	for {
		n++
		if numbered := name + " (" + strconv.Itoa(n) + ")"; names[key(numbered)] == 0 {
			names[key(numbered)], names[key(name)] = 1, n
			return numbered
		}
	}
}

// properties adds the suite's numbers and their origin.
func (b *builder) properties(s *suite, c report.Case) {
	add := func(name, value string) {
		if value != "" {
			s.AddProperty("rollout."+name, cut(untrusted.XMLLine(value)))
		}
	}
	add("agent", c.Agent)
	add("dataset", c.Dataset)
	if b.in.Job.Commit != nil {
		add("commit", *b.in.Job.Commit)
	}
	add("plan_digest", b.in.Job.PlanDigest)
	for _, g := range b.in.Groups {
		if g.Agent == c.Agent && g.Dataset == c.Dataset {
			add("trials", strconv.Itoa(g.TotalTrials))
			add("pass_rate", number(g.PassRate))
			add("mean_reward", number(g.MeanReward))
			if usd, ok := g.TotalCost.Reported(); ok {
				name := "cost_usd"
				if g.TotalCost.AtLeast() {
					name = "cost_usd_at_least"
				}
				add(name, number(usd))
			}
			for _, score := range g.Scores {
				if score.Mean != nil {
					add("score."+score.Name, number(*score.Mean))
				}
			}
			if g.ReusedTrials > 0 { // copied from another job instead of run
				add("reused_trials", strconv.Itoa(g.ReusedTrials))
			}
		}
	}
	add("verdict", string(b.in.Verdict.Outcome))
	if b.in.Verdict.Advised {
		add("gate_mode", string(gate.ModeAdvise))
	}
	add("baseline", b.in.Baseline)
	add("run", b.in.Links.Run)
}

// commonDir returns the deepest directory that contains all tasks of a suite; "" if that is the
// root or unknown.
func commonDir(cases []report.Case) string {
	var common []string
	for i, c := range cases {
		if c.Path == "" {
			return ""
		}
		parts := strings.Split(path.Dir(c.Path), "/")
		if i == 0 {
			common = parts
		}
		n := 0
		for n < min(len(parts), len(common)) && parts[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	if dir := strings.Join(common, "/"); dir != "." {
		return dir
	}
	return ""
}

// testcase returns the case of one task, without its names.
func (b *builder) testcase(c report.Case) testcase {
	var tc testcase
	tc.Time = seconds(c.Seconds())
	if b.files {
		tc.File = cut(untrusted.XMLLine(c.File()))
	}
	var out []string
	if c.Expected() {
		tc.Skipped = &outcome{Message: "nop does nothing, and did not pass: the task is sound"}
		return tc
	}
	switch c.State {
	case report.Passed:
		out = b.passed(c)
	case report.Skipped:
		tc.Skipped = &outcome{Message: "this task was not run"}
	case report.Unverified:
		tc.Skipped = &outcome{Message: "no verifier judged this task"}
	default:
		b.addFailures(&tc, c)
	}
	if text := c.ConfirmedText(); text != "" {
		out = append(out, text)
		for _, o := range []*outcome{tc.Failure, tc.Error} {
			if o != nil {
				o.Message = untrusted.Cut(o.Message, maxMessage-len(text)-len(" ()")) + " (" + text + ")"
			}
		}
	}
	out = append(out, b.attachments(c)...)
	if len(out) > 0 {
		out := blockOf(strings.Join(out, "\n"))
		tc.SystemOut = &out
	}
	return tc
}

// addFailures adds the attempts that did not pass to a case.
func (b *builder) addFailures(tc *testcase, c report.Case) {
	first := c.FirstFailure()
	for _, a := range c.Attempts {
		if a.Trial.Passed() || !a.Trial.Completed() && !a.Trial.Failed() {
			continue
		}
		switch t := a.Trial.Unpack(); {
		case c.State == report.Flaky, c.NotBroken():
			tc.Flaky = append(tc.Flaky, rerunOf(b.failure(c, *t)))
		case t.Key == first.Key && (t.Completed() || t.Error.Type.Fault() == result.FaultAgent):
			tc.Failure = b.failure(c, *t)
		case t.Key == first.Key:
			tc.Error = b.failure(c, *t)
		default:
			tc.Rerun = append(tc.Rerun, rerunOf(b.failure(c, *t)))
		}
	}
}

func rerunOf(o *outcome) rerun {
	return rerun{Message: o.Message, Type: o.Type, StackTrace: o.block}
}

func number(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "0"
	}
	return strconv.FormatFloat(math.Round(f*1e6)/1e6, 'f', -1, 64)
}

// seconds formats a duration as all readers accept it: digits and three decimals.
func seconds(sec float64) string {
	if !(sec > 0 && sec < 1e12) {
		sec = 0
	}
	return strconv.FormatFloat(sec, 'f', 3, 64)
}
