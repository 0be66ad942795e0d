package junit_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/internal/test/untrustedtest"
	"github.com/org/rollout-action/reporters/junit"
)

// element is what a schema says of one element. All of its children may come in any order and
// number.
type element struct {
	required, optional []string // attributes
	children           []string
	text               bool
}

// rules are those of junit-10.xsd of Jenkins' xunit plugin, as a table: its groups of children are
// all unbounded choices, but for the sequence in reruns and in the root, which check looks at. A
// file that does not keep them is rejected there.
// Source: jenkinsci/xunit-plugin,
// src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd.
var rules = map[string]element{
	"testsuites": {optional: []string{"name", "time", "tests", "failures", "errors"}, children: []string{"testsuite"}},
	"testsuite": {
		required: []string{"name", "tests", "failures", "errors"},
		optional: []string{"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
		children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"},
	},
	"properties": {children: []string{"property"}},
	"property":   {required: []string{"name", "value"}},
	"testcase": {
		required: []string{"name"}, optional: []string{"time", "classname", "group"},
		children: []string{"skipped", "error", "failure", "rerunFailure", "rerunError", "flakyFailure", "flakyError", "system-out", "system-err"},
	},
	"skipped":      {optional: []string{"type", "message"}, text: true},
	"error":        {optional: []string{"type", "message"}, text: true},
	"failure":      {optional: []string{"type", "message"}, text: true},
	"rerunFailure": {required: []string{"type"}, optional: []string{"message"}, children: []string{"stackTrace", "system-out", "system-err"}, text: true},
	"flakyFailure": {required: []string{"type"}, optional: []string{"message"}, children: []string{"stackTrace", "system-out", "system-err"}, text: true},
	"stackTrace":   {text: true},
	"system-out":   {text: true},
	"system-err":   {text: true},
}

var plainTime = regexp.MustCompile(`^[0-9]+\.[0-9]{0,3}$`)

// check holds a file against the rules, and against XML 1.0.
func check(data []byte) error {
	dec := xml.NewDecoder(bytes.NewReader(data))
	var open []string
	for {
		token, err := dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			if len(open) > 0 {
				return fmt.Errorf("%v not closed", open)
			}
			return nil
		case err != nil:
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := start(token, open); err != nil {
				return err
			}
			open = append(open, token.Name.Local)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 && !rules[open[len(open)-1]].text && strings.TrimSpace(string(token)) != "" {
				return fmt.Errorf("text in <%s>: %.100q", open[len(open)-1], token)
			}
		case xml.Comment, xml.Directive:
			return fmt.Errorf("%T", token)
		}
	}
}

func start(token xml.StartElement, open []string) error {
	name := token.Name.Local
	rule, known := rules[name]
	switch {
	case !known:
		return fmt.Errorf("<%s>", name)
	case len(open) == 0 && name != "testsuites":
		return fmt.Errorf("<%s> as root", name)
	case len(open) > 0 && !slices.Contains(rules[open[len(open)-1]].children, name):
		return fmt.Errorf("<%s> in <%s>", name, open[len(open)-1])
	}
	seen := map[string]bool{}
	for _, a := range token.Attr {
		seen[a.Name.Local] = true
		if !slices.Contains(rule.required, a.Name.Local) && !slices.Contains(rule.optional, a.Name.Local) {
			return fmt.Errorf("attribute %s of <%s>", a.Name.Local, name)
		}
		if a.Name.Local == "time" && !plainTime.MatchString(a.Value) {
			return fmt.Errorf("time %q of <%s>", a.Value, name)
		}
	}
	for _, r := range rule.required {
		if !seen[r] {
			return fmt.Errorf("<%s> without %s", name, r)
		}
	}
	return nil
}

func TestValidAgainstJenkinsSchema(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		if err := check(render(t, junit.Reporter{}, in)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, a := range untrustedtest.Corpus {
		if err := check(render(t, junit.Reporter{}, reporttest.Hostile(a))); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
}

func TestOnlyTheFileOfCasesIsNotInJenkinsSchema(t *testing.T) {
	text := render(t, junit.Reporter{CaseFiles: true}, reporttest.Mixed())
	if err := check(text); err == nil {
		t.Fatal("valid with file: the check does not look at attributes")
	}
	text = regexp.MustCompile(`(<testcase [^>]*) file="tasks/cookbook/[a-z-]+/[a-z/.]+"`).ReplaceAll(text, []byte("$1"))
	if err := check(text); err != nil {
		t.Error(err)
	}
}

// The check itself must be able to fail.
func TestTheSchemaCheckFindsInvalidFiles(t *testing.T) {
	suite := `<testsuites><testsuite name="a" tests="1" failures="0" errors="0">%s</testsuite></testsuites>`
	for _, s := range []string{
		"", "<testsuite/>", `<testsuites skipped="1"></testsuites>`, "<testsuites><testsuite name='a'/></testsuites>",
		fmt.Sprintf(suite, "x"), fmt.Sprintf(suite, "<testcase/>"), fmt.Sprintf(suite, "<testcase name='a'><properties/></testcase>"),
		fmt.Sprintf(suite, "<testcase name='a' time='1e3'/>"), fmt.Sprintf(suite, "<testcase name='a'><flakyFailure/></testcase>"),
		fmt.Sprintf(suite, "<testcase name='a'>\x1b</testcase>"), fmt.Sprintf(suite, "<!-- a -->"), "<testsuites>",
	} {
		if s != "" && check([]byte(s)) == nil {
			t.Errorf("%s is valid", s)
		}
	}
	if err := check(fmt.Appendf(nil, suite, "<testcase name='a' classname='b' time='1.5'><failure>x</failure></testcase>")); err != nil {
		t.Error(err)
	}
}
