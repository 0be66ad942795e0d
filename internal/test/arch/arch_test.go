package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// listed holds the used fields of `go list -json`. Source: go help list.
type listed struct {
	ImportPath                string
	Imports                   []string
	TestImports, XTestImports []string
}

// TestImports checks the packages that each package is built from. Test files are not restricted:
// they may use the fake provider and the conformance suite anywhere.
func TestImports(t *testing.T) {
	packages := list(t, "linux")
	if len(packages) < 10 {
		t.Fatalf("go list found only %d packages: the check looks at the wrong directory", len(packages))
	}
	for _, p := range packages {
		for _, problem := range violations(p.ImportPath, p.Imports) {
			t.Error(problem)
		}
	}
}

// TestTheProgramHasNoTestCode checks that packages for tests are in no released program.
func TestTheProgramHasNoTestCode(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range list(t, "linux") {
		imports[below(p.ImportPath)] = p.Imports
	}
	if imports["cmd/rollout"] == nil || imports["internal/test/fake"] == nil {
		t.Fatal("cmd/rollout or internal/test/fake is not where this test looks for it")
	}
	parts := []string{"cmd/rollout"}
	for seen := map[string]bool{"": true}; len(parts) > 0; parts = parts[1:] {
		name := parts[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		if name == "internal/test/fake" || name == "internal/test/testenv" || strings.HasSuffix(name, "test") || strings.Contains(name, "test/") {
			t.Errorf("cmd/rollout is built from %s, which is for tests alone", name)
		}
		for _, imported := range imports[name] {
			parts = append(parts, below(imported))
		}
	}
}

// TestThePodProgramIsSmall checks that the program that each pod copies contains neither the
// clients of Kubernetes and Docker nor the command line.
func TestThePodProgramIsSmall(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range list(t, "linux") {
		imports[below(p.ImportPath)] = p.Imports
	}
	parts := []string{"providers/kubernetes/internal/podprogram"}
	if imports[parts[0]] == nil {
		t.Fatalf("%s is not where this test looks for it", parts[0])
	}
	for seen := map[string]bool{"": true}; len(parts) > 0; parts = parts[1:] {
		name := parts[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		if name == "providers/kubernetes" || name == "internal/cli" {
			t.Errorf("the program of pods is built from %s", name)
		}
		for _, imported := range imports[name] {
			if strings.HasPrefix(imported, "k8s.io/") || strings.HasPrefix(imported, "github.com/moby/") {
				t.Errorf("the program of pods is built from %s, which %s imports", imported, name)
			}
			parts = append(parts, below(imported))
		}
	}
}

// list returns every package of the module, as built for a system.
func list(t *testing.T, system string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}

func TestViolations(t *testing.T) {
	for _, tc := range []struct {
		name, pkg, imports string
		want               string // in the one violation; "" is: none
	}{
		{"a layer may import the one below", "internal/run/trial", "internal/core/config", ""},
		{"a layer may skip layers on its way down", "internal/app", "internal/lib/plural", ""},
		{"packages of a layer may import each other", "internal/run/job", "internal/run/trial", ""},
		{"the lowest layer knows nothing of Rollout", "internal/lib/redact", "internal/core/result", "above it"},
		{"trial does not know job", "internal/run/trial", "internal/run/job", "may import only"},
		{"a provider knows the environment contract", "providers/docker", "internal/core/environment", ""},
		{"a provider knows what providers share", "providers/docker", "providers/internal/processes", ""},
		{"a provider knows no other provider", "providers/kubernetes", "providers/docker", "another of providers"},
		{"not even a part of it", "providers/kubernetes/internal/x", "providers/docker/internal/y", "another of providers"},
		{"a provider knows nothing of the engine", "providers/docker", "internal/run/trial", "above it"},
		{"a provider does not read the job file", "providers/docker", "internal/core/config", "may import only"},
		{"a provider does not know its table", "providers/docker", "providers", "another of providers"},
		{"the table of providers knows them", "providers", "providers/docker", ""},
		{"the engine gets its provider passed in", "internal/run/trial", "providers/docker", "may import only"},
		{"the terminal hears events", "internal/output/ui", "internal/core/event", ""},
		{"the terminal does not know the engine", "internal/output/ui", "internal/run/job", "may import only"},
		{"the command line knows all", "internal/cli", "providers", ""},
		{"the command line takes reporters from their table", "internal/cli", "reporters/junit", "take it from the table"},
		{"only main knows the command line", "internal/run/job", "internal/cli", "above it"},
		{"main knows the command line", "cmd/rollout", "internal/cli", ""},
		{"a room may import one below it", "internal/app/sidebyside", "internal/app/rerun", ""},
		{"a room may not import one above it", "internal/app/stages", "internal/app/rerun", "a room above it"},
		{"nor the use cases", "internal/app/host", "internal/app", "a room above it"},
		{"a new room has a place", "internal/app/attic", "internal/app/host", "is no room of"},
		{"products do not know what tests use", "internal/app", "internal/test/fake", "above it"},
		{"other modules are not looked at", "internal/core/result", "github.com/spf13/cobra", ""},
		{"a package with a similar name is in no layer", "internal/library", "", "is not on the map"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			imported := module + "/" + tc.imports
			if strings.HasPrefix(tc.imports, "github.com/") {
				imported = tc.imports
			}
			got := violations(module+"/"+tc.pkg, []string{imported})
			if tc.want == "" && len(got) > 0 {
				t.Errorf("got %q, want nothing", got)
			}
			if tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("got %q, want one violation with %q", got, tc.want)
			}
		})
	}
}
