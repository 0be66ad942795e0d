package presets

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// Numbers of points are those of the list of what a gateway has to know about its clients; the others are tested in package model.

// TestPoint12GeminiHasAKindOfAccess: gemini-cli asks a person, and ends with exit code 41, unless its settings name the kind of access.
func TestPoint12GeminiHasAKindOfAccess(t *testing.T) {
	var settings struct {
		Security struct{ Auth struct{ SelectedType string } }
	}
	mergedInto(t, "gemini-cli", "$HOME/.gemini/settings.json", &settings)
	if got := settings.Security.Auth.SelectedType; got != "gemini-api-key" {
		t.Errorf("security.auth.selectedType is %q", got)
	}
}

// TestPoint17NoHiddenCalls: these agents ask their model for more than the task needs, unless they are told not to.
func TestPoint17NoHiddenCalls(t *testing.T) {
	var settings struct {
		Memory struct{ EnableManagedAutoMemory *bool }
	}
	mergedInto(t, "qwen-code", "$HOME/.qwen/settings.json", &settings)
	if memory := settings.Memory.EnableManagedAutoMemory; memory == nil || *memory {
		t.Error("memory.enableManagedAutoMemory is not off")
	}
	opencode, _ := Get("opencode")
	if script := opencode.Execute(nil); !regexp.MustCompile(`(?m)^opencode run .*--title \S`).MatchString(script) {
		t.Errorf("opencode runs without a title, so it asks its model for one:\n%s", script)
	}
}

// mergedInto reads the first settings that the script of a preset merges into a file.
func mergedInto(t *testing.T, preset, file string, into any) {
	t.Helper()
	p, ok := Get(preset)
	if !ok {
		t.Fatalf("there is no preset %s", preset)
	}
	_, rest, found := strings.Cut(p.Execute(nil), `merge_json "`+file+`" '`)
	// Parts of the settings are variables of the script, between quotes.
	rest, _, ended := strings.Cut(rest, "}'\n")
	settings := regexp.MustCompile(`'"\$\w+"'`).ReplaceAllString(rest, "null") + "}"
	if err := json.Unmarshal([]byte(settings), into); !found || !ended || err != nil {
		t.Fatalf("the script of %s merges no settings into %s: %v: %s", preset, file, err, settings)
	}
}

// An ordinary user installs below HOME, because the directory of the job's skills belongs to root.
func TestSkillsBesideAnInstallationBelowHome(t *testing.T) {
	if _, err := os.Stat(Dir); err == nil {
		t.Skip(Dir + " exists on this machine")
	}
	home := t.TempDir()
	cmd := exec.Command("bash", "-c", script("execute")+"\necho \"$home\"\n")
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if want := home + "/.rollout-agent\n"; err != nil || string(out) != want {
		t.Errorf("the agent is looked for in %q (%v), want %q", out, err, want)
	}
	if text := script("execute"); !strings.Contains(text, SkillsDir) || !strings.Contains(text, `[ -d "$home/bin" ]`) {
		t.Errorf("skills are not taken from %s:\n%s", SkillsDir, text)
	}
}
