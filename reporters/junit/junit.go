package junit

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net"
	"path"
	"slices"
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

// testcase extends the library's type. Its fields hide the embedded ones of the same element.
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
		b := builder{in: in, cases: cases, detail: d, files: r.CaseFiles, excerpt: excerptSize(cases, limit), names: map[string]int{}, out: pieces{limit: limit}}
		if i == len(details)-1 {
			b.out.limit = math.MaxInt // there is nothing else to leave out
		}
		err := b.document()
		if errors.Is(err, errTooLarge) {
			continue
		}
		if err == nil {
			_, err = (*net.Buffers)(&b.out.all).WriteTo(w)
		}
		return err
	}
	return nil
}

var errTooLarge = errors.New("the document is larger than its limit")

// pieces is a text in pieces. It refuses more than limit bytes: then the rest of a document is not
// built, and no log is read for it.
type pieces struct {
	all         [][]byte
	size, limit int
}

func (p *pieces) Write(data []byte) (int, error) {
	const most = 64 << 10
	if p.size += len(data); p.size > p.limit {
		return 0, errTooLarge
	}
	if last := len(p.all) - 1; last < 0 || len(p.all[last])+len(data) > cap(p.all[last]) {
		p.all = append(p.all, make([]byte, 0, max(most, len(data))))
	}
	last := &p.all[len(p.all)-1]
	*last = append(*last, data...)
	return len(data), nil
}

// reserve returns a place for around.
func (p *pieces) reserve() int {
	p.all = append(p.all, nil)
	return len(p.all) - 1
}

// around writes an element around what was written since its place was reserved, if anything was.
func (p *pieces) around(place int, before string, element any, name, indent string) error {
	var text bytes.Buffer
	text.WriteString(before)
	enc := xml.NewEncoder(&text)
	enc.Indent(indent, "  ")
	if err := enc.EncodeElement(element, xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		return err
	}
	head, tail := text.Bytes(), []byte(nil)
	if place < len(p.all)-1 {
		at := bytes.LastIndex(head, []byte("</"))
		tail = slices.Concat([]byte("\n"+indent), head[at:])
		head = append(bytes.TrimRight(head[:at:at], " \n"), '\n')
	}
	p.all[place] = head
	p.size += len(head)
	_, err := p.Write(tail)
	return err
}

// excerptSize returns how many bytes of logs each failed attempt may show, so that all of them take
// half of limit.
func excerptSize(cases []report.Case, limit int) int {
	attempts := 0
	for _, c := range cases {
		if c.State != report.Passed {
			attempts += c.Planned()
		}
	}
	return min(limit/2/max(attempts, 1), 16<<10)
}

// builder builds one document.
type builder struct {
	in      report.Input
	cases   []report.Case
	detail  detail
	files   bool
	excerpt int            // bytes of logs for each attempt
	names   map[string]int // how often a class and name were used
	out     pieces         // the document
	suites  junit.Testsuites
	count   int // of the suites
}

// document writes the document. The error is errTooLarge if it is larger than the limit.
func (b *builder) document() error {
	b.suites.Name, b.suites.Time = cmp.Or(untrusted.XMLLine(b.in.Job.JobName), "rollout"), seconds(b.in.Job.TotalDurationSec)
	head := b.out.reserve()
	if len(b.in.Incomplete) > 0 {
		if err := b.incomplete(); err != nil {
			return err
		}
	}
	for from := 0; from < len(b.cases); {
		to := from
		for to < len(b.cases) && b.cases[to].Agent == b.cases[from].Agent && b.cases[to].Dataset == b.cases[from].Dataset {
			to++
		}
		if err := b.suite(b.cases[from:to]); err != nil {
			return err
		}
		from = to
	}
	b.suites.Skipped = 0 // the root has no such attribute in junit-10.xsd
	err := b.out.around(head, xml.Header, b.suites, "testsuites", "")
	_, lastErr := b.out.Write([]byte("\n"))
	return errors.Join(err, lastErr)
}

// incomplete writes a suite that fails because something is missing from the job.
func (b *builder) incomplete() error {
	s := suite{b: b, head: b.out.reserve()}
	s.Name, s.Time = "rollout", seconds(0)
	s.SetTimestamp(b.in.Job.StartedAt.UTC())
	c := testcase{Testcase: junit.Testcase{Classname: "rollout", Name: "the job is complete", Time: seconds(0)}}
	c.Error = &outcome{
		Message: untrusted.Cut(untrusted.XMLLine(b.in.Incomplete[0]), maxMessage), Type: "incomplete",
		block: blockOf(untrusted.Cut(text(strings.Join(b.in.Incomplete, "\n")), maxText)),
	}
	s.count(c)
	return errors.Join(s.write(c), s.end())
}

// suite is a suite that is being written: its cases come before its counts are known.
type suite struct {
	junit.Testsuite
	b    *builder
	head int // its place in the document
	enc  *xml.Encoder
}

// write writes a case.
func (s *suite) write(c testcase) error {
	if s.enc == nil {
		s.enc = xml.NewEncoder(&s.b.out)
		s.enc.Indent("    ", "  ")
	}
	return s.enc.EncodeElement(c, xml.StartElement{Name: xml.Name{Local: "testcase"}})
}

// end writes the rest of the suite.
func (s *suite) end() error {
	before := ""
	if s.b.count > 0 {
		before = "\n"
	}
	s.ID = s.b.count
	s.b.count++
	s.b.suites.AddSuite(s.Testsuite)
	s.b.suites.Suites = nil
	return s.b.out.around(s.head, before, s.Testsuite, "testsuite", "  ")
}

// count counts a case.
func (s *suite) count(c testcase) {
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
	s.Testcases = nil
}

// suite writes the suite of one agent on one dataset.
func (b *builder) suite(cases []report.Case) error {
	s := suite{b: b, head: b.out.reserve()}
	agent, dataset := untrusted.XMLLine(cases[0].Agent), untrusted.XMLLine(cases[0].Dataset)
	s.Name = cut(agent + "/" + dataset)
	s.File = cut(untrusted.XMLLine(commonDir(cases)))
	s.SetTimestamp(b.in.Job.StartedAt.UTC())
	b.properties(&s.Testsuite, cases[0])
	classname := cut(agent + "." + dataset)
	total, left := 0.0, 0
	for _, c := range cases {
		total += c.Seconds()
		tc := b.testcase(c)
		s.count(tc)
		if !b.detail.cases {
			left++
			continue
		}
		tc.Classname, tc.Name = classname, unique(b.names, classname, cut(cmp.Or(untrusted.XMLLine(c.Task), "task")))
		if !b.detail.passing && c.State == report.Passed {
			left++
			continue
		}
		if err := s.write(tc); err != nil {
			return err
		}
	}
	if left > 0 {
		s.AddProperty("rollout.omitted_testcases", strconv.Itoa(left))
	}
	s.Time = seconds(total)
	return s.end()
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
func (b *builder) properties(s *junit.Testsuite, c report.Case) {
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
	for _, a := range c.Attempts() {
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
