package presets

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
)

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
			for _, one := range p.APIs {
				if api.Named(model.API(one)) == nil {
					t.Errorf("there is no API %q", one)
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

// Files that no preset uses would be forgotten.
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

// Numbers of points refer to the list of facts that a gateway has to know about its clients; the
// others are tested in package model.

// TestGeminiPresetNamesItsKindOfAccess: gemini-cli asks a person, and ends with exit code 41,
// unless its settings name the kind of access.
func TestGeminiPresetNamesItsKindOfAccess(t *testing.T) {
	var settings struct {
		Security struct{ Auth struct{ SelectedType string } }
	}
	mergedInto(t, "gemini-cli", "$HOME/.gemini/settings.json", &settings)
	if got := settings.Security.Auth.SelectedType; got != "gemini-api-key" {
		t.Errorf("security.auth.selectedType is %q", got)
	}
}

// TestPresetsSwitchOffCallsThatTheTaskDoesNotNeed: these agents ask their model for more than the
// task needs, unless they are told not to.
func TestPresetsSwitchOffCallsThatTheTaskDoesNotNeed(t *testing.T) {
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

// started runs the execute script of a preset with a program in the agent's place. It returns the
// agent's arguments and variables, one a line, and the home directory, where its settings are.
func started(t *testing.T, preset string, env ...string) (seen, home string) {
	t.Helper()
	p, ok := Get(preset)
	if !ok {
		t.Fatalf("there is no preset %s", preset)
	}
	home = t.TempDir()
	instruction := filepath.Join(home, "instruction.md")
	if err := os.WriteFile(instruction, []byte("Do it.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "export ROLLOUT_TASK_INSTRUCTION=" + Quote(instruction) + "\n"
	for _, one := range env {
		text += "export " + Quote(one) + "\n"
	}
	script := strings.NewReplacer(Dir, home+"/agent", "/logs", home+"/logs").Replace(p.Execute(nil))
	seen, err := bash(t, home, text+script, map[string]string{p.Command: `printf '%s\n' "$@"; env` + "\n"})
	if err != nil {
		t.Fatalf("%v\n%s", err, seen)
	}
	return seen, home
}

// behindGateway are variables of an agent whose model is behind the gateway.
var behindGateway = []string{"ROLLOUT_MODEL_URL=http://127.0.0.1:40123/v1", "ROLLOUT_MODEL_KEY=rollout-token", "ROLLOUT_MODEL_NAME=small"}

// TestCodexPresetDefinesAProviderWithoutWebSockets: codex asks for a WebSocket where the built-in
// provider has another URL, and never where a provider is configured.
func TestCodexPresetDefinesAProviderWithoutWebSockets(t *testing.T) {
	seen, _ := started(t, "codex", append(slices.Clone(behindGateway), "ROLLOUT_MODEL_API=openai-responses")...)
	for _, want := range []string{"\nmodel_provider=gateway\n", `model_providers.gateway={name="gateway",base_url="http://127.0.0.1:40123/v1",env_key="ROLLOUT_MODEL_KEY",wire_api="responses"`} {
		if !strings.Contains(seen, want) {
			t.Errorf("codex is not started with %q:\n%s", want, seen)
		}
	}
	if strings.Contains(seen, "openai_base_url") {
		t.Errorf("codex is started with openai_base_url:\n%s", seen)
	}
}

// TestClaudeCodeAsksOtherServersForNoBetas: claude-code asks for betas of Anthropic's, which other
// servers refuse.
func TestClaudeCodeAsksOtherServersForNoBetas(t *testing.T) {
	for off, env := range map[string][]string{"": nil, "1": {ThirdPartyVar + "=1"}, "0": {ThirdPartyVar + "=1", "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=0"}} {
		seen, _ := started(t, "claude-code", slices.Concat(behindGateway, env)...)
		if is := strings.Contains(seen, "\nCLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS="+off+"\n"); is != (off != "") || off == "" && strings.Contains(seen, "BETAS") {
			t.Errorf("with %q:\n%s", env, seen)
		}
	}
}

// TestWebToolsAreOffUnderARestrictedNetwork: under a restricted network agents must not offer tools
// for the web, which would only fail.
func TestWebToolsAreOffUnderARestrictedNetwork(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		testenv.Lacks(t, "node", "Node.js")
	}
	for name, one := range map[string]struct{ api, settings, off string }{
		"claude-code": {"anthropic", "", "--disallowedTools\nWebSearch,WebFetch\n"},
		"codex":       {"openai-responses", "", "\nweb_search=\"disabled\"\n"},
		"gemini-cli":  {"google", ".gemini/settings.json", `"exclude":["google_web_search","web_fetch"]`},
		"qwen-code":   {"openai-chat", ".qwen/settings.json", `"exclude":["web_search","web_fetch"]`},
		"opencode":    {"anthropic", ".config/opencode/opencode.json", `"permission":{"webfetch":"deny","websearch":"deny"}`},
	} {
		for _, network := range []string{"none", "allowlist", "public"} {
			t.Run(name+" "+network, func(t *testing.T) {
				seen, home := started(t, name, slices.Concat(behindGateway, []string{"ROLLOUT_MODEL_API=" + one.api, NetworkVar + "=" + network})...)
				if one.settings != "" {
					text, err := os.ReadFile(filepath.Join(home, one.settings))
					var compact bytes.Buffer
					if err := errors.Join(err, json.Compact(&compact, text)); err != nil {
						t.Fatal(err)
					}
					seen = compact.String()
				}
				if off := strings.Contains(seen, one.off); off != (network != "public") {
					t.Errorf("%q is there: %t\n%s", one.off, off, seen)
				}
			})
		}
	}
}

// TestClaudeCodeSendsNoBillingHeader: claude-code begins its first system block with billing data
// of its vendor, unless it is told not to.
func TestClaudeCodeSendsNoBillingHeader(t *testing.T) {
	if seen, _ := started(t, "claude-code", behindGateway...); !strings.Contains(seen, "\nCLAUDE_CODE_ATTRIBUTION_HEADER=0\n") {
		t.Errorf("claude-code has the variables\n%s", seen)
	}
	if seen, _ := started(t, "claude-code", "CLAUDE_CODE_ATTRIBUTION_HEADER=1"); !strings.Contains(seen, "\nCLAUDE_CODE_ATTRIBUTION_HEADER=1\n") {
		t.Errorf("a variable of the job does not win:\n%s", seen)
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
func TestAgentIsInstalledBelowHomeForAnOrdinaryUser(t *testing.T) {
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

// inDir returns a part of the scripts whose directories are below dir.
func inDir(dir, part string) string {
	return strings.NewReplacer(Dir, dir+"/agent", "/logs", dir+"/logs").Replace(script(part))
}

// bash runs a script with dir as the home directory. programs take precedence over those of the
// machine.
func bash(t *testing.T, dir, text string, programs map[string]string) (string, error) {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	for name, program := range programs {
		testprogram.Write(t, filepath.Join(bin, name), "#!/bin/bash\n"+program)
	}
	cmd := exec.Command("bash", "-c", text)
	cmd.Env = []string{"HOME=" + dir, "PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A program that an image has under the agent's name is used only if it reports the wanted version.
func TestProgramsThatAnImageHas(t *testing.T) {
	for prints, counts := range map[string]bool{
		"2.1.330":                   true,
		"2.1.330 (Claude Code)":     true,
		"claude v2.1.330, of today": true,
		"This is claude/2.1.330.":   true,
		"claude\n2.1.330\n" + strings.Repeat("more\n", 20_000): true,
		"2.1.330-beta.1": false,
		"2.1.330.1":      false,
		"12.1.330":       false,
		"0.2.1.330":      false,
		"2.1.3300":       false,
		"2x1x330":        false,
		"2.1.329":        false,
		"":               false,
	} {
		text := "set -euo pipefail\ncommand=claude version=2.1.330 version_option=\n" + inDir(t.TempDir(), "common") + "\necho to be installed\n"
		out, err := bash(t, t.TempDir(), text, map[string]string{"claude": "cat <<'END'\n" + prints + "\nEND\n"})
		if want := map[bool]string{true: "claude 2.1.330 is in the image already.\n", false: "to be installed\n"}[counts]; err != nil || out != want {
			t.Errorf("a program that prints %.40q: %q (%v), want %q", prints, out, err, want)
		}
	}
	text := "set -euo pipefail\ncommand=claude version=2.1.330 version_option=\n" + inDir(t.TempDir(), "common") + "\necho to be installed\n"
	if out, err := bash(t, t.TempDir(), text, map[string]string{"claude": "echo 2.1.330; exit 1"}); err != nil || out != "to be installed\n" {
		t.Errorf("a program that fails: %q (%v)", out, err)
	}
}

// Files that an image has in the place of the agent's directories must not keep it from working.
func TestDirectoriesThatAnImageHas(t *testing.T) {
	const run = "\nkeep_sessions ~/.claude/projects\ncopy_skills ~/.claude/skills\nmkdir -p ~/.claude/projects && echo a session >~/.claude/projects/one\n"
	for name, one := range map[string]struct {
		before string
		kept   bool // the session is in the logs
		fails  string
	}{
		"nothing":                       {"true", true, ""},
		"a link to nowhere":             {"ln -s /nowhere/at/all ~/.claude/projects", true, ""},
		"a link to itself":              {"ln -s projects ~/.claude/projects", true, ""},
		"a link of the same run before": {"mkdir -p ~/logs/agent/sessions; ln -s ~/logs/agent/sessions ~/.claude/projects", true, ""},
		"a directory":                   {"mkdir ~/.claude/projects", false, ""},
		"skills in a link to nowhere":   {"ln -s /nowhere/at/all ~/.claude/skills", true, ""},
		"skills in the place of a file": {"touch ~/.claude/skills", true, "The skills of the agent cannot be copied"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			skill := filepath.Join(dir, "agent/skills/add")
			if err := os.MkdirAll(skill, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte("add\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := bash(t, dir, "mkdir ~/.claude\n"+one.before+"\n"+inDir(dir, "execute")+run, nil)
			if one.fails != "" {
				if err == nil || !strings.Contains(out, one.fails) {
					t.Errorf("%q (%v), want %q", out, err, one.fails)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, ".claude/skills/add/SKILL.md")); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "logs/agent/sessions/one")); (err == nil) != one.kept {
				t.Errorf("the session in the logs: %v, want it there: %t", err, one.kept)
			}
		})
	}
}

// An agent must begin with the settings of its preset, whatever the image has.
func TestSettingsThatAnImageHas(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		testenv.Lacks(t, "node", "Node.js")
	}
	for name, one := range map[string]struct{ has, want, fails string }{
		"none":                    {"", `{"a":{"b":1}}`, ""},
		"an empty file":           {"touch", `{"a":{"b":1}}`, ""},
		"settings":                {`{"a": {"b": 2, "c": [3]}, "d": "//x"}`, `{"a":{"b":1,"c":[3]},"d":"//x"}`, ""},
		"settings with comments":  {"\ufeff// mine\n{\"a\": /* of a */ {\"c\": \"/* \\\" */\"}} // end", `{"a":{"c":"/* \" */","b":1}}`, ""},
		"a mapping below a value": {`{"a": [1]}`, `{"a":{"b":1}}`, ""},
		"a prototype":             {`{"__proto__": {"b": 2}, "a": {"__proto__": 7}}`, `{"__proto__":{"b":2},"a":{"__proto__":7,"b":1}}`, ""},
		"no JSON":                 {"not: json", "", "settings.json cannot be read or written: "},
		"half of a file":          {`{"a": {`, "", "settings.json cannot be read or written: "},
		"an array":                {"[]", "", "settings.json cannot be read or written: it is no JSON object"},
		"null":                    {"null", "", "settings.json cannot be read or written: it is no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, ".x/settings.json")
			if one.has != "" {
				if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(strings.TrimPrefix(one.has, "touch")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			out, err := bash(t, dir, inDir(dir, "execute")+"\nmerge_json ~/.x/settings.json '{\"a\": {\"b\": 1}}'\necho the agent begins\n", nil)
			if one.fails != "" {
				if err == nil || !strings.Contains(out, one.fails) || strings.Contains(out, "begins") || strings.Contains(out, "    at ") {
					t.Errorf("%q (%v), want %q and no agent", out, err, one.fails)
				}
				return
			}
			text, readErr := os.ReadFile(path)
			var got bytes.Buffer
			if err := errors.Join(err, readErr, json.Compact(&got, text)); err != nil || got.String() != one.want || out != "the agent begins\n" {
				t.Errorf("the settings are %s (%v), want %s; output %q", text, err, one.want, out)
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		dir := t.TempDir()
		out, err := bash(t, dir, "mkdir -p ~/.x/settings.json\n"+inDir(dir, "execute")+"\nmerge_json ~/.x/settings.json '{}'\necho the agent begins\n", nil)
		if err == nil || !strings.Contains(out, "settings.json cannot be read or written: ") || strings.Contains(out, "begins") {
			t.Errorf("%q (%v)", out, err)
		}
	})
}
