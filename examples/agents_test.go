package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// agentTrial holds the fields of a trial's result.json that these tests use.
type agentTrial struct {
	Agent  string   `json:"agent_name"`
	Reward *float64 `json:"reward"`
	Error  *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	StopCondition string      `json:"stop_condition"`
	IsTruncated   bool        `json:"is_truncated"`
	Warnings      []string    `json:"warnings"`
	Usage         *agentUsage `json:"usage"`
	Agents        []struct {
		Name, Role, Placement, Reason string
		Score                         *float64    `json:"score"`
		Usage                         *agentUsage `json:"usage"`
	} `json:"agents"`
	Costs struct {
		Model *float64 `json:"model"`
	} `json:"costs"`
}

// agentUsage is an agent's usage of its model.
type agentUsage struct {
	Turns   int64 `json:"turns"`
	Calls   int64 `json:"calls"`
	Failed  int64 `json:"failed_calls"`
	Refused int64 `json:"refused_calls"`
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`

	Waiting float64 `json:"waiting_sec"`
	Model   float64 `json:"model_sec"`
}

// TestAgents installs the agents of agents/presets.yaml from their registries and lets them solve
// the task with the scripted model and without a network.
func TestAgents(t *testing.T) {
	r := agentsRunner(t)
	agents := r.agents(t, "budget: {max_turns: 20}")
	trials := r.trials(t, "all", agents)
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			got, dir := trials(t, agent)
			// The script has two answers; aider needs one.
			turns, input, output := int64(2), int64(2200), int64(120)
			if agent == "aider" {
				turns, input, output = 1, 1000, 100
			}
			if got.Error != nil || got.Reward == nil || *got.Reward != 1 || got.StopCondition != "" || got.IsTruncated {
				t.Fatalf("got %+v with the error %+v, want reward 1", got, got.Error)
			}
			if len(got.Warnings) > 0 {
				t.Errorf("warnings: %q", got.Warnings)
			}
			if u := got.Usage; u == nil || u.Turns != turns || u.Input != input || u.Output != output || u.Failed != 0 || u.Refused != 0 {
				t.Errorf("usage %+v, want %d turns, %d tokens of input and %d of output", u, turns, input, output)
			}
			if want := float64(3*input+15*output) / 1e6; got.Costs.Model == nil || fmt.Sprintf("%.6f", *got.Costs.Model) != fmt.Sprintf("%.6f", want) {
				t.Errorf("cost %v, want %v", got.Costs.Model, want)
			}
			validForHarbor(t, filepath.Join(dir, "trajectory.json"))
			sessions, err := filepath.Glob(filepath.Join(dir, "logs/agent/sessions/*"))
			if err != nil || len(sessions) == 0 && agent != "aider" && agent != "mini-swe-agent" { // which write their logs there by themselves
				t.Errorf("no session is kept: %v", err)
			}
		})
	}
}

// TestAgentsAcceptRefusals lets the agents exceed their budget: each gives up after one request,
// and the trial is verified.
func TestAgentsAcceptRefusals(t *testing.T) {
	r := agentsRunner(t)
	// aider would be done after one turn. It asks again for a file that has no name.
	replaceIn(t, filepath.Join(r.dir, "answers.yaml"), `"total.txt\n`+"```", `"`+"```")
	agents := r.agents(t, "budget: {max_turns: 1}")
	trials := r.trials(t, "refusals", agents)
	for _, agent := range agents {
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

// delegation is a model script that delegates the task to a sub-agent. Agents that receive the
// result of a sub-agent later make one more request. Sub-agents of gemini-cli end with a call.
const delegation = `rules:
  - first: TASK-OF-THE-CHILD
    tool: ^complete_task$
    answers:
      - {text: I add up., run: "awk -F, 'NR > 1 {sum += $2} END {print sum}' sales.csv >total.txt", usage: {input: 500, output: 50}}
      - {text: The child is done., calls: [{name: complete_task, arguments: {result: {response: The child is done.}}}], usage: {input: 600, output: 10}}
  - first: TASK-OF-THE-CHILD
    answers:
      - {text: I add up., run: "awk -F, 'NR > 1 {sum += $2} END {print sum}' sales.csv >total.txt", usage: {input: 500, output: 50}}
      - {text: The child is done., usage: {input: 600, output: 10}}
    repeat: true
  - tool: ^Agent$
    answers:
      - {text: I delegate., calls: [{name: Agent, arguments: {description: add up, prompt: TASK-OF-THE-CHILD, subagent_type: general-purpose}}], usage: {input: 1000, output: 100}}
      - {text: Done., usage: {input: 1200, output: 20}}
    repeat: true
  - tool: ^agent$
    answers:
      - {text: I delegate., calls: [{name: agent, arguments: {description: add up, prompt: TASK-OF-THE-CHILD, subagent_type: general-purpose}}], usage: {input: 1000, output: 100}}
      - {text: Done., usage: {input: 1200, output: 20}}
    repeat: true
  - tool: ^invoke_agent$
    answers:
      - {text: I delegate., calls: [{name: invoke_agent, arguments: {agent_name: generalist, prompt: TASK-OF-THE-CHILD}}], usage: {input: 1000, output: 100}}
      - {text: Done., usage: {input: 1200, output: 20}}
    repeat: true
  - tool: ^task$
    answers:
      - {text: I delegate., calls: [{name: task, arguments: {description: add up, prompt: TASK-OF-THE-CHILD, subagent_type: general}}], usage: {input: 1000, output: 100}}
      - {text: Done., usage: {input: 1200, output: 20}}
    repeat: true
`

// TestAgentsDelegate lets agents delegate the task to sub-agents, whose conversations become
// separate trajectories.
func TestAgentsDelegate(t *testing.T) {
	r := agentsRunner(t)
	if err := os.WriteFile(filepath.Join(r.dir, "answers.yaml"), []byte(delegation), 0o644); err != nil {
		t.Fatal(err)
	}
	r.agents(t, "budget: {max_turns: 20}")
	agents := []string{"claude-code", "gemini-cli", "opencode", "qwen-code"}
	trials := r.trials(t, "delegate", agents)
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			got, dir := trials(t, agent)
			if got.Error != nil || got.Reward == nil || *got.Reward != 1 {
				t.Fatalf("got %+v with the error %+v, want reward 1", got, got.Error)
			}
			var trajectory struct {
				Subagents []struct{ Steps []any } `json:"subagent_trajectories"`
			}
			readJSON(t, filepath.Join(dir, "trajectory.json"), &trajectory)
			if len(trajectory.Subagents) != 1 || got.Usage == nil || got.Usage.Turns < 4 {
				t.Errorf("%d trajectories of sub-agents and usage %+v, want one, and the turns of both", len(trajectory.Subagents), got.Usage)
			}
			validForHarbor(t, filepath.Join(dir, "trajectory.json"))
		})
	}
}

// compaction is a model script that reports a nearly full context after its first answer, and is
// then asked for a summary. Each agent continues with the summary in its own way: at the beginning,
// after one of the agent's own answers, or in its last message.
const compaction = `rules:
  - last: "detailed summary|CONTEXT CHECKPOINT COMPACTION|<state_snapshot> XML|^Here is the conversation so far"
    answers:
      - {text: "<state_snapshot><summary>The task is to write the total into total.txt. SUMMARY-OF-THE-TALK</summary></state_snapshot>", usage: {input: 990000, output: 50}}
    repeat: true
  - first: "^<state_snapshot>|^What did we do so far"
    answers:
      - {text: nobody gets this answer}
      - {text: I add up., run: "awk -F, 'NR > 1 {sum += $2} END {print sum}' sales.csv >total.txt", usage: {input: 900, output: 40}}
      - {text: Done., usage: {input: 950, output: 10}}
    repeat: true
  - first: SUMMARY-OF-THE-TALK
    answers:
      - {text: I add up., run: "awk -F, 'NR > 1 {sum += $2} END {print sum}' sales.csv >total.txt", usage: {input: 900, output: 40}}
      - {text: Done., usage: {input: 950, output: 10}}
    repeat: true
  - last: SUMMARY-OF-THE-TALK
    answers:
      - {text: I add up., run: "awk -F, 'NR > 1 {sum += $2} END {print sum}' sales.csv >total.txt", usage: {input: 900, output: 40}}
    repeat: true
answers:
  - {text: I look., run: "seq 1 7000", usage: {input: 990000, output: 100}}
  - {text: Done., usage: {input: 950, output: 10}}
repeat: true
`

// limits configures the size of the model's context for opencode.
const limits = `{"provider": {"gateway": {"models": {"rehearsal": {"limit": {"context": 200000, "output": 8000}}}}}}`

// TestAgentsCompact lets agents compact a conversation that fills the context. Their trajectories
// mark the place, and keep the messages before it. gemini-cli and pi are left out: with a single
// message of the user, neither compacted when it was tried.
func TestAgentsCompact(t *testing.T) {
	r := agentsRunner(t)
	for name, text := range map[string]string{"answers.yaml": compaction, "opencode.json": limits} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.agents(t, "budget: {max_turns: 20}")
	const own = "preset: opencode, model: rehearsal, budget: {max_turns: 20}, files: ["
	replaceIn(t, r.job, own, own+"{source: opencode.json, target: /root/.config/opencode/opencode.json}, ")
	agents := []string{"claude-code", "codex", "opencode", "qwen-code"}
	trials := r.trials(t, "compact", agents)
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			got, dir := trials(t, agent)
			if got.Error != nil || got.Reward == nil || *got.Reward != 1 || got.Usage == nil || got.Usage.Turns != 4 {
				t.Fatalf("got %+v with the error %+v and usage %+v, want reward 1 after 4 turns", got, got.Error, got.Usage)
			}
			var trajectory struct {
				Steps []struct {
					Source, Message string
					Extra           struct {
						Context struct{ Type string } `json:"context_management"`
					}
				}
				Subagents []any `json:"subagent_trajectories"`
			}
			readJSON(t, filepath.Join(dir, "trajectory.json"), &trajectory)
			var changes, said []string
			for _, step := range trajectory.Steps {
				if kind := step.Extra.Context.Type; kind != "" {
					changes = append(changes, kind)
				}
				if step.Source == "agent" {
					said = append(said, step.Message)
				}
			}
			want := []string{"compaction"}
			if agent == "qwen-code" {
				want = append(want, "injection") // it reminds the model of its skills again
			}
			added := slices.Index(said, "I add up.")
			if !slices.Equal(changes, want) || len(said) < 3 || said[0] != "I look." || !slices.Equal(said[max(0, added):], []string{"I add up.", "Done."}) {
				t.Errorf("changes of the context %q, answers %q: want one conversation with %q", changes, said, want)
			}
			// Some request the summary in a separate conversation.
			if apart := agent == "opencode" || agent == "qwen-code"; len(trajectory.Subagents) > 0 != apart || len(trajectory.Subagents) > 1 {
				t.Errorf("%d other conversations", len(trajectory.Subagents))
			}
			validForHarbor(t, filepath.Join(dir, "trajectory.json"))
		})
	}
}

// TestTrajectoriesAreValidForHarbor runs Harbor's validator on the golden files of the conversion,
// and on a trial.
func TestTrajectoriesAreValidForHarbor(t *testing.T) {
	harborPython(t)
	goldens, err := filepath.Glob("../internal/model/trajectory/testdata/*.json")
	if err != nil || len(goldens) < 5 {
		t.Fatalf("golden files %q: %v", goldens, err)
	}
	validForHarbor(t, goldens...)
	r := runner{dir: t.TempDir(), job: mustAbs(t, "agents/job.yaml"), provider: providers["sandbox"], binary: build(t)}
	r.env = r.provider.prepare(t, r.dir)
	dir, _ := r.start(t, "harbor")
	validForHarbor(t, filepath.Join(r.dir, dir, "baseline", "tasks", "sum-the-sales__1", "trajectory.json"))

	broken := filepath.Join(r.dir, "broken.json")
	if err := os.WriteFile(broken, []byte(`{"schema_version": "ATIF-v1.8", "agent": {"name": "x"}, "steps": []}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(harborPython(t), "-m", "harbor.utils.trajectory_validator", broken).CombinedOutput(); err == nil {
		t.Errorf("the validator takes everything: %s", out)
	}
}

// harborPython returns the path of a Python that has Harbor's validator.
func harborPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("ROLLOUT_TEST_HARBOR_PYTHON")
	if python == "" {
		testenv.Lacks(t, "harbor", "a Python with Harbor 0.25 in ROLLOUT_TEST_HARBOR_PYTHON")
	}
	return python
}

// validForHarbor fails the test if Harbor's validator rejects a trajectory.
func validForHarbor(t *testing.T, paths ...string) {
	t.Helper()
	python := harborPython(t)
	for _, path := range paths {
		if out, err := exec.Command(python, "-m", "harbor.utils.trajectory_validator", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// agentTimeout is the timeout of the task of agents/presets.yaml.
const agentTimeout = "timeout_sec = 300"

// agentsJob is a job file based on agents/presets.yaml.
type agentsJob struct{ runner }

func agentsRunner(t *testing.T) agentsJob {
	t.Helper()
	if !testenv.Requires("agents") {
		t.Skip("takes minutes and needs the registries of npm and PyPI: ROLLOUT_TEST_REQUIRE=agents,docker")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("agents")); err != nil {
		t.Fatal(err)
	}
	replaceIn(t, filepath.Join(dir, "tasks/sum-the-sales/task.toml"), agentTimeout, agentTimeout+"\ninstall_timeout_sec = 1500") // on busy machines
	provider := providers["docker"]
	return agentsJob{runner{dir: dir, job: filepath.Join(dir, "presets.yaml"), provider: provider, env: provider.prepare(t, dir), binary: build(t)}}
}

// agents rewrites the job file with other keys in place of the agents' budget, and returns the
// names of its agents. In containers, their install scripts trust the certificate authorities of
// this machine, which may be behind a proxy.
func (j agentsJob) agents(t *testing.T, budget string) []string {
	t.Helper()
	trust := trusted(t, j.dir)
	text, err := os.ReadFile(j.job)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "  - {name: "), ","); ok && strings.HasPrefix(line, "  - {name: ") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s has no agents in the form that this test reads", j.job)
	}
	changed := strings.ReplaceAll(string(text), "budget: {max_turns: 20}", budget+", "+trust)
	if err := os.WriteFile(j.job, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	return names
}

// trials runs agents of the job, and returns a function that returns the trial of one and its
// directory. A registry may fail temporarily: an agent that could not be installed is retried once.
func (j agentsJob) trials(t *testing.T, name string, agents []string) func(*testing.T, string) (agentTrial, string) {
	t.Helper()
	args := []string{"--min-pass-rate", "0", "--max-failed-trials", "-1"}
	for _, agent := range agents {
		args = append(args, "--agent", agent)
	}
	job, _ := j.start(t, name, args...)
	read := func(t *testing.T, agent string) (agentTrial, string) {
		t.Helper()
		dir := filepath.Join(j.dir, job, agent, "tasks", "sum-the-sales__1")
		var trial agentTrial
		readJSON(t, filepath.Join(dir, "result.json"), &trial)
		if t.Failed() || trial.Error != nil {
			for _, log := range []string{"setup/stderr.txt", "command/stdout.txt", "command/stderr.txt"} {
				text, _ := os.ReadFile(filepath.Join(dir, log)) // it may not have come that far
				t.Logf("the end of %s:\n%s", log, text[max(0, len(text)-2000):])
			}
		}
		return trial, dir
	}
	var again []string
	for _, agent := range agents {
		if trial, _ := read(t, agent); trial.Error != nil && trial.Error.Type == "agent_install_failed" {
			again = append(again, "--rerun", agent+"/*")
		}
	}
	if len(again) > 0 {
		j.run(t, append([]string{"resume", job, "--max-failed-trials", "-1", "--min-pass-rate", "0"}, again...)...)
	}
	return read
}

// judged configures claude-code as a judge in both placements, with a scripted model that decides
// by the files that the judge finds.
const judged = `models:
  grader: {api: scripted, script: grader.yaml, price: {input: 3, output: 15}}
agents:
  - {name: right, execute: echo 42 >total.txt}
  - {name: wrong, execute: echo 41 >total.txt}
judge_agents:
  - {name: claude, preset: claude-code}
judges:
  - {name: inside, agent: claude, model: grader, prompt: "Is the total right?", score: "verdict.points / 10", verdict: VERDICT, budget: {max_turns: 5}}
  - {name: outside, agent: claude, model: grader, placement: fresh, artifacts: [/app/total.txt], prompt: "Is the total right?", score: "verdict.points / 10", verdict: VERDICT, budget: {max_turns: 5}}
reward: scores.inside * scores.outside
datasets:
  - path: tasks
environment:
  type: docker
  network: none
  network_during_install: true
`

const grader = `rules:
  - last: the total is 42
    answers:
      - {}
      - text: '{"reason": "it is 42", "points": 10}'
        usage: {input: 1200, output: 20}
answers:
  - text: I look at the total.
    run: echo "the total is $(cat /app/total.txt)"
    usage: {input: 1000, output: 100}
  - text: '{"reason": "it is 41", "points": 0}'
    usage: {input: 1200, output: 20}
repeat: true
`

// TestAgentsJudge lets claude-code judge in the environment of the agent, and in a fresh one.
func TestAgentsJudge(t *testing.T) {
	r := agentsRunner(t)
	verdict := "{type: object, required: [reason, points], properties: {reason: {type: string}, points: {type: integer, minimum: 0, maximum: 10}}}"
	job := strings.ReplaceAll(judged, "VERDICT", verdict)
	job = strings.Replace(job, "preset: claude-code", "preset: claude-code, "+trusted(t, r.dir), 1)
	for name, text := range map[string]string{"presets.yaml": job, "grader.yaml": grader} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	trials := r.trials(t, "judge", []string{"right", "wrong"})
	for agent, want := range map[string]struct {
		score  float64
		reason string
	}{"right": {1, "it is 42"}, "wrong": {0, "it is 41"}} {
		t.Run(agent, func(t *testing.T) {
			got, _ := trials(t, agent)
			if got.Error != nil || got.Reward == nil || *got.Reward != want.score {
				t.Fatalf("got %+v with the error %+v, want the reward %v", got, got.Error, want.score)
			}
			var judges []string
			for _, run := range got.Agents {
				if run.Role != "judge" {
					continue
				}
				judges = append(judges, run.Name+" "+run.Placement)
				if run.Score == nil || *run.Score != want.score || run.Reason != want.reason || run.Usage == nil || run.Usage.Turns != 2 {
					t.Errorf("judge %+v with usage %+v, want the score %v, the reason %q and 2 turns", run, run.Usage, want.score, want.reason)
				}
			}
			if slices.Sort(judges); !slices.Equal(judges, []string{"inside trial", "outside fresh"}) {
				t.Errorf("judges: %q", judges)
			}
		})
	}
}

// trusted returns the keys of an agent with which its install scripts trust the certificate
// authorities of this machine, a copy of which is in dir.
func trusted(t *testing.T, dir string) string {
	t.Helper()
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	authorities, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), authorities, 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("files: [{source: ca.crt, target: %[1]s}], env: {NODE_EXTRA_CA_CERTS: %[1]s, PIP_CERT: %[1]s, REQUESTS_CA_BUNDLE: %[1]s}", bundle)
}
