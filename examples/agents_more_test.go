package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/test/testenv"
)

// TestAgentsOnANewerDebian lets agents that need a newer Python than that of Debian 12 solve the
// task, and exceed their budget.
func TestAgentsOnANewerDebian(t *testing.T) {
	r := agentsRunner(t)
	const image = "debian:trixie"
	if out, err := exec.Command("docker", "image", "inspect", image).CombinedOutput(); err != nil {
		testenv.Lacks(t, "trixie", fmt.Sprintf("the image %s: %v: %.200s", image, err, out))
	}
	replaceIn(t, filepath.Join(r.dir, "tasks/sum-the-sales/environment/Dockerfile"), testenv.Image, image)
	agents := r.insteadOf(t, "mistral-vibe", "openhands")
	refused := make([]string, len(agents))
	text, err := os.ReadFile(r.job)
	if err != nil {
		t.Fatal(err)
	}
	job := string(text)
	for i, agent := range agents { // the same with a budget that ends before the agent does
		refused[i] = agent + "-refused"
		_, keys, _ := strings.Cut(job, "  - {name: "+agent+", ")
		keys, _, _ = strings.Cut(keys, "\n")
		again := "  - {name: " + refused[i] + ", " + strings.Replace(keys, "max_turns: 20", "max_turns: 1", 1) + "\n"
		job = strings.Replace(job, "\ndatasets:", again+"\ndatasets:", 1)
	}
	if err := os.WriteFile(r.job, []byte(job), 0o644); err != nil {
		t.Fatal(err)
	}
	trials := r.trials(t, "newer", slices.Concat(agents, refused))
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			got, dir := trials(t, agent)
			if got.Error != nil || got.Reward == nil || *got.Reward != 1 {
				t.Fatalf("got %+v with the error %+v, want reward 1", got, got.Error)
			}
			if u := got.Usage; u == nil || u.Turns != 2 || u.Input != 2200 || u.Output != 120 || u.Failed != 0 || u.Refused != 0 {
				t.Errorf("usage %+v, want what the script says", u)
			}
			if got.Costs.Model == nil || fmt.Sprintf("%.6f", *got.Costs.Model) != "0.008400" {
				t.Errorf("cost %v, want 0.0084", got.Costs.Model)
			}
			if len(got.Warnings) > 0 {
				t.Errorf("warnings: %q", got.Warnings)
			}
			validForHarbor(t, filepath.Join(dir, "trajectory.json"))
		})
	}
	for _, agent := range refused {
		t.Run(agent, func(t *testing.T) {
			got, _ := trials(t, agent)
			if got.Error != nil || got.Reward == nil || got.StopCondition != "max_turns" || !got.IsTruncated {
				t.Fatalf("got %+v with the error %+v, want a reward and the stop condition max_turns", got, got.Error)
			}
			if u := got.Usage; u == nil || u.Turns != 1 || u.Refused != 1 {
				t.Errorf("usage %+v, want one turn and one refused call", u)
			}
		})
	}
}

// TestAgentsWithKeysOfTheirOwn installs agents that use their own service, and runs them with an
// invalid key: the missing service must make them fail, not an option of the preset.
func TestAgentsWithKeysOfTheirOwn(t *testing.T) {
	r := agentsRunner(t)
	wants := map[string]string{"amp": "Couldn't connect to the Amp server", "auggie": "AUGMENT_SESSION_AUTH"}
	agents := r.insteadOf(t, "amp", "auggie")
	replaceIn(t, r.job, "model: rehearsal, budget: {max_turns: 20}, ", "")
	replaceIn(t, r.job, "env: {", "env: {AMP_API_KEY: nobody, AUGMENT_SESSION_AUTH: nobody, ")
	cmd := exec.Command(r.binary, "run", r.job, "--name", "own")
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), r.env...)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 { // no trial has a reward
		t.Fatalf("%v, want exit code 1\n%s", err, out)
	}
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			var got agentTrial
			dir := filepath.Join(r.dir, "jobs", "own", agent, "tasks", "sum-the-sales__1")
			readJSON(t, filepath.Join(dir, "result.json"), &got)
			if got.Error == nil || got.Error.Type != "agent_execution_failed" {
				t.Fatalf("the error is %+v, want agent_execution_failed", got.Error)
			}
			said, err := os.ReadFile(filepath.Join(dir, "command/stderr.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(said), wants[agent]) || strings.Contains(string(said), "unknown option") {
				t.Errorf("the agent said:\n%s\nwant %q", said, wants[agent])
			}
		})
	}
}

// insteadOf replaces the agents of the job file by other presets, and returns their names.
func (j agentsJob) insteadOf(t *testing.T, names ...string) []string {
	t.Helper()
	text, err := os.ReadFile(j.job)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), "agents:\n")
	_, tail, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatalf("%s has no agents in the form that this test reads", j.job)
	}
	var lines strings.Builder
	for _, name := range names {
		fmt.Fprintf(&lines, "  - {name: %[1]s, preset: %[1]s, model: rehearsal, budget: {max_turns: 20}}\n", name)
	}
	if err := os.WriteFile(j.job, []byte(head+"agents:\n"+lines.String()+"\n"+tail), 0o644); err != nil {
		t.Fatal(err)
	}
	return j.agents(t, "budget: {max_turns: 20}")
}

// replaceIn replaces a text that must occur in a file.
func replaceIn(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q:\n%s", path, old, text)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), old, with)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestAgentsWaitForASilentModel lets a provider pause between the events of its answers for longer
// than the gateway waits before it sends keep-alives. Each agent must handle those of its protocol.
func TestAgentsWaitForASilentModel(t *testing.T) {
	r := agentsRunner(t)
	text, err := os.ReadFile(filepath.Join(r.dir, "answers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const pause = 17 // keep-alives are sent after 15 seconds
	slow := regexp.MustCompile(`(?m)^( +)usage: .*$`).ReplaceAllString(string(text), fmt.Sprintf("$0\n${1}pace_sec: %d", pause))
	if err := os.WriteFile(filepath.Join(r.dir, "answers.yaml"), []byte(slow), 0o644); err != nil {
		t.Fatal(err)
	}
	replaceIn(t, filepath.Join(r.dir, "tasks/sum-the-sales/task.toml"), agentTimeout, "timeout_sec = 1200")
	agents := r.agents(t, "budget: {max_turns: 20}")
	replaceIn(t, r.job, "\ndatasets:", fmt.Sprintf("\nn_concurrent_trials: %d\n\ndatasets:", len(agents))) // they mostly wait
	trials := r.trials(t, "silence", agents)
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			got, _ := trials(t, agent)
			if got.Error != nil || got.Reward == nil || *got.Reward != 1 || len(got.Warnings) > 0 {
				t.Fatalf("got %+v with the error %+v, want reward 1", got, got.Error)
			}
			turns := int64(2)
			if agent == "aider" {
				turns = 1
			}
			if u := got.Usage; u == nil || u.Turns != turns || u.Calls != turns || u.Model < 2*pause && agent != "mini-swe-agent" { // which requests no streams
				t.Errorf("usage %+v, want %d calls and pauses in them", u, turns)
			}
		})
	}
}

// TestAgentsTryAWebSocket lets codex speak to the gateway as to OpenAI itself: it tries a WebSocket
// first, and offers the provider's web search, which the job does not disable.
func TestAgentsTryAWebSocket(t *testing.T) {
	r := agentsRunner(t)
	r.agents(t, "budget: {max_turns: 20}")
	const execute = `export PATH=/opt/rollout-agent/bin:$PATH CODEX_API_KEY=$OPENAI_API_KEY; ` +
		`codex exec --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --json --model "$ROLLOUT_MODEL_NAME" ` +
		`-c openai_base_url="\"$ROLLOUT_MODEL_URL\"" - <"$ROLLOUT_TASK_INSTRUCTION"`
	replaceIn(t, r.job, "{name: codex, preset: codex, ", "{name: codex, preset: codex, execute: '"+execute+"', ")
	got, dir := r.trials(t, "websocket", []string{"codex"})(t, "codex")
	if got.Error != nil || got.Reward == nil || *got.Reward != 1 || got.Usage == nil || got.Usage.Turns != 2 || got.Usage.Calls != 2 {
		t.Fatalf("got %+v with the error %+v and usage %+v, want reward 1 after 2 turns", got, got.Error, got.Usage)
	}
	if want := `removed from requests, because the network is restricted: ["web_search"]`; len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], want) {
		t.Errorf("warnings %q, want one with %q", got.Warnings, want)
	}
	said, err := os.ReadFile(filepath.Join(dir, "command/stderr.txt"))
	if n := strings.Count(string(said), "failed to connect to Responses WebSocket"); err != nil || n != 1 {
		t.Errorf("codex tried a WebSocket %d times (%v), want once:\n%s", n, err, said)
	}
}

// TestAgentsInstallWithANewNPM installs an agent in an image with a newer npm, which does not run
// the scripts of packages by default.
func TestAgentsInstallWithANewNPM(t *testing.T) {
	r := agentsRunner(t)
	r.agents(t, "budget: {max_turns: 20}")
	preset, _ := presets.Get("claude-code")
	const image = `set -e
[ "$(uname -m)" = x86_64 ] && arch=x64 || arch=arm64
mkdir -p /usr/local/lib/npm
curl -fsSL --retry 5 "https://registry.npmjs.org/node-linux-$arch/-/node-linux-$arch-24.21.0.tgz" | tar -xz -C /usr/local --strip-components=1
curl -fsSL --retry 5 https://registry.npmjs.org/npm/-/npm-12.2.0.tgz | tar -xz -C /usr/local/lib/npm --strip-components=1
ln -sf ../lib/npm/bin/npm-cli.js /usr/local/bin/npm
chmod 755 /usr/local/lib/npm/bin/npm-cli.js
npm --version
`
	for name, text := range map[string]string{"image.sh": image, "preset.sh": preset.Install("")} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const own = "preset: claude-code, model: rehearsal, budget: {max_turns: 20}, files: ["
	replaceIn(t, r.job, own, "install: bash /image.sh && bash /preset.sh, cache_install: false, "+own+"{source: image.sh, target: /image.sh}, {source: preset.sh, target: /preset.sh}, ")
	got, dir := r.trials(t, "npm", []string{"claude-code"})(t, "claude-code")
	if got.Error != nil || got.Reward == nil || *got.Reward != 1 {
		t.Fatalf("got %+v with the error %+v, want reward 1", got, got.Error)
	}
	if said := read(t, filepath.Join(dir, "setup/stdout.txt")); !strings.HasPrefix(said, "12.2.0\n") {
		t.Errorf("it was installed with npm %.20q", said)
	}
}
