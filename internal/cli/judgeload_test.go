package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

var workOf = regexp.MustCompile(`attempt (\d)[^"]*?work-of-t-(\d\d)`)

// scoreFor returns a score that differs between trials next to each other, and between models.
func scoreFor(model string, task, attempt int) float64 {
	return float64((7*task+3*attempt+len(model))%11) / 10
}

// echoing serves a model that answers with what the question says of the trial: its score and its
// reason follow from the trial.
func echoing(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model    string
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var question string
		for _, m := range asked.Messages {
			question += m.Content
		}
		found := workOf.FindStringSubmatch(question)
		if found == nil {
			http.Error(w, "no work", http.StatusBadRequest)
			return
		}
		attempt, _ := strconv.Atoi(found[1])
		task, _ := strconv.Atoi(found[2])
		verdict, _ := json.Marshal(map[string]any{"score": scoreFor(asked.Model, task, attempt), "reason": fmt.Sprintf("%s saw attempt %d of %02d", asked.Model, attempt, task)})
		content, _ := json.Marshal(string(verdict))
		fmt.Fprintf(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":%s}}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`, content)
	}))
	t.Cleanup(s.Close)
	return s
}

const asking = `verdict: {type: object, required: [score, reason], properties: {score: {type: number, minimum: 0, maximum: 1}, reason: {type: string}}}, prompt: "attempt {{.Trial.Attempt}} {{.Trial.Transcript}}"`

// Two hundred trials with three judges each, 16 at a time: nothing is lost, and no verdict is of
// another trial or of another judge.
func TestManyTrialsWithThreeJudges(t *testing.T) {
	t.Parallel()
	const tasks, attempts = 50, 4
	server := echoing(t)
	dir := t.TempDir()
	job := "environment: {type: fake}\nn_attempts: 4\nn_concurrent_trials: 16\nmodels:\n"
	for _, name := range []string{"one", "two", "three"} {
		job += fmt.Sprintf("  %s: {api: openai-chat, model: model-%s, base_url: %q, api_key: k-123456789, price: {input: 1, output: 10}}\n", name, name, server.URL)
	}
	job += `agents: [{name: mine, execute: 'echo "work-of-$(cat "$ROLLOUT_TASK_INSTRUCTION")"'}]
judges:
  - {name: call, agent: call, model: one, ` + asking + `}
  - {name: inside, model: two, source: reply, ` + asking + `}
  - {name: fresh, model: three, source: reply, placement: fresh, ` + asking + `}
reward: (scores.call + scores.inside + scores.fresh) / 3
datasets: [{path: evals}]
`
	write(t, dir, "job.yaml", job)
	for n := range tasks {
		name := fmt.Sprintf("t-%02d", n)
		write(t, dir, "evals/"+name+"/task.toml", "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n")
		write(t, dir, "evals/"+name+"/instruction.md", name)
		write(t, dir, "evals/"+name+"/tests/test.sh", "#!/bin/bash\necho 1 >/logs/verifier/reward.txt\n")
	}
	o := inDir(t.Context(), t, dir, "run", "job.yaml", "--name", "one")
	if o.code != 0 {
		t.Fatalf("the job ended with %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	seen := 0
	for n := range tasks {
		for attempt := 1; attempt <= attempts; attempt++ {
			var tr result.Trial
			text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("jobs/one/mine/evals/t-%02d__%d/result.json", n, attempt)))
			if err == nil {
				err = json.Unmarshal(text, &tr)
			}
			if err != nil || tr.Reward == nil || len(tr.Agents) != 4 {
				t.Fatalf("task %d, attempt %d: %v\n%s", n, attempt, err, text)
			}
			sum := 0.0
			for judge, model := range map[string]string{"call": "model-one", "inside": "model-two", "fresh": "model-three"} {
				for _, run := range tr.Agents {
					if run.Name != judge {
						continue
					}
					seen++
					score := scoreFor(model, n, attempt)
					sum += score
					if want := fmt.Sprintf("%s saw attempt %d of %02d", model, attempt, n); run.Reason != want || run.Score == nil || *run.Score != score || *tr.Scores[judge] != score {
						t.Errorf("%s of %s: %q with the score %v, want %q and %g", judge, tr.Key, run.Reason, run.Score, want, score)
					}
				}
			}
			if d := *tr.Reward - sum/3; d > 1e-9 || d < -1e-9 {
				t.Errorf("%s: the reward is %g, want %g", tr.Key, *tr.Reward, sum/3)
			}
		}
	}
	if seen != tasks*attempts*3 {
		t.Errorf("%d verdicts, want %d", seen, tasks*attempts*3)
	}
	var all result.Job
	text, err := os.ReadFile(filepath.Join(dir, "jobs/one/result.json"))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || all.CompletedTrials != 200 || strings.Contains(o.stderr, "error") {
		t.Errorf("%v\n%s", err, o.stderr)
	}
}
