// Package reporters has the table of all formats of reports. Nothing else names a package of a
// format: a new one is a directory and an entry.
package reporters

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/reporters/annotations"
	"github.com/org/rollout-action/reporters/comment"
	"github.com/org/rollout-action/reporters/html"
	"github.com/org/rollout-action/reporters/json"
	"github.com/org/rollout-action/reporters/junit"
	"github.com/org/rollout-action/reporters/markdown"
)

// Format is a form of report: how it is asked for, and how it is written. The writers are pure: see
// report.Reporter.
type Format struct {
	// Name is the value of --format and the NAME of --report NAME=FILE.
	Name string
	// Flag is another flag, and input of the Action, that names a file for the format; "": none.
	// About is its help.
	Flag, About string
	// Rare: help lists the flag only if all flags are asked for.
	Rare bool
	// Options are the flags about how the format is written.
	Options []Option
	// Page: the file is meant for reading, and other reports link to it.
	Page bool
	// Job writes the report of a job.
	Job func(w io.Writer, in report.Input, o Options) error
	// Proof writes the report of rollout validate --run; nil: the format has none.
	Proof func(w io.Writer, in prove.Report, o Options) error
}

// Options say how a report is written. A format ignores those that it does not have.
type Options struct {
	Limit     int  // the most bytes; 0: the format's own limit
	CaseFiles bool // name the files of test cases
}

// Option is a flag for one of Options.
type Option struct {
	Flag, About string
	// Rare: help lists the flag only if all flags are asked for.
	Rare bool
	In   func(*Options) *bool
}

// The formats that a workflow is given without being asked.
const (
	Annotations = "annotations" // on the log of a step
	Comment     = "comment"     // on the pull request or the merge request
	Summary     = "markdown"    // of a step
	Cases       = "junit"       // whose file is an output of the step
)

// Table has the formats that a program knows, by name.
type Table []Format

// All lists the formats by name.
var All = Table{
	{
		Name:  Annotations,
		Job:   func(w io.Writer, in report.Input, _ Options) error { return annotations.Reporter{}.Write(w, in) },
		Proof: func(w io.Writer, in prove.Report, _ Options) error { return annotations.Proof(w, in) },
	},
	{
		Name: Comment,
		Job: func(w io.Writer, in report.Input, o Options) error {
			return comment.Reporter{Limit: o.Limit}.Write(w, in)
		},
	},
	{
		Name: "html", Page: true,
		Flag: "html", About: "write the job as a page to look at to this file, which needs no other file and no server",
		Job: func(w io.Writer, in report.Input, _ Options) error { return html.Reporter{}.Write(w, in) },
	},
	{
		Name: "json",
		Flag: "report-json", Rare: true, About: "write the machine-readable report to this file: verdict, numbers and, of a job, the comparison",
		Job:   func(w io.Writer, in report.Input, _ Options) error { return json.Reporter{}.Write(w, in) },
		Proof: func(w io.Writer, in prove.Report, _ Options) error { return json.Proof(w, in) },
	},
	{
		Name: Cases,
		Flag: "junit", About: "write a JUnit XML report to this file",
		Options: []Option{{
			Flag: "junit-case-files", About: "name a file of the task in each JUnit test case, as annotations need and the strictest schema forbids; always so in a GitHub workflow",
			In: func(o *Options) *bool { return &o.CaseFiles },
		}},
		Job: func(w io.Writer, in report.Input, o Options) error {
			return junit.Reporter{Limit: o.Limit, CaseFiles: o.CaseFiles}.Write(w, in)
		},
		Proof: func(w io.Writer, in prove.Report, _ Options) error { return junit.Proof(w, in) },
	},
	{
		Name: Summary,
		Flag: "markdown", About: "write a Markdown report to this file",
		Job: func(w io.Writer, in report.Input, o Options) error {
			return markdown.Reporter{Limit: within(o.Limit, markdown.DefaultLimit)}.Write(w, in)
		},
		Proof: func(w io.Writer, in prove.Report, o Options) error {
			return markdown.Proof(w, in, within(o.Limit, markdown.DefaultProofLimit))
		},
	},
}

// within returns the smaller limit; 0 is none.
func within(limit, most int) int { return min(cmp.Or(limit, most), most) }

// Find returns the format with a name, and whether there is one.
func (t Table) Find(name string) (Format, bool) {
	i := slices.IndexFunc(t, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return t[i], true
}

// Names returns the names of the formats.
func (t Table) Names() []string {
	var names []string
	for _, f := range t {
		names = append(names, f.Name)
	}
	return names
}

// WriteJob writes the report of a job in the format with a name.
func (t Table) WriteJob(w io.Writer, name string, in report.Input, o Options) error {
	f, ok := t.Find(name)
	if !ok {
		return t.unknown(name)
	}
	return f.Job(w, in, o)
}

// WriteProof writes the report of rollout validate --run in the format with a name.
func (t Table) WriteProof(w io.Writer, name string, in prove.Report, o Options) error {
	f, ok := t.Proofs().Find(name)
	if !ok {
		return t.Proofs().unknown(name)
	}
	return f.Proof(w, in, o)
}

func (t Table) unknown(name string) error {
	return fmt.Errorf("there is no report %q: want %s", name, t.List())
}

// ParseFile parses NAME=FILE, or NAME, for which path is "".
func (t Table) ParseFile(text string) (name, path string, err error) {
	name, path, given := strings.Cut(text, "=")
	if _, ok := t.Find(name); !ok {
		return "", "", t.unknown(name)
	}
	if given && path == "" {
		return "", "", fmt.Errorf("%q names no file", text)
	}
	return name, path, nil
}

// List returns the names of the formats for a sentence.
func (t Table) List() string { return strings.Join(t.Names(), ", ") }

// Proofs returns the formats that have a report of rollout validate --run.
func (t Table) Proofs() Table {
	return slices.DeleteFunc(slices.Clone(t), func(f Format) bool { return f.Proof == nil })
}
