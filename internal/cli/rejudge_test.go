package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/core/result"
)

// fickle serves a model whose score rises with each verdict, below its path: /up by 0.1 from 0.1,
// /flat by nothing.
func fickle(t *testing.T) *httptest.Server {
	var n atomic.Int64
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, score float64) {
		fmt.Fprintf(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"{\"score\": %.1f, \"reason\": \"\\u001b[31mIt is %.1f.\"}"}}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`, score, score)
	}
	mux.HandleFunc("/up/", func(w http.ResponseWriter, _ *http.Request) { answer(w, float64(n.Add(1))/10) })
	mux.HandleFunc("/flat/", func(w http.ResponseWriter, _ *http.Request) { answer(w, 0.5) })
	mux.HandleFunc("/ill/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"no"}}`, http.StatusUnauthorized)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// rejudgeDir writes a job with the judges and a task, and runs it as jobs/one.
func rejudgeDir(t *testing.T, judges string) string {
	t.Helper()
	dir, address := t.TempDir(), fickle(t).URL
	models := "models:\n"
	for _, name := range []string{"up", "flat", "ill"} {
		models += fmt.Sprintf("  %s: {api: openai-chat, model: model-%s, base_url: %q, api_key: k-123456789, price: {input: 1, output: 10}}\n", name, name, address+"/"+name)
	}
	for name, text := range map[string]string{
		"job.yaml": "environment: {type: fake}\nretry: {judge_attempts: 1}\n" + models +
			"agents:\n  - {name: mine, execute: 'echo working; echo done >/tmp/out'}\ndatasets: [{path: evals}]\n" + judges,
		"evals/good/task.toml":      "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\nartifacts = [\"/tmp/out\"]\n",
		"evals/good/instruction.md": "Do it.\n",
		"evals/good/tests/test.sh":  "#!/bin/bash\necho tested\necho 1 >/logs/verifier/reward.txt\n",
	} {
		write(t, dir, name, text)
	}
	if o := inDir(t.Context(), t, dir, "run", "job.yaml", "--name", "one"); o.code != 0 {
		t.Fatalf("the job ended with %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	return dir
}

const scored = `verdict: {type: object, required: [score, reason], properties: {score: {type: number, minimum: 0, maximum: 1}, reason: {type: string}}}, prompt: "How good? {{.Trial.Transcript}}"`

// files returns the content of all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRejudge(t *testing.T) {
	const twoJudges = "judges:\n  - {name: a, agent: call, model: up, " + scored + "}\n  - {name: b, model: flat, source: reply, placement: fresh, artifacts: [/tmp/out], " + scored + "}\nreward: 0.5 * scores.a + 0.5 * scores.b\n"
	dir := rejudgeDir(t, twoJudges)
	before := files(t, filepath.Join(dir, "jobs", "one"))
	o := inDir(t.Context(), t, dir, "rejudge", "jobs/one", "--times", "2", "--json")
	var got rerun.Rejudged
	if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || o.code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
	}
	if !maps.Equal(before, files(t, filepath.Join(dir, "jobs", "one"))) {
		t.Error("the job that was judged again has changed")
	}
	want := []rerun.JudgedRun{{Dir: "jobs/one"}, {Dir: "jobs/one-rejudged", Again: true}, {Dir: "jobs/one-rejudged-2", Again: true}}
	if !slices.Equal(got.Runs, want) {
		t.Errorf("the runs are %+v", got.Runs)
	}
	if len(got.Judges) != 2 {
		t.Fatalf("the judges are %+v", got.Judges)
	}
	var scores []float64
	for _, s := range got.Judges[0].Trials[0].Scores {
		scores = append(scores, *s)
	}
	if !slices.Equal(scores, []float64{0.1, 0.2, 0.3}) || got.Judges[0].Same != 0 || got.Judges[0].Higher != 1 || got.Judges[1].Same != 1 {
		t.Errorf("the judges are %+v", got.Judges)
	}
	if got.Cost.Amount() != 0.008 {
		t.Errorf("judging again cost %v", got.Cost)
	}

	var again result.Trial
	text, err := os.ReadFile(filepath.Join(dir, "jobs/one-rejudged-2/mine/evals/good__1/result.json"))
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again.Reward == nil || *again.Reward != 0.4 || again.Reverified == nil || !again.Reverified.OnlyJudges || again.Spent().Total().Amount() != 0.004 || len(again.Agents) != 3 {
		t.Errorf("the result is %s", text)
	}
	for _, args := range [][]string{{"report", "jobs/one-rejudged"}, {"show", "jobs/one-rejudged", "mine/evals/good__1"}, {"diff", "jobs/one", "jobs/one-rejudged"}, {"ls"}} {
		if o := inDir(t.Context(), t, dir, args...); o.code != 0 {
			t.Errorf("%s ended with %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
	for _, verb := range []string{"resume", "rejudge"} {
		if o := inDir(t.Context(), t, dir, verb, "jobs/one-rejudged"); o.code != 2 || !strings.Contains(o.stderr, "run rollout rejudge jobs/one again") {
			t.Errorf("%s ended with %d\n%s", verb, o.code, o.stderr)
		}
	}
}

// A name that a later run cannot have is found before the first one costs anything.
func TestRejudgeLooksAtAllNamesFirst(t *testing.T) {
	dir := rejudgeDir(t, "judges:\n  - {name: a, agent: call, model: up, "+scored+"}\n")
	write(t, dir, "jobs/again-3/plan.json", "{}")
	o := inDir(t.Context(), t, dir, "rejudge", "jobs/one", "--times", "3", "--name", "again")
	if o.code != 2 || !strings.Contains(o.stderr, "jobs/again-3 exists already: a job is never written over; choose another --name, or remove the directory (nothing was judged)") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "jobs"))
	if len(entries) != 2 || err != nil { // one and again-3
		t.Errorf("%v, %v", entries, err)
	}
}

func TestRejudgeWithOtherModelsAndJudges(t *testing.T) {
	const inTrial = "judges:\n  - {name: a, agent: call, model: flat, " + scored + "}\n  - {name: b, model: flat, source: reply, " + scored + "}\nreward: 0.5 * scores.a + 0.5 * scores.b\n"
	for name, test := range map[string]struct {
		judges string
		other  string // the judges of another job file, other.yaml
		args   []string
		code   int
		want   []string // on stdout or stderr
	}{
		"a judge that works in the agent's environment keeps its verdict": {
			judges: inTrial, want: []string{"note: the judge b works in the agent's environment", "a gave 1 of 1 trial (100 %) the same score in all runs", "BEFORE"},
		},
		"unless it is asked for":    {judges: inTrial, args: []string{"--judge", "b"}, code: 2, want: []string{"--judge b: it works in the agent's environment"}},
		"another model":             {judges: inTrial, args: []string{"--model", "up"}, want: []string{"jobs/one-rejudged (model-up)", "jobs/one (model-flat)", "0.1    It is 0.1.", "0 of 1"}},
		"a model that there is not": {judges: inTrial, args: []string{"--model", "upp"}, code: 2, want: []string{`--model upp: the job has no such model (did you mean "up"?)`}},
		"a judge that there is not": {judges: inTrial, args: []string{"--judge", "quality"}, code: 2, want: []string{"--judge quality: the trials have no such judge (there are: a, b)"}},
		"a model that fails":        {judges: inTrial, args: []string{"--model", "ill"}, code: 1, want: []string{"(1 null)", "no trial has two scores", "1 trial of judging again ended with an error"}},
		"a job without judges":      {code: 2, want: []string{"none of its judges can judge again", "jobs/one has no trial that can be judged again"}},
		"judges of another file": {
			other: "judges:\n  - {name: new, agent: call, model: flat, " + scored + "}\n", args: []string{"--job-file", "other.yaml"},
			want: []string{"new: no trial has two scores", "RUN 1", "0.5"},
		},
		"too often":     {judges: inTrial, args: []string{"--times", "0"}, code: 2, want: []string{"want a number from 1 to 100"}},
		"a name":        {judges: inTrial, args: []string{"--name", "fresh", "--times", "2"}, want: []string{"jobs/fresh", "jobs/fresh-2"}},
		"another trial": {judges: inTrial, args: []string{}, want: []string{"Judging again cost $0.002."}},
		"no such trial": {judges: inTrial, args: []string{"nothing"}, code: 2, want: []string{"nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := rejudgeDir(t, test.judges)
			if test.other != "" {
				text, err := os.ReadFile(filepath.Join(dir, "job.yaml"))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, "other.yaml"), append(text, test.other...), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var args, trials []string
			for _, a := range test.args {
				if a == "nothing" {
					trials = append(trials, a)
				} else {
					args = append(args, a)
				}
			}
			o := inDir(t.Context(), t, dir, slices.Concat([]string{"rejudge", "jobs/one"}, trials, args)...)
			if o.code != test.code {
				t.Errorf("exit code %d, want %d", o.code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(o.stdout+o.stderr, want) {
					t.Errorf("%q is missing", want)
				}
			}
			if strings.Contains(o.stdout, "\x1b") {
				t.Error("there are escape sequences")
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("%s%s", o.stdout, o.stderr)
			}
		})
	}
}
