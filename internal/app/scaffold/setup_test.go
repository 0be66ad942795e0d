package scaffold_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/scaffold"
	"github.com/org/rollout-action/internal/app/stages"
)

// servers has MCP servers with secrets, and some that no environment can run.
const servers = `{"mcpServers": {
  "docs": {"command": "npx", "args": ["-y", "@acme/docs@1.2.3", "--api-key", "SECRET1", "--token=SECRET2", "--level=${LEVEL:-SECRET3}", "Authorization: SECRET4", "sk-SECRET5abcdef", "$x"],
    "env": {"TOKEN": "SECRET6", "REGION": "${AWS_REGION:-SECRET7}", "AUTH": "Bearer SECRET8", "OK": "Bearer ${AUTH}"}},
  "own": {"command": "node", "args": ["./mcp/server.js"]},
  "web": {"type": "http", "url": "https://api.example.org/mcp", "headers": {"Authorization": "Bearer SECRET9"}},
  "zap": {"url": "https://mcp.example.org/s/ab12cd34ef56ab12cd34ef56SECRET/mcp"},
  "query": {"url": "https://mcp.example.org/mcp?key=SECRET"},
  "user": {"url": "https://me:SECRET@mcp.example.org/mcp"},
  "local": {"type": "sse", "url": "http://127.0.0.1:3000/sse"},
  "engine": {"command": "docker", "args": ["run", "SECRET"]},
  "home": {"command": "node", "args": ["--config=/Users/me/SECRET.js"]},
  "bad\u001b[31m name": {"command": "x"},
  "control": {"command": "x", "args": ["a\nb"]},
  "off": {"command": "x", "disabled": true}, "odd": 3, "none": {}
}}`

func TestFilesForAnAgentAreComparedWithNone(t *testing.T) {
	h := withDocker(t)
	write(t, h, ".git/HEAD", "")
	write(t, h, "CLAUDE.md", "\xff\xfe no UTF-8\r\n")
	write(t, h, ".claude/agents/reviewer.md", "x")
	write(t, h, ".claude/skills/pdf/SKILL.md", "x")
	write(t, h, ".claude/settings.json", `{"env": {"KEY": "SECRET"}}`)
	write(t, h, "GEMINI.md", "x")
	write(t, h, "mcp/server.js", "x")
	write(t, h, ".mcp.json", "\ufeff"+strings.ReplaceAll(servers, "\n", "\r\n"))
	if err := os.Symlink("CLAUDE.md", h.Path("AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "ci/agents", Provider: "fake", Tasks: "evals"})
	if err != nil {
		t.Fatal(err)
	}
	job, workflow := read(t, h, "ci/agents/job.yaml"), read(t, h, ".github/workflows/rollout.yml")
	for _, want := range []string{
		"{source: ../../CLAUDE.md, target: /app/CLAUDE.md}", "{source: ../../CLAUDE.md, target: /app/AGENTS.md}",
		"{source: ../../.claude/agents, target: /app/.claude/agents}", "{source: ../../mcp/server.js, target: /app/mcp/server.js}",
		"    skills: ../../.claude/skills\n",
		`docs: {command: npx, args: ["-y", "@acme/docs@1.2.3", "--api-key", "${MCP_DOCS_ARG_4}", "--token=${MCP_DOCS_ARG_5}", "--level=${LEVEL}", "${MCP_DOCS_ARG_7}", "${MCP_DOCS_ARG_8}", "$$x"]`,
		`env: {AUTH: "${AUTH}", OK: "Bearer ${AUTH}", REGION: "${AWS_REGION}", TOKEN: "${TOKEN}"}`,
		`web: {url: "https://api.example.org/mcp", headers: {Authorization: "${MCP_WEB_AUTHORIZATION}"}}`,
		"compare: [[claude-code-with, claude-code-without]]\n", "    - agent: claude-code-with\n",
		"CLAUDE.md, .claude/agents, AGENTS.md, .claude/skills (1 skill), mcp/server.js, .mcp.json (3 MCP servers)",
	} {
		if !strings.Contains(job, want) {
			t.Errorf("no %q in\n%s", want, job)
		}
	}
	if strings.Contains(job+workflow, "SECRET") || strings.Contains(job, "\x1b") || strings.Contains(job, h.Path(".")) {
		t.Errorf("a secret, a control character or a path of this machine is in\n%s\n%s", job, workflow)
	}
	for _, name := range []string{"ANTHROPIC_API_KEY", "AUTH", "AWS_REGION", "LEVEL", "MCP_DOCS_ARG_4", "TOKEN"} {
		if !slices.Contains(done.Unset, name) || !strings.Contains(workflow, "        "+name+"=${{ secrets."+name+" }}\n") {
			t.Errorf("%s is not among %v, or not in\n%s", name, done.Unset, workflow)
		}
	}
	if len(done.Setup.Left) != 12 || !slices.Equal(done.Setup.Others, []string{"gemini-cli"}) {
		t.Errorf("%+v", done.Setup)
	}
	checked, err := proof.Validate(t.Context(), h, stages.JobRequest{File: "ci/agents/job.yaml"}, false)
	if err != nil || checked.Agents != 4 || len(checked.Problems.Errors()) > 0 {
		t.Errorf("%+v, %v", checked, err)
	}
}

func TestEveryAgentsFilesAreFound(t *testing.T) {
	for name, want := range map[string]string{
		"CLAUDE.md": "claude-code", ".claude/commands/x.md": "claude-code", ".claude/skills/a/SKILL.md": "claude-code",
		"AGENTS.md": "codex", ".codex/skills/a/SKILL.md": "codex", ".agents/skills/a/SKILL.md": "codex", "skills/a/SKILL.md": "claude-code",
		"GEMINI.md": "gemini-cli", "QWEN.md": "qwen-code", ".opencode/agent/a.md": "opencode", ".github/copilot-instructions.md": "copilot-cli",
		".cursor/rules/a.mdc": "cursor-agent", ".factory/droids/a.md": "droid", ".junie/guidelines.md": "junie", ".kilocode/rules/a.md": "kilocode",
		"CRUSH.md": "crush", ".clinerules/a.md": "cline", ".goosehints": "goose",
		"skills/README.md": "", ".claude/settings.json": "", "README.md": "",
	} {
		h := withDocker(t)
		write(t, h, "new/"+name, "x")
		done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new", Provider: "fake"})
		if err != nil || done.Setup.Preset != want {
			t.Errorf("%s: %+v, %v, want %q", name, done.Setup, err, want)
		}
		checked, err := proof.Validate(t.Context(), h, stages.JobRequest{File: "new/job.yaml"}, false)
		if err != nil || len(checked.Problems.Errors()) > 0 || want != "" && checked.Agents != 4 {
			t.Errorf("%s: %+v, %v\n%s", name, checked, err, read(t, h, "new/job.yaml"))
		}
	}
}

func TestSettingsOfOtherAgentsHaveServers(t *testing.T) {
	for name, text := range map[string]string{
		".codex/config.toml":    "[mcp_servers.s]\ncommand = \"uvx\"\nargs = [\"tool\"]\nenv = {A = \"SECRET\"}\n",
		".gemini/settings.json": `{"mcpServers": {"s": {"command": "uvx", "args": ["tool"], "env": {"A": "$A"}}}}`,
		"opencode.json":         `{"mcp": {"s": {"type": "local", "command": ["uvx", "tool"], "environment": {"A": "SECRET"}}}}`,
		".cursor/mcp.json":      `{"mcpServers": {"s": {"command": "uvx", "args": ["tool"], "env": {"A": "${env:A}"}}}}`,
	} {
		h := withDocker(t)
		write(t, h, "new/"+name, text)
		_, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new", Provider: "fake"})
		if job := read(t, h, "new/job.yaml"); err != nil || !strings.Contains(job, `s: {command: uvx, args: [tool], env: {A: "${A}"}}`) {
			t.Errorf("%s: %v\n%s", name, err, job)
		}
	}
}

func TestFilesThatNoJobCouldUseAreLeftOut(t *testing.T) {
	h := withDocker(t)
	write(t, h, "outside/secret", "x")
	write(t, h, "repo/.git/HEAD", "")
	write(t, h, "repo/.gitignore", ".claude/\r\n")
	write(t, h, "repo/.claude/skills/a/SKILL.md", "x")
	write(t, h, "repo/.mcp.json", `{"mcpServers": SECRET`)
	if err := errors.Join(os.Symlink("../outside/secret", h.Path("repo/CLAUDE.md")), syscall.Mkfifo(h.Path("repo/AGENTS.md"), 0o644),
		os.Symlink("nowhere", h.Path("repo/GEMINI.md")), syscall.Mkfifo(h.Path("repo/skills"), 0o644)); err != nil {
		t.Fatal(err)
	}
	found, err := scaffold.FindSetup(t.Context(), h, "repo", "claude-code")
	if err != nil || found.Any() {
		t.Fatalf("%+v, %v", found, err)
	}
	write(t, h, "repo/QWEN.md", "x")
	for preset, want := range map[string]map[string]string{
		"claude-code": {"CLAUDE.md": "is a link out of the repository", "AGENTS.md": "is neither a file nor a directory", ".claude/skills": "is ignored by git", ".mcp.json": "is no valid JSON"},
		"gemini-cli":  {"GEMINI.md": "broken link"},
	} {
		write(t, h, "repo/.gemini/agents/a.md", "x")
		write(t, h, "repo/.agents/skills/b/SKILL.md", "x") // so that there is something
		found, err := scaffold.FindSetup(t.Context(), h, "repo", preset)
		for name, why := range want {
			if err != nil || !slices.ContainsFunc(found.Left, func(l scaffold.LeftOut) bool { return l.Name == name && strings.Contains(l.Why, why) }) {
				t.Errorf("%s %s: %+v, %v, want %q", preset, name, found.Left, err, why)
			}
		}
	}
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "repo", Provider: "fake", Agent: "my-agent"})
	if err != nil || done.Setup.Any() || strings.Contains(read(t, h, "repo/job.yaml"), "compare") {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestFilesAreLookedForUpToTheTopOfTheRepository(t *testing.T) {
	h := withDocker(t)
	write(t, h, "CLAUDE.md", "not of the repository")
	write(t, h, "repo/.git", "gitdir: elsewhere\n")
	write(t, h, "repo/a/b/keep", "")
	if found, err := scaffold.FindSetup(t.Context(), h, "repo/a/b", ""); err != nil || found.Any() {
		t.Errorf("%+v, %v", found, err)
	}
	write(t, h, "repo/GEMINI.md", "x")
	if found, err := scaffold.FindSetup(t.Context(), h, "repo/a/b", ""); err != nil || found.Preset != "gemini-cli" {
		t.Errorf("%+v, %v", found, err)
	}
	write(t, h, "repo/a/QWEN.md", "x")
	if found, err := scaffold.FindSetup(t.Context(), h, "repo/a/b/new", ""); err != nil || found.Preset != "qwen-code" {
		t.Errorf("%+v, %v", found, err)
	}
	// Without a repository, the current directory counts, and none above it.
	here := *h
	here.Dir = h.Path("repo/a/b")
	if err := os.Remove(h.Path("repo/.git")); err != nil {
		t.Fatal(err)
	}
	write(t, h, "repo/a/b/CRUSH.md", "x")
	if found, err := scaffold.FindSetup(t.Context(), &here, "new", ""); err != nil || found.Preset != "crush" {
		t.Errorf("%+v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scaffold.FindSetup(ctx, h, "repo", ""); !errors.Is(err, host.ErrCancelled) {
		t.Error(err)
	}
}

func TestFilesGoToTheWorkingDirectoryOfTheTasks(t *testing.T) {
	for text, want := range map[string]string{
		"FROM x\nWORKDIR /a\nRUN y\nworkdir /srv/code/\r\n": "/srv/code/CLAUDE.md",
		"FROM x\nWORKDIR rel\n":                             "/app/CLAUDE.md",
		"FROM x\nWORKDIR /tests\n":                          "/app/CLAUDE.md",
		"FROM x\nWORKDIR /\n":                               "/CLAUDE.md",
	} {
		h := withDocker(t)
		write(t, h, "new/CLAUDE.md", "x")
		write(t, h, "mine/t/task.toml", "version = \"1.0\"\n")
		write(t, h, "mine/t/instruction.md", "x")
		write(t, h, "mine/t/tests/test.sh", "true")
		write(t, h, "mine/t/environment/Dockerfile", text)
		_, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "new", Provider: "fake", Tasks: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		if job := read(t, h, "new/job.yaml"); !strings.Contains(job, "target: "+want+"}") {
			t.Errorf("%q: no %s in\n%s", text, want, job)
		}
		checked, err := proof.Validate(t.Context(), h, stages.JobRequest{File: "new/job.yaml"}, false)
		if err != nil || len(checked.Problems.Errors()) > 0 {
			t.Errorf("%+v, %v", checked, err)
		}
	}
}
