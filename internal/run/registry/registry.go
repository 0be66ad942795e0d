package registry

import (
	"bytes"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Registry is a registry.json. None of its content is trusted. Source: specification, "Dataset";
// Harbor's src/harbor/models/registry.py.
type Registry struct {
	Source string // the path or URL, without credentials
	Dir    string // base of the paths of tasks without git_url; "" for a registry behind a URL
	// Notice is a message for users about this copy, such as that it is old; may be empty.
	Notice   string
	Datasets []Dataset

	text []byte // to find positions
}

// Remote reports whether the registry is behind a URL. Such a registry may not name anything on
// this machine.
func (r *Registry) Remote() bool { return r.Dir == "" }

// Dataset is one version of a dataset.
type Dataset struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	// Format is the format of the tasks; "" means Harbor's. Harbor itself does not read it.
	Format  string   `json:"format,omitempty"`
	Tasks   []Task   `json:"tasks"`
	Metrics []Metric `json:"metrics"` // suggested aggregates of the rewards; a job uses its own metrics
	offset  int64
}

// Metric is an aggregate that a dataset suggests.
type Metric struct {
	Type string `json:"type"`
}

// Task is the location of one task.
type Task struct {
	Name        string `json:"name"`
	GitURL      string `json:"git_url"`       // "": Path is relative to the registry's directory
	GitCommitID string `json:"git_commit_id"` // a commit, whole or abbreviated, a branch, a tag, HEAD, or ""
	Path        string `json:"path"`          // from the top of the repository
	// Absent is why the task cannot be fetched; "": it can. Only a dataset.toml has such tasks.
	Absent string `json:"-"`
	// Digest is that of the task's files (package harborfiles), which a dataset.toml gives; "":
	// there is none.
	Digest string `json:"-"`
	offset int64
}

// Label returns name@version, or the name if there is no version.
func (d *Dataset) Label() string {
	if d.Version == "" {
		return untrusted.Line(d.Name)
	}
	return untrusted.Line(d.Name + "@" + d.Version)
}

// formats lists the valid formats of a dataset; "" means that none is given.
var formats = []string{"", "rollout", "harbor"}

// maxName is the maximum length of the names of datasets, versions and tasks, in characters. The
// longest public one has 120.
const maxName = 200

// Check returns the problems with the names of a dataset and its tasks.
func (r *Registry) Check(d *Dataset) diag.List {
	var out diag.List
	if reason := badName(d.Name); reason != "" {
		out = append(out, r.Problem(d.offset, "the dataset's name %s", reason))
	}
	if !slices.Contains(formats, d.Format) {
		out = append(out, r.Problem(d.offset, "the format of dataset %s must be rollout or harbor, not %q", d.Label(), d.Format))
	}
	if len(d.Tasks) == 0 {
		out = append(out, r.Problem(d.offset, "dataset %s has no tasks", d.Label()))
	}
	first := make(map[string]*Task, len(d.Tasks))
	for i := range d.Tasks {
		t := &d.Tasks[i]
		if reason := badName(t.Name); reason != "" {
			out = append(out, r.Problem(t.offset, "the name of a task of %s %s", d.Label(), reason))
			continue
		}
		slug := result.Slug(t.Name)
		switch other := first[slug]; {
		case other == nil:
			first[slug] = t
		case other.Name == t.Name:
			out = append(out, r.Problem(t.offset, "dataset %s has two tasks called %q", d.Label(), t.Name))
		default:
			out = append(out, r.Problem(t.offset, "the tasks %q and %q of %s would share the result directory %q", other.Name, t.Name, d.Label(), slug))
		}
		if len(out) == maxProblems {
			break
		}
	}
	return out
}

// maxProblems limits the problems of one registry that are reported.
const maxProblems = 20

// TaskProblem returns a diagnostic with the position of a task.
func (r *Registry) TaskProblem(t *Task, format string, args ...any) diag.Diagnostic {
	return r.Problem(t.offset, format, args...)
}

// Problem returns a diagnostic with the position of offset.
func (r *Registry) Problem(offset int64, format string, args ...any) diag.Diagnostic {
	if r.text == nil { // it was not read from one file
		return diag.Diagnostic{File: r.Source, Message: untrusted.Line(fmt.Sprintf(format, args...))}
	}
	line, column := position(r.text, offset)
	return diag.Diagnostic{File: r.Source, Line: line, Column: column, Message: untrusted.Line(fmt.Sprintf(format, args...))}
}

func badName(name string) string {
	switch {
	case name == "":
		return "is missing"
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Sprintf("is longer than %d characters", maxName)
	case bytes.ContainsFunc([]byte(name), unicode.IsControl):
		return fmt.Sprintf("contains control characters: %q", name)
	}
	return ""
}
