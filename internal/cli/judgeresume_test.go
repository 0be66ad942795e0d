package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// graders serves two models that judge: /style always gives a verdict, /depth only while it is not
// ill. A request that hangs ends with its client.
type graders struct {
	*httptest.Server
	style, depth atomic.Int32 // requests
	ill, hangs   atomic.Bool
	asked        chan struct{} // has an element when a request hangs
}

func newGraders(t *testing.T) *graders {
	g := &graders{asked: make(chan struct{}, 10)}
	mux := http.NewServeMux()
	verdict := func(w http.ResponseWriter, score string) {
		fmt.Fprintf(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"{\"score\": %s, \"reason\": \"So.\"}"}}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`, score)
	}
	mux.HandleFunc("/style/", func(w http.ResponseWriter, _ *http.Request) {
		g.style.Add(1)
		verdict(w, "0.5")
	})
	mux.HandleFunc("/depth/", func(w http.ResponseWriter, r *http.Request) {
		g.depth.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // so that the server sees that the client is gone
		switch {
		case g.hangs.Load():
			g.asked <- struct{}{}
			<-r.Context().Done()
		case g.ill.Load():
			http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
		default:
			verdict(w, "0.25")
		}
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

// judgedDir writes a job with the judges style and depth, and a task. depth has the keys of the
// second judge.
func judgedDir(t *testing.T, g *graders, depth string) string {
	dir := t.TempDir()
	model := func(name string) string {
		return fmt.Sprintf("  %s: {api: openai-chat, model: m, base_url: %q, api_key: k-123456789, price: {input: 1, output: 10}}\n", name, g.URL+"/"+name)
	}
	judge := `verdict: {type: object, required: [score, reason], properties: {score: {type: number, minimum: 0, maximum: 1}, reason: {type: string}}}, prompt: "How good is it? {{.Trial.Transcript}} {{.Tests.Output}}"`
	for name, text := range map[string]string{
		"job.yaml": "environment: {type: fake}\nretry: {judge_attempts: 1}\nmodels:\n" + model("style") + model("depth") +
			"agents:\n  - {name: mine, execute: 'echo working; echo done >/tmp/out'}\n" +
			"judges:\n  - {name: style, agent: call, model: style, " + judge + "}\n  - {name: depth, model: depth, " + depth + judge + "}\n" +
			"reward: 0.5 * tests + 0.2 * scores.style + 0.3 * scores.depth\ndatasets: [{path: evals}]\n",
		"evals/good/task.toml":      "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\nartifacts = [\"/tmp/out\"]\n",
		"evals/good/instruction.md": "Do it.\n",
		"evals/good/tests/test.sh":  "#!/bin/bash\necho tested\necho 1 >/logs/verifier/reward.txt\n",
	} {
		write(t, dir, name, text)
	}
	return dir
}

func inDir(ctx context.Context, t *testing.T, dir string, args ...string) said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Main(ctx, context.Background(), Env{
		Providers: offered, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now,
		Getenv: func(string) (string, bool) { return "", false },
	}, args)
	return said{code, stdout.String(), stderr.String()}
}

// judgedTrial reads the result of the only trial.
func judgedTrial(t *testing.T, dir string) (tr result.Trial) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "jobs", "one", "mine", "evals", "good__1", "result.json"))
	if err == nil {
		err = json.Unmarshal(text, &tr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestResumeRunsOnlyPendingJudges(t *testing.T) {
	const trialDir = "jobs/one/mine/evals/good__1/"
	for name, test := range map[string]struct {
		depth string                                     // keys of the judge
		fails func(g *graders)                           // what happens to it in the first run
		after func(t *testing.T, g *graders, dir string) // happens before the resume
		want  result.ErrorType                           // of the first run; "": none
		kept  []string                                   // files of the first run, below the trial's directory
		cost  float64                                    // of all judges; 0: 0.004
		cut   bool                                       // a call broke off, and counts with an estimate of its input
	}{
		"its model failed": {
			depth: "agent: call, ", fails: func(g *graders) { g.ill.Store(true) }, want: result.JudgeFailed,
			kept: []string{"judges/result.before-1.json", "judges/depth.failed-1/prompt.md"},
		},
		"in a fresh environment": {
			depth: "agent: shell, source: reply, placement: fresh, artifacts: [/tmp/out], ", fails: func(g *graders) { g.ill.Store(true) }, want: result.JudgeFailed,
			kept: []string{"judges/result.before-1.json", "judges/depth.failed-1/prompt.md"},
		},
		"it was cancelled": {
			depth: "agent: call, ", fails: func(g *graders) { g.hangs.Store(true) }, want: result.Cancelled,
			kept: []string{"judges/result.before-1.json"}, cut: true,
		},
		"rollout was killed": {
			depth: "agent: call, ", after: func(t *testing.T, g *graders, dir string) {
				for _, gone := range []string{"jobs/one/result.json", trialDir + "result.json", trialDir + "judges/depth/judged.json"} {
					if err := os.Remove(filepath.Join(dir, gone)); err != nil {
						t.Error(err)
					}
				}
				g.depth.Store(0)
			},
			cost: 0.006, // with that of the judge that was killed, as its record says
			kept: []string{"judges/depth.failed-1/prompt.md"},
		},
		"rollout was killed before it wrote the result": {
			depth: "agent: call, ", after: func(t *testing.T, g *graders, dir string) {
				for _, gone := range []string{"jobs/one/result.json", trialDir + "result.json"} {
					if err := os.Remove(filepath.Join(dir, gone)); err != nil {
						t.Error(err)
					}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGraders(t)
			dir := judgedDir(t, g, test.depth)
			if test.fails != nil {
				test.fails(g)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				select {
				case <-g.asked:
					for ctx.Err() == nil { // until the other judge has given its verdict
						if _, err := os.Stat(filepath.Join(dir, trialDir, "judges", "style", "judged.json")); err == nil {
							break
						}
						time.Sleep(time.Millisecond)
					}
					cancel()
				case <-ctx.Done():
				}
			}()
			first := inDir(ctx, t, dir, "run", "job.yaml", "--name", "one")
			before := judgedTrial(t, dir)
			if e := before.Error; test.want != "" && (e == nil || e.Type != test.want) || test.want == "" && e != nil {
				t.Fatalf("the first run ended with %d, %+v\n%s%s", first.code, before.Error, first.stdout, first.stderr)
			}
			g.ill.Store(false)
			g.hangs.Store(false)
			if test.after != nil {
				test.after(t, g, dir)
			}
			seen := files(t, filepath.Join(dir, trialDir, "judges/inputs"))
			o := inDir(t.Context(), t, dir, "resume", "jobs/one")
			if again := files(t, filepath.Join(dir, trialDir, "judges/inputs")); !maps.Equal(seen, again) || !strings.Contains(again["/changes.txt"], "+++ /tmp/out\n") {
				t.Errorf("the judges saw %q, then %q", seen, again)
			}
			if o.code != 0 || !strings.Contains(o.stdout+o.stderr, "of 1 trial only the judges run that have given no verdict") {
				t.Errorf("the resume ended with %d\n%s%s", o.code, o.stdout, o.stderr)
			}
			got := judgedTrial(t, dir)
			if got.Error != nil || got.Reward == nil || *got.Reward != 0.675 {
				t.Errorf("the reward is %v, the error %+v", got.Reward, got.Error)
			}
			if !maps.EqualFunc(got.Scores, map[string]*float64{"style": new(0.5), "depth": new(0.25)}, func(a, b *float64) bool { return a != nil && *a == *b }) {
				t.Errorf("the scores are %v", got.Scores)
			}
			if a, b := got.Timestamps.AgentExecutionStartedAt, before.Timestamps.AgentExecutionStartedAt; a == nil || b == nil || !a.Equal(*b) {
				t.Errorf("the agent began at %v, then at %v", b, a)
			}
			if n := g.style.Load(); n != 1 {
				t.Errorf("the judge that had given a verdict was asked %d times", n)
			}
			estimated, total := int64(0), 0.0
			for _, run := range got.Agents[1:] { // usage is that of all attempts, as the cost
				u := run.Usage
				if u == nil || u.InputTokens == nil || u.Calls < int64(run.Attempts) {
					t.Errorf("%s: %+v, %d attempts", run.Name, u, run.Attempts)
					continue
				}
				answered := *u.InputTokens / 1000 // each answer: 1,000 tokens in, and what costs as much again
				cost := 0.002*float64(answered) + float64(*u.InputTokens%1000)/1e6
				if math.Abs(run.Cost.Amount()-cost) > 1e-9 || u.Estimated == 0 && *u.InputTokens%1000 != 0 {
					t.Errorf("%s: %+v, cost %v, want %v", run.Name, u, run.Cost, cost)
				}
				estimated, total = estimated+u.Estimated, total+cost
			}
			if cost := got.Costs.Judges.Amount(); math.Abs(cost-total) > 1e-9 || !test.cut && cost != cmp.Or(test.cost, 0.004) || test.cut != (estimated == 1) {
				t.Errorf("judging cost %v of %v, with %d estimated calls", cost, total, estimated)
			}
			if len(got.Agents) != 3 || got.TestsReward == nil || *got.TestsReward != 1 {
				t.Errorf("the agents are %+v", got.Agents)
			}
			if got.Durations.TotalSec < *before.Durations.AgentExecutionSec {
				t.Errorf("the trial took %v s", got.Durations.TotalSec)
			}
			for _, file := range test.kept {
				if _, err := os.Stat(filepath.Join(dir, trialDir, file)); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "jobs/one/superseded")); err == nil {
				t.Error("the trial's directory was moved away")
			}
			if o := inDir(t.Context(), t, dir, "resume", "jobs/one"); o.code != 0 || !strings.Contains(o.stdout+o.stderr, "Nothing to run") {
				t.Errorf("a second resume ended with %d\n%s%s", o.code, o.stdout, o.stderr)
			}
		})
	}
}

func TestResumeRunsAWholeTrialIfJudgesCannotRunAlone(t *testing.T) {
	for name, test := range map[string]struct {
		depth string
		args  []string
		spoil func(trialDir string) error // before the resume
		whole bool                        // the trial is run again from the start; else nothing is
	}{
		"a judge in the agent's environment": {depth: "agent: shell, source: reply, "},
		"and that error is to be run again":  {depth: "agent: shell, source: reply, ", args: []string{"--retry-errors", "judge_failed"}, whole: true},
		"the trial is named":                 {depth: "agent: call, ", args: []string{"--rerun", "mine/*"}, whole: true},
		"an artifact is gone": {
			depth: "agent: shell, source: reply, placement: fresh, artifacts: [/tmp/out], ",
			spoil: func(dir string) error { return os.RemoveAll(filepath.Join(dir, "artifacts")) },
		},
		"the record is torn": {
			depth: "agent: call, ", spoil: func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "judges", "trial.json"), []byte("{"), 0o644)
			},
		},
		"the record is of another trial": {
			depth: "agent: call, ", spoil: func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "judges", "trial.json"), []byte("{}"), 0o644)
			},
		},
		"the record is a link": {
			depth: "agent: call, ", spoil: func(dir string) error {
				file := filepath.Join(dir, "judges", "trial.json")
				if err := os.Rename(file, filepath.Join(dir, "elsewhere.json")); err != nil {
					return err
				}
				return os.Symlink("../elsewhere.json", file)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGraders(t)
			g.ill.Store(true)
			dir := judgedDir(t, g, test.depth)
			inDir(t.Context(), t, dir, "run", "job.yaml", "--name", "one")
			before := judgedTrial(t, dir)
			if before.Error == nil || before.Error.Type != result.JudgeFailed {
				t.Fatalf("the error is %+v", before.Error)
			}
			g.ill.Store(false)
			if test.spoil != nil {
				if err := test.spoil(filepath.Join(dir, "jobs/one/mine/evals/good__1")); err != nil {
					t.Fatal(err)
				}
			}
			o := inDir(t.Context(), t, dir, append([]string{"resume", "jobs/one"}, test.args...)...)
			got := judgedTrial(t, dir)
			again := !got.Timestamps.AgentExecutionStartedAt.Equal(*before.Timestamps.AgentExecutionStartedAt)
			if again != test.whole || (got.Error == nil) != test.whole {
				t.Errorf("run again: %v, the error %+v\n%s%s", again, got.Error, o.stdout, o.stderr)
			}
			_, err := fs.Stat(os.DirFS(dir), "jobs/one/superseded/mine/evals/good__1/result.json")
			if (err == nil) != test.whole {
				t.Errorf("the earlier result in superseded/: %v", err)
			}
		})
	}
}
