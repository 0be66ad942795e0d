package arch

import (
	"fmt"
	"slices"
	"strings"
)

// module is this module's path.
const module = "github.com/org/rollout-action"

// layer is a directory of the map. Packages are named relative to the module; "x" includes all
// packages below it.
type layer struct {
	dir string
	// only, if set, lists the packages of lower layers that it may import; by default all of them.
	only []string
	// apart keeps the directories directly in it from importing each other, except for those named
	// internal.
	apart bool
	// table: other layers import the directory itself, which has a table of the packages in it, and
	// none of these. Measurements and tests may.
	table bool
	// rooms orders the packages of the layer, lowest first: each may import those before it. ""
	// is the package in dir itself.
	rooms []string
}

// layers is the map, lowest first. A package belongs to the layer whose directory contains it, and
// may import its own layer and those below. It is the table of docs/internals/architecture.md, "The
// map".
var layers = []layer{
	{dir: "internal/lib", only: []string{}},
	{dir: "internal/model", only: []string{"internal/lib"}},
	{dir: "internal/core"},
	{dir: "internal/forge", only: []string{"internal/lib", "internal/core/result"}},
	{dir: "providers", only: []string{"internal/lib", "internal/core/environment"}, apart: true},
	{dir: "internal/run", only: []string{"internal/lib", "internal/model", "internal/core"}},
	{dir: "internal/output", only: []string{"internal/lib", "internal/model", "internal/core", "internal/run/job", "internal/run/prove"}},
	{dir: "reporters", only: []string{"internal/lib", "internal/core", "internal/output/page", "internal/run/prove"}, apart: true, table: true},
	{dir: "internal/app", rooms: []string{"host", "reporting", "calibrate", "library", "inspect", "stages", "rerun", "sidebyside", "proof", "mine", "doctor", "", "scaffold"}},
	{dir: "internal/action"},
	{dir: "internal/cli", rooms: []string{"tables", "command", "flags", "look", "prove", "run", "setup", ""}},
	{dir: "cmd"},
	{dir: "internal/test"},
	{dir: "bench"},
	{dir: "examples"},
}

// limits lists packages with stricter limits than their layer, with the packages of Rollout that
// they may import.
var limits = map[string][]string{
	"internal/output/ui":       {"internal/lib", "internal/core", "internal/output/termtext"},
	"internal/output/summary":  {"internal/lib", "internal/core", "internal/output/termtext", "internal/run/prove"},
	"internal/output/termtext": {"internal/lib", "internal/core/result"},
	"internal/output/viewer":   {"internal/lib", "internal/core", "internal/output/page"},
	"internal/output/page":     {"internal/lib", "internal/core", "internal/output/prompt", "internal/model/trajectory"},
	"internal/run/trial":       {"internal/lib", "internal/model", "internal/core", "internal/run/shell", "internal/run/trial"},
	"internal/run/dataset":     {"internal/lib", "internal/core", "internal/run/registry"},
	"internal/core/judge":      {"internal/lib", "internal/core/agent"},
	"internal/core/gate":       {"internal/lib", "internal/core/result", "internal/core/agent", "internal/core/paired", "internal/core/signflip"},
	"internal/core/paired":     {"internal/core/result", "internal/core/signflip"},
	"internal/core/result":     {"internal/lib", "internal/core/agent"},
	"internal/core/signflip":   {},

	"internal/core/environment/environmenttest": {"internal/core/environment"},
	"providers/kubernetes/internal/podprogram":  {"providers/internal/podinit", "providers/kubernetes/internal/probe"}, // each pod copies it
	"providers/internal/initwire":               {},
	"providers/internal/confine":                {},
	"providers/internal/initproc":               {"providers/internal"},
	"providers/sandbox/internal/dockerfile":     {"internal/lib/excerpt", "providers/internal/buildcontext", "providers/sandbox/internal"},
	"providers/sandbox/internal/machine":        {},
	"providers/sandbox/internal/sources":        {"providers/internal/buildcontext", "providers/sandbox/internal"},
	"providers/sandbox/internal/oci":            {"internal/lib/ctxio", "providers/internal/distribution", "providers/sandbox/internal"},
	"providers/sandbox/internal/usernet":        {"internal/lib/egress", "providers/internal"},
	"providers/kubernetes/internal/probe":       {},
	"providers/docker/internal/relay":           {},
	"providers/docker/internal/killer":          {"providers/internal/processes"},
	"providers/kubernetes/kubernetestest":       {"providers/internal/podinit"},
	"internal/test/untrustedtest":               {"internal/lib/untrusted"},
	"internal/test/gatetest":                    {"internal/core/result"},
	"internal/test/fake":                        {"internal/lib", "internal/core/environment"},
	"internal/test/testenv":                     {"internal/core/environment"},
}

// violations returns a sentence for each import of pkg that breaks the map. pkg and imports are
// import paths; imports of other modules are ignored.
func violations(pkg string, imports []string) []string {
	name := below(pkg)
	at := find(name)
	if at < 0 {
		return []string{fmt.Sprintf("%s is not on the map: move it into a directory of one of the layers in internal/test/arch/rules_test.go, "+
			"or add a layer there and to the table in docs/internals/architecture.md", name)}
	}
	var out []string
	for _, imported := range imports {
		if other := below(imported); other != "" && other != name {
			if problem := importProblem(name, at, other); problem != "" {
				out = append(out, problem)
			}
		}
	}
	return out
}

// importProblem returns the problem with an import of other by name, which is in the layer at, or
// "".
func importProblem(name string, at int, other string) string {
	to := find(other)
	allowed, limited := limits[name]
	switch {
	case to < 0:
		return "" // reported for the package itself
	case to > at:
		return fmt.Sprintf("%s imports %s, which is above it: move what it needs into a lower layer, or pass it in", name, other)
	case limited && !within(allowed, other):
		return fmt.Sprintf("%s imports %s, but may import only %q: pass in what it needs", name, other, allowed)
	case to < at && layers[at].only != nil && !within(layers[at].only, other):
		return fmt.Sprintf("%s imports %s, but packages of %s may import only %q: pass in what it needs", name, other, layers[at].dir, layers[at].only)
	case to < at && layers[to].table && other != layers[to].dir && !within([]string{"bench", "internal/test"}, name):
		return fmt.Sprintf("%s imports %s: take it from the table in %s", name, other, layers[to].dir)
	case to == at && layers[at].apart && siblings(layers[at].dir, name, other):
		return fmt.Sprintf("%s imports %s, which is another of %s: move what both need into %[3]s/internal", name, other, layers[at].dir)
	case to == at && layers[at].rooms != nil:
		return roomProblem(layers[at], name, other)
	}
	return ""
}

// roomProblem returns the problem with an import between two packages of a layer with rooms, or "".
func roomProblem(l layer, name, other string) string {
	room := func(name string) int {
		return slices.Index(l.rooms, strings.TrimPrefix(strings.TrimPrefix(name, l.dir), "/"))
	}
	switch at, to := room(name), room(other); {
	case at < 0:
		return fmt.Sprintf("%s is no room of %s: add it to the layer's rooms in internal/test/arch/rules_test.go", name, l.dir)
	case to > at:
		return fmt.Sprintf("%s imports %s, which is a room above it", name, other)
	}
	return ""
}

// siblings reports whether two packages are in different directories of dir, and neither is dir
// itself nor shared by them.
func siblings(dir, name, other string) bool {
	first := func(name string) string {
		name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), "/")
		return name
	}
	a, b := first(name), first(other)
	return a != "" && b != "internal" && a != b
}

// find returns the index of the package's layer, or -1.
func find(name string) int {
	return slices.IndexFunc(layers, func(l layer) bool { return within([]string{l.dir}, name) })
}

// within reports whether a package is in or below one of the directories.
func within(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
}

// below returns the package's name relative to the module, or "" if it belongs to another module.
func below(pkg string) string {
	name, ok := strings.CutPrefix(pkg, module+"/")
	if !ok {
		return ""
	}
	return name
}
