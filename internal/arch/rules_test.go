package arch

import (
	"fmt"
	"path"
	"strings"
)

// module is this module's path.
const module = "github.com/org/rollout-action"

// row is a line of the map. Packages are named below the module; "x/*" stands for every package
// directly in x.
type row struct {
	packages []string
	// only, if set, are the packages below this row that it may import; by default it is all of them.
	only []string
}

// vocabulary lists the packages that all others may use. The last four are below the others.
var vocabulary = []string{
	"internal/result", "internal/diag", "internal/quantity", "internal/environment", "internal/redact",
	"internal/untrusted", "internal/egress", "internal/awake", "internal/excerpt", "internal/plural", "internal/agent", "internal/bounded",
}

// rows is the map, lowest first: a package imports rows below its own, never beside or above.
// It is the table of docs/internals/architecture.md, "The map", with the order inside its rows.
var rows = []row{
	{packages: []string{"internal/excerpt", "internal/plural", "internal/ghvars", "internal/bounded"}, only: []string{}},
	{packages: []string{"internal/agent", "internal/nofollow"}},
	{packages: vocabulary[:len(vocabulary)-4]},
	{packages: []string{"internal/keys"}, only: []string{"internal/quantity", "internal/diag"}},
	{packages: []string{"internal/envfile"}, only: []string{"internal/diag"}},
	{packages: []string{"internal/comments"}, only: []string{}},
	{packages: []string{"internal/gitlab"}, only: []string{"internal/comments", "internal/untrusted"}},
	{packages: []string{"internal/github", "internal/github/githubtest"}, only: []string{
		"internal/comments", "internal/untrusted", "internal/ghvars", "internal/result",
	}},
	{packages: []string{"internal/cache", "internal/vet", "internal/archive"}, only: []string{}},
	{packages: []string{"internal/judge"}, only: []string{"internal/bounded", "internal/agent", "internal/diag", "internal/keys", "internal/excerpt", "internal/quantity"}},
	{packages: []string{"internal/agent/presets"}, only: []string{}},
	{packages: []string{"internal/model/coding", "internal/model/inspect", "internal/model/sse", "internal/model/meter"}, only: []string{}},
	{packages: []string{"internal/model"}, only: []string{"internal/model/coding", "internal/model/inspect", "internal/model/sse", "internal/model/meter"}},
	{packages: []string{"internal/model/scripted", "internal/model/prices", "internal/model/replay", "internal/trajectory"}, only: []string{"internal/bounded", "internal/model", "internal/model/sse"}},
	{packages: []string{"internal/shell"}, only: []string{"internal/model", "internal/environment", "internal/awake", "internal/excerpt"}},
	{packages: []string{"internal/git"}, only: []string{"internal/untrusted", "internal/diag", "internal/excerpt", "internal/ghvars", "internal/nofollow"}},
	{packages: []string{"internal/git/gittest"}, only: []string{}},                                 // used by tests alone
	{packages: []string{"internal/untrusted/untrustedtest"}, only: []string{"internal/untrusted"}}, // used by tests alone
	{packages: []string{"internal/gate/gatetest"}, only: []string{"internal/result"}},              // used by tests alone
	{packages: []string{"internal/gate"}, only: []string{"internal/result", "internal/agent", "internal/plural"}},
	{packages: []string{"internal/history"}, only: []string{"internal/bounded", "internal/gate", "internal/nofollow", "internal/result"}},
	{packages: []string{"internal/agreement"}, only: []string{"internal/gate", "internal/result", "internal/diag", "internal/excerpt"}},
	{packages: []string{"internal/report"}, only: []string{"internal/bounded", "internal/result", "internal/agent", "internal/gate", "internal/untrusted", "internal/excerpt", "internal/trajectory", "internal/history"}},
	{packages: []string{"internal/report/reporttest"}, only: []string{ // used by tests alone
		"internal/result", "internal/gate", "internal/history", "internal/untrusted/untrustedtest", "internal/report",
	}},
	{packages: []string{"internal/prompt"}, only: []string{"internal/bounded", "internal/report", "internal/result", "internal/untrusted", "internal/excerpt", "internal/trajectory"}},
	{packages: []string{"internal/page"}, only: []string{"internal/bounded", "internal/prompt", "internal/history", "internal/report", "internal/result", "internal/gate", "internal/untrusted", "internal/excerpt", "internal/trajectory"}},
	{packages: []string{"internal/fetch"}, only: []string{"internal/untrusted"}},
	{packages: []string{"internal/registry"}, only: append([]string{"internal/cache", "internal/fetch"}, vocabulary...)},
	{packages: []string{"internal/config", "internal/task", "internal/event"}},
	{packages: []string{"internal/trial/agentfiles"}, only: []string{"internal/agent", "internal/cache", "internal/quantity", "internal/task"}},
	{packages: []string{"internal/trial/images"}, only: []string{"internal/environment", "internal/awake", "internal/task"}},
	{packages: []string{"internal/trial/layer"}, only: []string{
		"internal/environment", "internal/result", "internal/redact", "internal/config", "internal/task",
	}},
	{packages: []string{"internal/trial", "internal/dataset", "internal/prove"}},
	{packages: []string{"internal/job"}},
	{packages: []string{"internal/job/jobtest"}}, // used by tests alone
	{packages: []string{"internal/job/linktree"}, only: []string{"internal/nofollow", "internal/result"}},
	{packages: []string{"internal/job/merge", "internal/job/reuse"}},
	{packages: []string{"internal/job/resume"}},
	{packages: []string{"internal/export"}, only: append([]string{"internal/job", "internal/task", "internal/trajectory"}, vocabulary...)},
	{packages: []string{"internal/telemetry"}, only: append([]string{"internal/model", "internal/nofollow"}, vocabulary...)},

	// The edges are strangers to the engine, and to each other.
	{packages: []string{"internal/environment/environmenttest", "internal/testenv"}, only: []string{"internal/environment"}},
	{packages: []string{"providers/internal/processes", "providers/internal/buildcontext", "providers/internal/flight", "providers/internal/distribution"}, only: []string{}}, // what providers share
	{packages: []string{"providers/internal/buildkit"}, only: []string{"internal/excerpt", "providers/internal/buildcontext"}},
	{packages: []string{"providers/internal/registryimage"}, only: []string{"internal/environment", "internal/excerpt", "providers/internal/*"}},
	// What the sandbox is made of, from the bottom up.
	{packages: []string{
		"providers/internal/wire", "providers/internal/confine",
		"providers/sandbox/internal/cgroup", "providers/sandbox/internal/decompress", "providers/internal/rtnl",
	}, only: []string{}},
	{packages: []string{"providers/sandbox/internal/oci"}, only: []string{"providers/sandbox/internal/decompress", "providers/internal/distribution"}},
	{packages: []string{"providers/sandbox/internal/dockerfile"}, only: []string{
		"internal/excerpt", "providers/internal/buildcontext", "providers/sandbox/internal/decompress",
	}},
	{packages: []string{"providers/sandbox/internal/usernet"}, only: []string{
		"providers/internal/wire", "providers/internal/rtnl", "internal/egress",
	}},
	{packages: []string{"providers/internal/inside"}, only: []string{
		"providers/internal/wire", "providers/internal/confine", "providers/internal/rtnl", "providers/internal/processes",
	}},
	{packages: []string{"providers/internal/box"}, only: []string{"internal/environment", "internal/awake", "internal/excerpt", "providers/internal/wire"}},
	{packages: []string{"providers/internal/guest"}, only: []string{"internal/environment", "internal/egress", "internal/awake", "internal/excerpt", "providers/internal/box", "providers/internal/inside", "providers/internal/processes", "providers/internal/wire"}},
	{packages: []string{"providers/docker/internal/relay"}, only: []string{}},
	{packages: []string{"providers/docker/internal/killer"}, only: []string{"providers/internal/processes"}},
	{packages: []string{"providers/kubernetes/internal/probe"}, only: []string{}},
	{packages: []string{"providers/kubernetes/internal/podprogram"}, only: []string{"providers/internal/guest", "providers/kubernetes/internal/probe"}},
	{packages: []string{"providers/*"}, only: []string{
		"internal/environment", "internal/quantity", "internal/redact", "internal/egress", "internal/awake", "internal/excerpt", "providers/sandbox/internal/*",
		"providers/docker/internal/*", "providers/kubernetes/internal/*", "providers/internal/*",
	}},
	{packages: []string{"providers/kubernetes/kubernetestest"}, only: []string{"providers/internal/guest"}}, // used by tests alone
	{packages: []string{"internal/ui"}, only: append([]string{"internal/event", "internal/gate", "internal/prove", "internal/report"}, vocabulary...)},
	{packages: []string{"internal/viewer"}, only: append([]string{"internal/page", "internal/report", "internal/gate"}, vocabulary...)},
	{packages: []string{"reporters/internal/sections"}, only: []string{"internal/history", "internal/report", "internal/result", "internal/gate", "internal/untrusted", "internal/excerpt"}},
	{packages: []string{"reporters/provereport"}, only: []string{"internal/prove", "internal/result", "internal/untrusted"}},
	{packages: []string{"reporters/html"}, only: []string{"internal/report", "internal/page"}},
	{packages: []string{"reporters/*"}, only: []string{
		"internal/report", "internal/result", "internal/gate", "internal/untrusted", "reporters/internal/*",
	}},
	{packages: []string{"reporters"}, only: []string{"internal/report", "reporters/*"}},
	{packages: []string{"providers"}, only: []string{"internal/environment", "providers/*", "providers/internal/registryimage"}},

	{packages: []string{"internal/app"}},
	{packages: []string{"internal/action"}, only: append([]string{
		"internal/app", "internal/config", "internal/task", "internal/job", "internal/github", "internal/git", "internal/vet", "internal/ghvars", "internal/envfile", "providers",
	}, vocabulary...)},
	{packages: []string{"internal/cli"}},
	{packages: []string{"internal/cli/clitest"}, only: []string{"internal/environment", "providers", "providers/*"}}, // used by tests alone
	{packages: []string{"cmd/*", "bench", "internal/arch", "internal/actiontest", "internal/browsertest", "internal/testregistry", "internal/testsets", "examples"}},
}

// violations returns a sentence for each import of pkg that breaks the map. pkg and imports are
// import paths; imports of other modules are not looked at.
func violations(pkg string, imports []string) []string {
	name := below(pkg)
	at := find(name)
	if at < 0 {
		return []string{fmt.Sprintf("%s is not on the map: add it to a row in internal/arch/rules_test.go, "+
			"and to the table in docs/internals/architecture.md (row 0 if it imports nothing of ours)", name)}
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

// importProblem returns what is wrong with an import of other by name, which is in row at; "" if nothing is.
func importProblem(name string, at int, other string) string {
	to := find(other)
	switch {
	case to < 0:
		return "" // is reported for the package itself
	case to == at:
		return fmt.Sprintf("%s imports %s beside it: move what both need into a row below, or pass it in", name, other)
	case to > at:
		return fmt.Sprintf("%s imports %s above it: move what it needs into a row below, or pass it in", name, other)
	case rows[at].only != nil && !matches(rows[at].only, other):
		return fmt.Sprintf("%s imports %s, but may know only %s: pass in what it needs",
			name, other, strings.Join(rows[at].only, ", "))
	}
	return ""
}

// find returns the row of the package, or -1.
func find(name string) int {
	for i, r := range rows {
		if matches(r.packages, name) {
			return i
		}
	}
	return -1
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok { // the patterns are those above, and well-formed
			return true
		}
	}
	return false
}

// below returns the package's name below the module, or "" if it is of another one.
func below(pkg string) string {
	name, ok := strings.CutPrefix(pkg, module+"/")
	if !ok {
		return ""
	}
	return name
}
