package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/config"
)

// A token with quotes or line ends is one string of the MCP servers' JSON, and nothing else.
func TestVariablesOfMCPServersStayStrings(t *testing.T) {
	const token = "a\"}, \"evil\": {\"command\": \"sh\"\nb\\"
	opts := options(directory(t, nil))
	opts.Getenv = func(name string) (string, bool) { return token, name == "DOCS_TOKEN" }
	opts.Stdin = strings.NewReader(`agents:
  - name: claude
    preset: claude-code
    mcp_servers:
      docs: {command: docs, env: {TOKEN: "${DOCS_TOKEN}"}}
    env: {ANTHROPIC_API_KEY: x}
datasets: [{path: dataset}]
`)
	loaded, err := config.Load("-", opts)
	if err != nil {
		t.Fatal(err)
	}
	var servers map[string]agent.StandardMCPServer
	text := loaded.Env["claude"][presets.MCPVar]
	if err := json.Unmarshal([]byte(text), &servers); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got := servers["docs"].Env["TOKEN"]; got != token || len(servers) != 1 {
		t.Errorf("the token is %q in %s, want %q", got, text, token)
	}
}
