//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/scripted"
	"github.com/org/rollout-action/internal/test/testenv"
)

// askingAgent is a script that makes as many requests to the model as its first argument says,
// using only bash, and prints the status of each answer. It fails if the last one is a refusal.
const askingAgent = `#!/bin/bash
at=${OPENAI_BASE_URL#http://} at=${at%%/*}
said="" status=""
for ((i = 0; i < $1; i++)); do
	body='{"model":"any","messages":[{"role":"user","content":"'${2:-go}'"}'$said']}'
	exec 7<>"/dev/tcp/${at%%:*}/${at#*:}" || exit 4
	printf 'POST /v1/chat/completions HTTP/1.0\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' "$OPENAI_API_KEY" "${#body}" "$body" >&7
	read -r _ status _ <&7
	echo "status $status"
	sed -n 's/^{.*"content":"\([^"]*\)".*/answer \1/p' <&7
	exec 7>&-
	said=$said',{"role":"assistant","content":"ok"},{"role":"user","content":"more"}'
done
[ "$status" = 200 ]
`

// modelJob writes a job whose agent uses its model. models are the lines of YAML below models,
// turns is the number of its calls.
func modelJob(t *testing.T, name, models string, turns, attempts int) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"job.yaml": fmt.Sprintf(`name: %s
n_attempts: %d
n_concurrent_trials: 1
environment: {type: sandbox, provider_config: %s}
models:
%s
agents:
  - {name: asker, model: m, execute: bash /agent/ask.sh %d, files: [./agent]}
datasets:
  - path: evals
`, name, attempts, configs["sandbox"], models, turns),
		"agent/ask.sh":              askingAgent,
		"evals/task/task.toml":      "version = \"1.0\"\n[environment]\ndocker_image = \"" + testenv.Image + "\"\nnetwork = \"none\"\n",
		"evals/task/instruction.md": "Ask.\n",
		"evals/task/tests/test.sh":  "echo 1 > /logs/verifier/reward.txt\n",
	} {
		path := filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// answerAs answers a request with the response of a scripted model.
func answerAs(t *testing.T, upstream *scripted.Model, w http.ResponseWriter, r *http.Request) {
	answer, err := upstream.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // the client has gone
}

// The job's budget also ends running trials: their models refuse the next turn. They are run again
// when there is more budget.
func TestBudgetOfTheJobRefusesTurns(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	const name = "spends"
	dir := modelJob(t, name, "  m: {api: scripted, script: answers.yaml, price: {input: 1, output: 0}}", 4, 3)
	must(t, os.WriteFile(filepath.Join(dir, "answers.yaml"), []byte("answers: [{text: ok, usage: {input: 100000}}]\nrepeat: true\n"), 0o644))
	// Each turn costs $0.10, each trial $0.40.
	first := start(t, dir, "job.yaml", "--budget-cost-usd", "0.6")
	if code := first.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	j := job{dir: dir, name: name, provider: "sandbox"}
	res := j.result(t)
	if res.CompletedTrials != 1 || res.Errors[result.Cancelled] != 1 || res.SkippedTrials != 1 || len(res.Stopped) != 1 || res.Stopped[0].Reason != result.StopBudgetCost || res.Stopped[0].Cancelled != 1 {
		t.Errorf("result.json says %+v, errors %v, stopped %+v", res.Summary, res.Errors, res.Stopped)
	}
	said := strings.Join(strings.Fields(first.output.String()), " ")
	for _, want := range []string{
		"the trials have cost $0.60, and the budget is $0.60 (budget.max_cost_usd), so 1 trial was cancelled and 1 trial was not started: asker/evals/task__3",
		"rollout resume jobs/spends --budget-cost-usd MORE",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	tree := func() []result.Trial {
		t.Helper()
		tree, err := result.ReadTree(filepath.Join(dir, "jobs", name))
		must(t, err)
		return tree.Trials
	}
	stopped := slices.IndexFunc(tree(), func(tr result.Trial) bool { return tr.Error != nil })
	if stopped < 0 {
		t.Fatal("no trial was stopped")
	}
	if tr := tree()[stopped]; tr.StopCondition != "job_max_cost_usd" || !tr.IsTruncated || tr.Reward != nil || tr.Usage == nil || tr.Usage.Turns != 2 || tr.Usage.Refused == 0 ||
		tr.Costs.Model != result.Dollars(0.2) || !strings.Contains(tr.Error.Message, "budget.max_cost_usd") {
		t.Errorf("the stopped trial: stop %q, reward %v, usage %+v, costs %+v, error %+v", tr.StopCondition, tr.Reward, tr.Usage, tr.Costs, tr.Error)
	}
	// Earlier spending counts: $0.60 is spent, and the two trials cost $0.80.
	if code := start(t, dir, "resume", "jobs/"+name, "--budget-cost-usd", "0.8").exit(t); code != 1 {
		t.Errorf("resumed with too little: exit code %d, want 1", code)
	}
	if code := start(t, dir, "resume", "jobs/"+name, "--budget-cost-usd", "5").exit(t); code != 0 {
		t.Errorf("resumed: exit code %d, want 0", code)
	}
	if res = j.result(t); res.CompletedTrials != 3 || res.PassRate != 1 || len(res.Stopped) != 0 {
		t.Errorf("resumed: %+v, stopped %+v", res.Summary, res.Stopped)
	}
	for _, tr := range tree() {
		if tr.Usage == nil || tr.Usage.Turns != 4 || tr.StopCondition != "" || tr.IsTruncated {
			t.Errorf("%s: stop %q, usage %+v", tr.Key, tr.StopCondition, tr.Usage)
		}
	}
}

// Each shard has its share of the budget, and a merge names the trials that the shards' budgets
// stopped.
func TestBudgetOfAShardRefusesTurns(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	const name = "shares"
	dir := modelJob(t, name, "  m: {api: scripted, script: answers.yaml, price: {input: 1, output: 0}}", 4, 2)
	must(t, os.WriteFile(filepath.Join(dir, "answers.yaml"), []byte("answers: [{text: ok, usage: {input: 100000}}]\nrepeat: true\n"), 0o644))
	for _, shard := range []string{"1/2", "2/2"} {
		if code := start(t, dir, "job.yaml", "--jobs-dir", "jobs-"+shard[:1], "--shard", shard, "--budget-cost-usd", "0.4").exit(t); code != 1 {
			t.Errorf("shard %s: exit code %d, want 1", shard, code)
		}
	}
	if code := start(t, dir, "merge", "jobs-1/"+name+".shard-1-of-2", "jobs-2/"+name+".shard-2-of-2").exit(t); code != 1 {
		t.Errorf("merge: exit code %d, want 1", code)
	}
	res := job{dir: dir, name: name}.result(t)
	if res.Errors[result.Cancelled] != 2 || len(res.Stopped) != 2 || res.Stopped[0].Cancelled != 1 || res.Stopped[1].Cancelled != 1 {
		t.Errorf("result.json says %+v, stopped %+v", res.Summary, res.Stopped)
	}
}

// Recorded exchanges are replayed without a key and a provider, as long as the agent makes the same
// requests, ignoring parts that always vary.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	const key = "sk-only-for-recording-8842"
	script := scripted.Script{Answers: []scripted.Answer{{Text: "first of the key " + key, Usage: scripted.Usage{Input: 1000, Output: 10}}, {Text: "second"}, {Text: "third"}}}
	must(t, script.Check())
	upstream := scripted.New(script)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if got := r.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("the key is %q", got)
		}
		answerAs(t, upstream, w, r)
	}))
	t.Cleanup(server.Close)
	const models = "  m: {api: openai-chat, model: big, api_key: \"${RECORD_KEY}\", price: {input: 1, output: 1}, base_url: \"%s\", %s: tapes}"
	agentAsks := func(dir, prompt string) {
		t.Helper()
		path := filepath.Join(dir, "job.yaml")
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, []byte(strings.Replace(string(text), "bash /agent/ask.sh 3", "'bash /agent/ask.sh 3 \""+prompt+"\"'", 1)), 0o644))
	}
	recorded := modelJob(t, "records", fmt.Sprintf(models, server.URL, "record_to"), 3, 4)
	agentAsks(recorded, "Solve it. It is $(date -Is), and $(date +%s%N) is new.")
	r := &run{cmd: exec.Command(binary, "job.yaml", "--n-concurrent", "4"), output: &bytes.Buffer{}}
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr, r.cmd.Env = recorded, r.output, r.output, append(os.Environ(), "RECORD_KEY="+key)
	must(t, r.cmd.Start())
	if code := r.exit(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, r.output)
	}
	if n := asked.Load(); n != 12 {
		t.Errorf("the provider was asked %d times, want 12", n)
	}
	tapes := os.DirFS(filepath.Join(recorded, "tapes"))
	files := 0
	must(t, fs.WalkDir(tapes, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := fs.ReadFile(tapes, path)
		if strings.Contains(string(text), key) {
			t.Errorf("%s has the key", path)
		}
		return err
	}))
	if files != 12 {
		t.Errorf("%d exchanges were kept, want 12", files)
	}
	server.Close() // no provider is left
	replayed := func(name, prompt string, attempts, code int) (string, []result.Trial) {
		t.Helper()
		dir := modelJob(t, name, fmt.Sprintf(models, server.URL, "replay"), 3, attempts)
		must(t, os.CopyFS(filepath.Join(dir, "tapes"), tapes))
		agentAsks(dir, prompt)
		r := start(t, dir, "job.yaml", "--n-concurrent", "4")
		if got := r.exit(t); got != code {
			t.Errorf("%s: exit code %d, want %d", name, got, code)
		}
		tree, err := result.ReadTree(filepath.Join(dir, "jobs", name))
		must(t, err)
		return r.output.String(), tree.Trials
	}
	t.Run("changed recordings are another experiment", func(t *testing.T) {
		dir := modelJob(t, "first", fmt.Sprintf(models, server.URL, "replay"), 3, 1)
		must(t, os.CopyFS(filepath.Join(dir, "tapes"), tapes))
		agentAsks(dir, "Solve it. It is $(date -Is), and $(date +%s%N) is new.")
		again := func(want string, code int, args ...string) {
			t.Helper()
			r := start(t, dir, args...)
			if got := r.exit(t); got != code || !strings.Contains(r.output.String(), want) {
				t.Errorf("%v: exit code %d, want %d and %q:\n%s", args, got, code, want, r.output)
			}
		}
		again("", 0, "run", "job.yaml")
		again("Resuming: 1 of 2 trials are done, 1 to run", 0, "resume", "jobs/first", "--set", "n_attempts=2")
		var tape string
		must(t, filepath.WalkDir(filepath.Join(dir, "tapes"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				tape = path
			}
			return err
		}))
		text, err := os.ReadFile(tape)
		must(t, err)
		must(t, os.WriteFile(tape, append(text, '\n'), 0o644))
		again("or the recordings of its model (models.m.replay) were others", 2, "resume", "jobs/first", "--set", "n_attempts=3")
	})
	// More attempts than were recorded, at another time, and without the key.
	_, trials := replayed("replays", "Solve it. It is $(date -Is), and $(date +%s%N) is new.", 6, 0)
	for _, tr := range trials {
		if tr.Usage == nil || tr.Usage.Turns != 3 || tr.Usage.InputTokens == nil || *tr.Usage.InputTokens < 1000 || tr.Costs.Model.Amount() < 0.001 {
			t.Errorf("%s: usage %+v, costs %+v", tr.Key, tr.Usage, tr.Costs)
		}
	}
	_, trials = replayed("misses", "Solve it with care. It is $(date -Is), and $(date +%s%N) is new.", 2, 1)
	for _, tr := range trials {
		if tr.Error == nil || tr.Error.Type != result.ReplayMissed || tr.Reward != nil {
			t.Fatalf("%s: %+v, reward %v", tr.Key, tr.Error, tr.Reward)
		}
		for _, want := range []string{"message 1 (user) differs", "- Solve it. It is <time>, and <time> is new.", "+ Solve it with care. It is <time>, and <time> is new."} {
			if !strings.Contains(tr.Error.Message, want) {
				t.Errorf("%q is not in %q", want, tr.Error.Message)
			}
		}
	}
	if n := asked.Load(); n != 12 {
		t.Errorf("the provider was asked %d times, want 12", n)
	}
}

// Turns that have ended stay in the record when everything is killed, along with those of the
// trial's next run.
func TestTurnsSurviveKills(t *testing.T) {
	sideBySide(t, realProviders, killBetweenTurns)
}

func killBetweenTurns(t *testing.T, provider string) {
	script := scripted.Script{Answers: []scripted.Answer{{Text: "ok"}, {Text: "ok"}, {Text: "three"}}}
	must(t, script.Check())
	upstream := scripted.New(script)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 3 { // the turn in which Rollout is killed
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client is gone
			<-r.Context().Done()
			return
		}
		answerAs(t, upstream, w, r)
	}))
	t.Cleanup(server.Close)
	name := fmt.Sprintf("turns-%s-%d", provider, time.Now().UnixNano())
	dir := modelJob(t, name, fmt.Sprintf("  m: {api: openai-chat, model: big, price: {input: 1, output: 0}, base_url: \"%s\"}", server.URL), 3, 1)
	job := filepath.Join(dir, "job.yaml")
	text, err := os.ReadFile(job)
	must(t, err)
	must(t, os.WriteFile(job, []byte(strings.Replace(string(text), "type: sandbox, provider_config: "+configs["sandbox"], "type: "+provider+", provider_config: "+configOf(provider), 1)), 0o644))
	killed := startWith(t, dir, program(provider), "run", "job.yaml")
	record := filepath.Join(dir, "jobs", name, "asker/evals/task__1", result.TrajectoryFile)
	for deadline := time.Now().Add(5 * time.Minute); asked.Load() < 3 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	killed.killWithin(0)
	if got := saidIn(t, record); !slices.Equal(got, []string{"1assistantok", "2assistantok"}) {
		t.Fatalf("recorded: %q", got)
	}
	// The kernel may leave a truncated line of a write.
	f, err := os.OpenFile(record, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"turn":3,"mess`)
	must(t, errors.Join(err, f.Close()))
	before, err := os.ReadFile(record)
	must(t, err)
	if code := startWith(t, dir, program(provider), "resume", "jobs/"+name).exit(t); code != 0 {
		t.Fatalf("resumed: exit code %d, want 0", code)
	}
	if got := saidIn(t, record); !slices.Equal(got, []string{"1assistantok", "2assistantok", "3assistantthree"}) || asked.Load() != 6 {
		t.Errorf("recorded %q after %d calls", got, asked.Load())
	}
	tree, err := result.ReadTree(filepath.Join(dir, "jobs", name))
	must(t, err)
	if tr := tree.Trials[0]; tr.Reward == nil || tr.Usage == nil || tr.Usage.Turns != 3 || tr.Usage.Calls != 3 {
		t.Errorf("%+v, usage %+v", tr, tr.Usage)
	}
	if old, err := os.ReadFile(filepath.Join(dir, "jobs", name, result.SupersededDir, "asker/evals/task__1", result.TrajectoryFile)); err != nil || !bytes.Equal(old, before) {
		t.Errorf("the record of the killed run: %v\n%s", err, old)
	}
	if code := startWith(t, dir, program(provider), "export", "jobs/"+name, "--format", "sft", "--output", "rows.jsonl").exit(t); code != 0 {
		t.Errorf("export: exit code %d, want 0", code)
	}
	if rows, err := os.ReadFile(filepath.Join(dir, "rows.jsonl")); err != nil || strings.Count(string(rows), "\n") != 1 || !strings.Contains(string(rows), "three") {
		t.Errorf("exported: %v\n%s", err, rows)
	}
}

// saidIn returns the number, the role and the text of the last message of each line of a record.
func saidIn(t *testing.T, record string) []string {
	t.Helper()
	text, err := os.ReadFile(record)
	must(t, err)
	var said []string
	for line := range strings.Lines(string(text)) {
		var turn struct {
			Turn     int
			Messages []struct {
				Role  string
				Parts []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(line), &turn); err != nil || len(turn.Messages) == 0 {
			t.Fatalf("the line %q: %v", line, err)
		}
		last := turn.Messages[len(turn.Messages)-1]
		said = append(said, fmt.Sprint(turn.Turn, last.Role, last.Parts[0].Text))
	}
	return said
}

// Several processes may record into one directory concurrently, and be killed: the existing records
// can be replayed.
func TestRecordingsSurviveKills(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	script := scripted.Script{Answers: []scripted.Answer{{Text: strings.Repeat("a long answer ", 5000), Usage: scripted.Usage{Input: 1000, Output: 10}}, {Text: "second"}, {Text: "third"}}}
	must(t, script.Check())
	upstream := scripted.New(script)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerAs(t, upstream, w, r)
	}))
	t.Cleanup(server.Close)
	const models = "  m: {api: openai-chat, model: big, api_key: none-needed-77, price: {input: 1, output: 1}, base_url: \"%s\", %s: tapes}"
	dir := modelJob(t, "whole", fmt.Sprintf(models, server.URL, "record_to"), 3, 4)
	whole := start(t, dir, "run", "job.yaml", "--n-concurrent", "2")
	for n := range 4 {
		start(t, dir, "run", "job.yaml", "--name", fmt.Sprintf("killed-%d", n), "--n-concurrent", "4").killWithin(time.Duration(n) * 400 * time.Millisecond)
	}
	if code := whole.exit(t); code != 0 {
		t.Fatalf("the run that was not killed ended with %d", code)
	}
	server.Close()
	path := filepath.Join(dir, "job.yaml")
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), "record_to", "replay", 1)), 0o644))
	if code := start(t, dir, "run", "job.yaml", "--name", "replayed").exit(t); code != 0 {
		t.Errorf("the replay ended with %d", code)
	}
}
