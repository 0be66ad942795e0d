package task

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Artifact is a file or directory to copy out of the environment after the agent has run. Source: Harbor 0.22,
// src/harbor/models/task/config.py.
type Artifact struct {
	Source      string   // absolute path in the environment
	Destination string   // relative to the trial's artifacts directory; default: Source, made relative
	Exclude     []string // patterns of tar --exclude: one name, or several joined by /
}

const (
	maxArtifacts = 100
	maxExcluded  = 100
	maxPathBytes = 1024
)

// artifacts reads the task's list of artifacts: paths or tables.
func (t table) artifacts(key string) []Artifact {
	v, ok := t.values[key]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		t.wrongType(key, "an array", fmt.Sprintf("write %s = [\"/app/output\"]", key))
		return nil
	case len(list) > maxArtifacts:
		t.problem(key, fmt.Sprintf("%q lists more than %d files and directories", t.name(key), maxArtifacts), "name the directories that they are in")
		return nil
	}
	var out []Artifact
	for i, item := range list {
		if a, ok := t.artifact(key, i, item); ok && !t.collides(key, a, out) {
			out = append(out, a)
		}
	}
	return out
}

// collides reports whether an artifact and one of others would overwrite each other.
func (t table) collides(key string, a Artifact, others []Artifact) bool {
	for _, b := range others {
		if within(a.Destination, b.Destination) || within(b.Destination, a.Destination) {
			t.problem(key, fmt.Sprintf("%q: %q and %q would overwrite each other", t.name(key), b.Source, a.Source), "give one of them another destination")
			return true
		}
	}
	return false
}

func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// artifact reads one entry. If !ok, it has recorded a problem.
func (t table) artifact(key string, i int, item any) (a Artifact, ok bool) {
	where := fmt.Sprintf("%s[%d]", t.name(key), i)
	switch item := item.(type) {
	case string:
		a.Source = item
	case map[string]any:
		if a, ok = t.artifactTable(key, where, item); !ok {
			return a, false
		}
	default:
		t.problem(key, fmt.Sprintf("%q must be a path or a table, not %s", where, kindOf(item)), `write "/app/output", or {source = "/app/output"}`)
		return a, false
	}
	if !path.IsAbs(a.Source) || path.Clean(a.Source) != strings.TrimSuffix(a.Source, "/") || badPath(a.Source) {
		t.problem(key, fmt.Sprintf("%q: %q is not the absolute path of a file or directory", where, shorten(a.Source)), `write it like "/app/output"`)
		return a, false
	}
	a.Source = path.Clean(a.Source)
	if a.Destination == "" {
		a.Destination = strings.TrimPrefix(a.Source, "/")
	}
	a.Destination = strings.TrimSuffix(a.Destination, "/")
	if !filepath.IsLocal(a.Destination) || path.Clean(a.Destination) != a.Destination || a.Destination == "." || badPath(a.Destination) || strings.Contains(a.Destination, `\`) {
		t.problem(key, fmt.Sprintf("%q: %q is not a path below the trial's artifacts directory", where, shorten(a.Destination)), `write it like "output"`)
		return a, false
	}
	return a, true
}

// artifactTable reads {source, destination, exclude, service}.
func (t table) artifactTable(key, where string, values map[string]any) (a Artifact, ok bool) {
	e := table{t.doc, []string{where}, values}
	before := len(t.doc.problems)
	service := ""
	e.text("source", &a.Source)
	e.text("destination", &a.Destination)
	e.text("service", &service)
	a.Exclude = e.texts("exclude", maxExcluded)
	e.checkKeysOf("artifacts")
	if service != "" && service != "main" {
		e.problem("service", fmt.Sprintf("%q is not supported: the environment is a single container", e.name("service")), leaveOut)
	}
	for i := range t.doc.problems[before:] { // only the position of the list is known
		d := &t.doc.problems[before+i]
		d.Line, d.Column = t.doc.positions.of(append(t.path[:len(t.path):len(t.path)], key))
	}
	return a, t.doc.problems[before:].Err() == nil
}

// texts reads an array of at most most strings; none may be empty.
func (t table) texts(key string, most int) []string {
	v, ok := t.values[key]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		t.wrongType(key, "an array of strings", fmt.Sprintf("write %s = [\"...\"]", key))
		return nil
	}
	if len(list) > most {
		t.problem(key, fmt.Sprintf("%q has more than %d entries", t.name(key), most), "")
		return nil
	}
	out := make([]string, 0, len(list))
	for _, item := range list {
		text, ok := item.(string)
		if !ok || text == "" || badPath(text) {
			t.problem(key, fmt.Sprintf("%q must be an array of strings, none of them empty", t.name(key)), "")
			return nil
		}
		out = append(out, text)
	}
	return out
}

// badPath reports whether p cannot be a path on any system.
func badPath(p string) bool {
	return p == "/" || len(p) > maxPathBytes || strings.ContainsRune(p, 0) || !utf8.ValidString(p)
}

// shorten cuts text for a message.
func shorten(text string) string {
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "…"
	}
	return text
}
