package task

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/lib/fields"
)

const judged = `version = "1.0"
reward = "0.5 * tests + 0.5 * scores.quality"

[[judges]]
name = "quality"
agent = "call"
model = "grader"
prompt = "Is it good?"
when = "tests > 0"
on_error = "ignore"
budget = {max_turns = 3, max_cost_usd = 0.5, max_total_tokens = "20k"}

[judges.verdict]
type = "object"
required = ["score"]
properties.score = {type = "number", minimum = 0, maximum = 1.0}

[[judges]]
name = "careful"
model = "grader"
prompt_file = "judges/careful.md"
verdict_file = "judges/verdict.json"
score = "verdict.points / 10"

[[judges]]
name = "style"
model = "policy"
placement = "fresh"
artifacts = ["/app"]
criteria = [{name = "minimal", text = "Is it?", choices = ["no", "yes"], weight = 2}, {name = "tested", text = "Is it?"}]
`

var judgeFiles = map[string]string{
	"task.toml":           judged,
	"judges/careful.md":   "Is {{.Task.Name}} careful?\n",
	"judges/verdict.json": `{"type": "object", "required": ["points"], "properties": {"points": {"type": "integer", "minimum": 0, "maximum": 10}}}`,
}

func with(files map[string]string, more map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{files, more} {
		for name, text := range m {
			out[name] = text
		}
	}
	return out
}

func TestATaskWithJudgesLoads(t *testing.T) {
	task := Load(newTask(t, judgeFiles))
	if len(task.Problems) > 0 {
		t.Fatal(task.Problems)
	}
	cfg := task.Config
	if len(cfg.Judges) != 3 || cfg.Reward != "0.5 * tests + 0.5 * scores.quality" {
		t.Fatalf("%+v", cfg)
	}
	first, second, third := cfg.Judges[0], cfg.Judges[1], cfg.Judges[2]
	budget := agent.Budget{MaxTurns: 3, MaxCostUSD: new(0.5), MaxTotalTokens: 20_000}
	if *first.Budget.MaxCostUSD != 0.5 || first.Budget.MaxTurns != budget.MaxTurns || first.Budget.MaxTotalTokens != budget.MaxTotalTokens || first.OnError != judge.Ignore || first.TimeoutSec != 600 {
		t.Errorf("%+v", first)
	}
	if second.Agent != "shell" || second.Prompt != "Is {{.Task.Name}} careful?\n" || second.PromptFile != "" || second.VerdictFile != "" {
		t.Errorf("%+v", second)
	}
	if text, err := json.Marshal(second.Verdict); err != nil || string(text) != `{"properties":{"points":{"maximum":10,"minimum":0,"type":"integer"}},"required":["points"],"type":"object"}` {
		t.Errorf("%s %v", text, err)
	}
	if third.Placement != judge.InFresh || len(third.Criteria) != 2 || third.Criteria[0].Weight != 2 || third.Criteria[1].Weight != 1 {
		t.Errorf("%+v", third)
	}
	if at := task.JudgeAt(fields.Path{"judges", "1", "score"}); at.Line != 23 || filepath.Base(at.File) != "task.toml" {
		t.Errorf("%+v", at)
	}
	if at := Load(newTask(t, nil)).JudgeAt(fields.Path{"reward"}); at.Line != 0 {
		t.Errorf("%+v", at)
	}
}

// The prompt of a judge is part of the task: files that judges name are in its digest.
func TestJudgesAreInTheDigest(t *testing.T) {
	before := Load(newTask(t, judgeFiles)).Digest()
	for _, name := range []string{"task.toml", "judges/careful.md", "judges/verdict.json"} {
		text := strings.NewReplacer("Is it good?", "Is it bad?", "careful?", "careless?", `"maximum": 10`, `"maximum": 9`).Replace(judgeFiles[name])
		if text == judgeFiles[name] {
			t.Fatal(name)
		}
		if after := Load(newTask(t, with(judgeFiles, map[string]string{name: text}))).Digest(); after == before || after == "" {
			t.Errorf("%s makes no difference", name)
		}
	}
}

func TestProblemsWithJudgesOfATask(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.md")
	writeFile(t, outside, "secret")
	one := func(lines string) string {
		return "version = \"1.0\"\n[[judges]]\nname = \"a\"\nmodel = \"m\"\n" + lines + "\n"
	}
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"a prompt with an unknown field":    {map[string]string{"task.toml": one(`prompt = "{{.Foo}}"`)}, []string{`task.toml:5:1: "judges[0].prompt": line 1: <.Foo>: can't evaluate field Foo`}},
		"such a prompt in a file":           {map[string]string{"task.toml": one(`prompt_file = "j.md"`), "j.md": "x\n{{.Foo}}"}, []string{`j.md:2: "judges[0].prompt": <.Foo>: can't evaluate field Foo`}},
		"a schema that nothing fits":        {map[string]string{"task.toml": one("prompt = \"x\"\nverdict_file = \"v.json\""), "v.json": `{"type": "object", "required": ["score"], "properties": {"score": false}}`}, []string{`v.json: "judges[0].verdict": no verdict fits the schema: score, which is required: nothing is allowed`}},
		"a schema that is no JSON":          {map[string]string{"task.toml": one("prompt = \"x\"\nverdict_file = \"v.json\""), "v.json": `type: object`}, []string{`"judges[0].verdict_file": it is no JSON object (write a JSON Schema in JSON)`}},
		"a schema that is a list":           {map[string]string{"task.toml": one("prompt = \"x\"\nverdict_file = \"v.json\""), "v.json": `[]`}, []string{`it is no JSON object`}},
		"a score that is out of range":      {map[string]string{"task.toml": one("prompt = \"x\"\nscore = \"verdict.score * 2\"")}, []string{`task.toml:6:1: "judges[0].score": for the verdict {"reason":"","score":1} the score is 2`}},
		"a file that is not there":          {map[string]string{"task.toml": one(`prompt_file = "j.md"`)}, []string{`task.toml:5:1: "judges[0].prompt_file": j.md cannot be read: `}},
		"a directory":                       {map[string]string{"task.toml": one(`prompt_file = "tests"`)}, []string{`"judges[0].prompt_file": tests cannot be read: `}},
		"a file that is empty":              {map[string]string{"task.toml": one(`prompt_file = "j.md"`), "j.md": " \n"}, []string{"j.md is empty"}},
		"a file that is not text":           {map[string]string{"task.toml": one(`prompt_file = "j.md"`), "j.md": "\xff"}, []string{"j.md is not text in UTF-8"}},
		"a file that is too large":          {map[string]string{"task.toml": one(`prompt_file = "j.md"`), "j.md": strings.Repeat("x", maxJudgeFile+1)}, []string{"j.md cannot be read: it is larger than 1 MiB"}},
		"a file outside of the task":        {map[string]string{"task.toml": one(`prompt_file = "../other/j.md"`)}, []string{`"../other/j.md" is not in the task (write a path below the task's directory`}},
		"an absolute path":                  {map[string]string{"task.toml": one(`prompt_file = "` + outside + `"`)}, []string{`is not in the task`}},
		"both a text and a file":            {map[string]string{"task.toml": one("prompt = \"x\"\nprompt_file = \"j.md\""), "j.md": "x"}, []string{`"judges[0].prompt_file" and prompt say the same`}},
		"two with one name":                 {map[string]string{"task.toml": one(`prompt = "x"`) + "[[judges]]\nname = \"A\"\nmodel = \"m\"\nprompt = \"x\"\n"}, []string{`two judges are called "A": judges[0] and judges[1]; case does not count`}},
		"an unknown key":                    {map[string]string{"task.toml": one("prompt = \"x\"\nscor = \"1\"")}, []string{`task.toml:6:1: unknown key "judges[0].scor" (did you mean "score"?)`}},
		"an unknown key of a criterion":     {map[string]string{"task.toml": one(`criteria = [{name = "x", text = "y", weigt = 2}]`)}, []string{`unknown key "judges[0].criteria[0].weigt" (did you mean "weight"?)`}},
		"no model":                          {map[string]string{"task.toml": "version = \"1.0\"\n[[judges]]\nname = \"a\"\nprompt = \"x\"\n"}, []string{`"judges[0]" needs "model"`}},
		"a name that is none":               {map[string]string{"task.toml": "version = \"1.0\"\n[[judges]]\nname = \"a b\"\nmodel = \"m\"\nprompt = \"x\"\n"}, []string{`"judges[0].name" must be a letter, and letters, digits and _, not the string "a b"`}},
		"a table instead of a list":         {map[string]string{"task.toml": "version = \"1.0\"\n[judges]\nname = \"a\"\n"}, []string{`"judges" must be an array, not a table (write [[judges]])`}},
		"more problems than one in a judge": {map[string]string{"task.toml": one("agent = \"call\"\nplacement = \"fresh\"\nwhen = \"test > 0\"\nprompt = \"x\"")}, []string{`"judges[0].when": there is no test`, `"judges[0].placement": a call of a model`}},
	} {
		t.Run(name, func(t *testing.T) {
			task := Load(newTask(t, tc.files))
			text := task.Problems.Errors().Error()
			if n := strings.Count(text, "\n") + 1; n != len(tc.want) {
				t.Errorf("%d problems:\n%s", n, text)
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("got\n%s\nwant\n%s", text, want)
				}
			}
		})
	}
}

// A link out of the task is not followed: a task may be a stranger's.
func TestFilesOfJudgesStayInTheTask(t *testing.T) {
	dir := newTask(t, with(judgeFiles, map[string]string{"judges/careful.md": ""}))
	outside := filepath.Join(t.TempDir(), "outside.md")
	writeFile(t, outside, "secret")
	must(t, os.Symlink(outside, filepath.Join(dir, "judges", "careful.md")))
	task := Load(dir)
	if err := task.Err(); err == nil || !strings.Contains(err.Error(), `"judges[1].prompt_file": judges/careful.md cannot be read`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	inside := newTask(t, with(judgeFiles, map[string]string{"judges/careful.md": "", "tests/judge.md": "Is it?"}))
	must(t, os.Symlink("../tests/judge.md", filepath.Join(inside, "judges", "careful.md")))
	if task := Load(inside); task.Err() != nil || task.Config.Judges[1].Prompt != "Is it?" {
		t.Errorf("%v %+v", task.Err(), task.Config.Judges)
	}
}

func TestSchemaOfTasksAcceptsJudges(t *testing.T) {
	if err := checkSchema(t, judged); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{
		"version = \"1.0\"\n[[judges]]\nname = \"a b\"\nmodel = \"m\"\n", "version = \"1.0\"\n[[judges]]\nname = \"a\"\n",
		"version = \"1.0\"\n[[judges]]\nname = \"a\"\nmodel = \"m\"\nplacement = \"docker\"\n",
	} {
		if checkSchema(t, wrong) == nil {
			t.Errorf("the schema accepts %s", wrong)
		}
	}
}
