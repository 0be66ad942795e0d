package presets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// apis are those of package model, which is beside this one.
var apis = []string{"anthropic", "openai-chat", "openai-responses", "google"}

func TestEveryPresetIsWhole(t *testing.T) {
	if n := len(Names()); n < 22 {
		t.Errorf("there are %d presets", n)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			p, ok := Get(name)
			if !ok || p.About == "" || p.Version == "" {
				t.Fatalf("%+v has no about or version", p)
			}
			for _, api := range p.APIs {
				if !slices.Contains(apis, api) {
					t.Errorf("there is no API %q", api)
				}
			}
			if (len(p.APIs) == 0) != (p.NoGateway != "") {
				t.Errorf("APIs %q, but no_gateway %q: one of the two says how it reaches a model", p.APIs, p.NoGateway)
			}
			if name == Shell {
				if p.Install("") != "" || p.Execute(nil) != "" {
					t.Error("Rollout's own loop has scripts")
				}
				return
			}
			if p.Homepage == "" || len(p.Keys) == 0 || p.Command == "" {
				t.Errorf("%+v lacks its homepage, keys or command", p)
			}
			if p.NPM != "" && p.Node == 0 || p.PyPI != "" && (p.Python[0] == 0 || p.Python[1] < p.Python[0]) {
				t.Errorf("it does not say which versions of Node.js or Python it needs")
			}
			for _, script := range []string{p.Install(""), p.Execute([]string{"--flag", "a 'b' $c\n"})} {
				file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), name)
				if err != nil {
					t.Fatal(err)
				}
				if len(file.Stmts) < 5 {
					t.Errorf("the script is nearly empty:\n%s", script)
				}
			}
			if p.MCP != strings.Contains(p.ExecuteScript, MCPVar) {
				t.Errorf("mcp is %v, but execute says otherwise", p.MCP)
			}
			if len(p.APIs) > 1 && !strings.Contains(p.ExecuteScript, "ROLLOUT_MODEL_API") {
				t.Error("it can speak several protocols, but execute does not choose one")
			}
		})
	}
}

func TestArgumentsReachTheCommandAsTheyAre(t *testing.T) {
	p := Preset{Name: "x", Command: "x", ExecuteScript: "x \"${args[@]}\"\n"}
	script := p.Execute([]string{"a b", "it's", "$HOME", "", "line\nline"})
	if want := `args=('a b' "it's" '$HOME' '' $'line\nline')`; !strings.Contains(script, want) {
		t.Errorf("want %s in:\n%s", want, script)
	}
}

func TestVersionIsQuoted(t *testing.T) {
	p := Preset{Name: "x", Command: "x", NPM: "x"}
	if script := p.Install("1; rm -rf /"); !strings.Contains(script, "version='1; rm -rf /'") {
		t.Error(script)
	}
}

// Files that no preset is made of would be forgotten.
func TestEveryScriptIsUsed(t *testing.T) {
	paths, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	used := ""
	for _, name := range Names() {
		p, _ := Get(name)
		used += p.Install("") + p.Execute(nil)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(used, string(text)) {
			t.Errorf("no preset uses %s", path)
		}
	}
}
