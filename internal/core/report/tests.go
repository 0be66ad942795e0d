package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
)

// Test is a test case of a task's own verifier. Its texts are untrusted and have at most
// maxTestText bytes.
type Test struct {
	Suite, Name string
	Status      TestStatus
	Seconds     float64
	Message     string // why it failed, or ""
}

// TestStatus is the outcome of a verifier's test case.
type TestStatus string

// The statuses. Pending tests and those with an unknown status count as skipped.
const (
	TestFailed  TestStatus = "failed"
	TestSkipped TestStatus = "skipped"
	TestPassed  TestStatus = "passed"
)

// Tests holds the test cases that a verifier reported: failed ones first, otherwise in its order.
type Tests struct {
	File                    string // below the job's directory
	Passed, Failed, Skipped int
	List                    []Test // at most maxTests; the counts are of all
}

// Bounds of reading a verifier's reports.
const (
	maxTests      = 1000
	maxSeen       = 200_000 // test cases that are counted
	maxDepth      = 64      // of elements in a JUnit file
	maxAttributes = 1000    // of an element there: the decoder holds them all, in 20 times their length
	maxTestText   = 2000
	maxTestFiles  = 1000 // names in the verifier's directory
)

// VerifierTests returns the test cases of a trial's verifier, if it wrote /logs/verifier/ctrf.json
// or a JUnit file (the first *.xml by name that is one). ok is false if there is no valid one. The
// names of those of steps begin with the step's, and File is then the directory of the steps.
// Sources: CTRF's schema (results.tests), and JUnit's common dialect.
func VerifierTests(in Input, t result.Trial) (tests Tests, ok bool) {
	if len(t.Steps) == 0 {
		return testsBelow(in, t.Dir())
	}
	all := Tests{File: path.Join(t.Dir(), result.StepsDir)}
	for _, dir := range runDirs(in, t) {
		tests, found := testsBelow(in, dir)
		if !found {
			continue
		}
		ok = true
		all.Passed, all.Failed, all.Skipped = all.Passed+tests.Passed, all.Failed+tests.Failed, all.Skipped+tests.Skipped
		for _, test := range tests.List {
			test.Name = path.Base(dir) + ": " + test.Name
			all.List = append(all.List, test)
		}
	}
	if !ok {
		return Tests{}, false
	}
	return all.sorted(), true
}

// testsBelow returns the test cases of the verifier of a run with the directory dir.
func testsBelow(in Input, dir string) (tests Tests, ok bool) {
	dir = path.Join(dir, result.VerifierDir)
	if data, err := readSmall(in.Files, path.Join(dir, "ctrf.json")); err == nil {
		if tests, err := parseCTRF(data); err == nil {
			tests.File = path.Join(dir, "ctrf.json")
			return tests.sorted(), true
		}
	}
	for _, name := range xmlFiles(in.Files, dir) {
		data, err := readSmall(in.Files, path.Join(dir, name))
		if err != nil {
			continue
		}
		if tests, err := parseJUnit(data); err == nil {
			tests.File = path.Join(dir, name)
			return tests.sorted(), true
		}
	}
	return Tests{}, false
}

// xmlFiles returns the names in a directory that end in .xml, sorted: at most ten, of the first
// thousand names.
func xmlFiles(files fs.FS, dir string) []string {
	if !IsDir(Input{Files: files}, dir) {
		return nil
	}
	opened, err := files.Open(dir)
	if err != nil {
		return nil
	}
	defer opened.Close()
	lister, ok := opened.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	entries, err := lister.ReadDir(maxTestFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".xml") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names[:min(len(names), 10)]
}

func (t *Tests) sorted() Tests {
	order := map[TestStatus]int{TestFailed: 0, TestSkipped: 1, TestPassed: 2}
	slices.SortStableFunc(t.List, func(a, b Test) int { return order[a.Status] - order[b.Status] })
	t.List = t.List[:min(len(t.List), maxTests)]
	return *t
}

// add counts a test case and keeps it within the bounds, failures before others.
func (t *Tests) add(test Test) {
	switch test.Status {
	case TestFailed:
		t.Failed++
	case TestPassed:
		t.Passed++
	default:
		test.Status = TestSkipped
		t.Skipped++
	}
	if test.Seconds < 0 || test.Seconds > 1e9 || math.IsNaN(test.Seconds) {
		test.Seconds = 0
	}
	test.Suite, test.Name, test.Message = short(test.Suite), short(test.Name), short(test.Message)
	if len(t.List) < maxTests || test.Status == TestFailed && t.Failed <= maxTests {
		t.List = append(t.List, test)
	}
}

func (t *Tests) seen() int { return t.Passed + t.Failed + t.Skipped }

func short(s string) string {
	if len(s) > maxTestText {
		return strings.ToValidUTF8(s[:maxTestText], "") + "…"
	}
	return s
}

var errNoTests = errors.New("no test cases in it")

func parseCTRF(data []byte) (Tests, error) {
	var file struct {
		Results struct {
			Tests ctrfTests `json:"tests"`
		} `json:"results"`
	}
	if err := bounded.Unmarshal(data, &file); err != nil {
		return Tests{}, err
	}
	tests := Tests(file.Results.Tests)
	if tests.seen() == 0 {
		return tests, errNoTests
	}
	return tests, nil
}

// ctrfTests is decoded one test at a time, because a file with "{}" a million times would take a
// gigabyte.
type ctrfTests Tests

// UnmarshalJSON implements json.Unmarshaler.
func (t *ctrfTests) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil || token == nil { // null
		return err
	} else if token != json.Delim('[') {
		return errNoTests
	}
	for tests := (*Tests)(t); dec.More() && tests.seen() < maxSeen; {
		var one ctrfTest
		if err := dec.Decode(&one); err != nil {
			return err
		}
		tests.add(one.test())
	}
	return nil
}

type ctrfTest struct {
	Name     string          `json:"name"`
	Status   string          `json:"status"`
	Duration float64         `json:"duration"` // milliseconds
	Suite    json.RawMessage `json:"suite"`    // a string, or since version 1 a list
	Message  string          `json:"message"`
	Trace    string          `json:"trace"`
}

func (t ctrfTest) test() Test {
	message := t.Message
	if t.Trace != "" && t.Trace != message {
		message = strings.TrimSpace(message + "\n" + t.Trace)
	}
	return Test{Suite: ctrfSuite(t.Suite), Name: t.Name, Status: TestStatus(t.Status), Seconds: t.Duration / 1000, Message: message}
}

func ctrfSuite(raw json.RawMessage) string {
	var one string
	if bounded.Unmarshal(raw, &one) == nil {
		return one
	}
	var many []string
	_ = bounded.UnmarshalStrict(raw, &many) // neither: no suite
	return strings.Join(many, " / ")
}

// parseJUnit parses a JUnit file element by element. The decoder refuses entities other than XML's
// own, so nothing is expanded or fetched.
func parseJUnit(data []byte) (Tests, error) {
	if hasLongTag(data) {
		return Tests{}, fmt.Errorf("an element has more than %d attributes", maxAttributes)
	}
	dec := xml.NewDecoder(bytes.NewReader(data))
	var r junitReader
	for {
		token, err := dec.Token()
		switch {
		case errors.Is(err, io.EOF) && r.tests.seen() == 0:
			return r.tests, errNoTests
		case errors.Is(err, io.EOF):
			return r.tests, nil
		case err != nil:
			return r.tests, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := r.start(token); err != nil {
				return r.tests, err
			}
		case xml.CharData:
			r.add(token)
		case xml.EndElement:
			r.end(token.Name.Local)
		}
	}
}

// unread lists the delimiters of constructs without attributes, without the leading <.
var unread = [][2]string{{"![CDATA[", "]]>"}, {"!--", "-->"}, {"?", "?>"}}

// hasLongTag reports whether an element has more than maxAttributes attributes. Its answer is
// reliable only for valid XML.
func hasLongTag(text []byte) bool {
	for {
		_, rest, found := bytes.Cut(text, []byte("<"))
		if !found {
			return false
		}
		text = rest
		for _, u := range unread {
			if bytes.HasPrefix(rest, []byte(u[0])) {
				_, text, _ = bytes.Cut(rest, []byte(u[1]))
				break
			}
		}
		if len(text) < len(rest) {
			continue
		}
		n, quote := 0, byte(0)
		for i, c := range rest {
			switch {
			case quote != 0 && c == quote:
				quote = 0
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
				n++
			}
			if n > maxAttributes {
				return true
			}
			if quote == 0 && c == '>' {
				text = rest[i:]
				break
			}
		}
		if len(text) == len(rest) {
			return false // no end
		}
	}
}

// junitReader is the state of parseJUnit.
type junitReader struct {
	tests Tests
	test  *Test            // the current one
	text  *strings.Builder // of its failure
	depth int
}

func (r *junitReader) start(e xml.StartElement) error {
	name := e.Name.Local
	r.depth++
	if r.depth == 1 && name != "testsuites" && name != "testsuite" || r.depth > maxDepth {
		return fmt.Errorf("<%s> at depth %d", name, r.depth)
	}
	switch {
	case name == "testcase":
		r.test = &Test{Suite: attr(e, "classname"), Name: attr(e, "name"), Status: TestPassed}
		_, _ = fmt.Sscanf(attr(e, "time"), "%g", &r.test.Seconds) // an invalid number means no time
	case r.test == nil:
	case name == "failure", name == "error":
		r.test.Status, r.test.Message, r.text = TestFailed, attr(e, "message"), &strings.Builder{}
	case name == "skipped" && r.test.Status != TestFailed:
		r.test.Status = TestSkipped
	}
	return nil
}

// add adds a piece of a failure's text. Pieces around CDATA and comments are not joined: secrets
// were redacted in the file, and a secret split into pieces was not found there.
func (r *junitReader) add(piece []byte) {
	if r.text == nil || r.text.Len() >= maxTestText {
		return
	}
	// CDATA cannot have "]]>", so writers divide it there.
	if said := r.text.String(); said != "" && !(strings.HasSuffix(said, "]]") && bytes.HasPrefix(piece, []byte(">"))) {
		r.text.WriteByte('\n')
	}
	r.text.Write(piece)
}

func (r *junitReader) end(name string) {
	r.depth--
	switch {
	case r.test == nil:
	case name == "testcase":
		if r.tests.seen() < maxSeen {
			r.tests.add(*r.test)
		}
		r.test, r.text = nil, nil
	case name == "failure", name == "error":
		if r.text != nil {
			r.test.Message = joinMessage(r.test.Message, strings.TrimSpace(r.text.String()))
		}
		r.text = nil
	}
}

// joinMessage joins a failure's message and its text, which often begins with the message.
func joinMessage(message, text string) string {
	if message == "" || strings.HasPrefix(text, message) {
		return text
	}
	return strings.TrimSpace(message + "\n" + text)
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
