package task

import (
	"cmp"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/fields"
)

// Artifact is a file or directory to copy out of the environment after the agent has run.
// Destination is relative to the trial's artifacts directory; default: Source, made relative.
// Source: Harbor 0.22, src/harbor/models/task/config.py.
type Artifact struct {
	Source      string   `toml:"source" required:"true" pattern:"^/.*[^/].*$" is:"the absolute path of a file or directory" hint:"write it like \"/app/output\"" doc:"Absolute path in the environment."`
	Destination string   `toml:"destination" doc:"Path below the directory artifacts. Default: as source."`
	Exclude     patterns `toml:"exclude" most:"100" is:"an array of strings" hint:"write exclude = [\"...\"]" doc:"Patterns of files to leave out of a directory, as those of tar --exclude."`
	Service     string   `toml:"service" json:",omitempty" pattern:"^[a-zA-Z0-9][a-zA-Z0-9._-]*$" is:"the name of a service" hint:"write service = \"db\"" doc:"The service of docker-compose.yaml in which it is. Default: main."`
}

// patterns are patterns of tar --exclude: one name, or several joined by /.
type patterns []string

const maxPathBytes = 1024

// DecodeNode reads a path or a table.
func (a *artifactKeys) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, r fields.Rules) bool {
	switch n.Kind {
	case fields.Text:
		return d.Value(n, p, &a.Source, fields.Of(reflect.TypeFor[Artifact]())[0])
	case fields.Mapping:
		type plain artifactKeys // without this method
		return d.Value(n, p, (*plain)(a), r)
	}
	return d.MustBe(n, p, r, "a path or a table", `write "/app/output", or {source = "/app/output"}`)
}

// artifacts returns the valid artifacts.
func (r *reader) artifacts() []Artifact {
	out := r.addArtifacts(nil, r.file.Artifacts, fields.Path{"artifacts"})
	return r.addArtifacts(out, r.file.Verifier.Artifacts, fields.Path{"verifier", "artifacts"})
}

// addArtifacts adds those of the list at at.
func (r *reader) addArtifacts(out []Artifact, list []artifactKeys, at fields.Path) []Artifact {
	for i, k := range list {
		at := at.Index(i)
		if r.BadBelow(at) {
			continue
		}
		if a, ok := r.artifact(k.Artifact, at); ok && !r.collides(a, at, out) {
			out = append(out, a)
		}
	}
	return out
}

// artifact checks and completes one entry. If !ok, it has reported a problem.
func (r *reader) artifact(a Artifact, at fields.Path) (_ Artifact, ok bool) {
	if path.Clean(a.Source) != strings.TrimSuffix(a.Source, "/") || badPath(a.Source) {
		r.Problem(at, `write it like "/app/output"`, "%q: %q is not the absolute path of a file or directory", at, fields.Shorten(a.Source))
		return a, false
	}
	a.Source = path.Clean(a.Source)
	a.Destination = strings.TrimSuffix(cmp.Or(a.Destination, strings.TrimPrefix(a.Source, "/")), "/")
	if !filepath.IsLocal(a.Destination) || path.Clean(a.Destination) != a.Destination || a.Destination == "." || badPath(a.Destination) || strings.Contains(a.Destination, `\`) {
		r.Problem(at, `write it like "output"`, "%q: %q is not a path below the trial's artifacts directory", at, fields.Shorten(a.Destination))
		return a, false
	}
	for i, excluded := range a.Exclude {
		if badPath(excluded) {
			r.Problem(at.Child("exclude").Index(i), "", "%q is not a pattern of files", at.Child("exclude").Index(i))
		}
	}
	return a, !r.BadBelow(at)
}

// collides reports whether an artifact and one of others would overwrite each other.
func (r *reader) collides(a Artifact, at fields.Path, others []Artifact) bool {
	for _, b := range others {
		if within(a.Destination, b.Destination) || within(b.Destination, a.Destination) {
			r.Problem(at, "give one of them another destination", "%q: %q and %q would overwrite each other", at[:len(at)-1], b.Source, a.Source)
			return true
		}
	}
	return false
}

func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// badPath reports whether p is invalid as a path on every system.
func badPath(p string) bool {
	return p == "/" || len(p) > maxPathBytes || strings.ContainsRune(p, 0) || !utf8.ValidString(p)
}
