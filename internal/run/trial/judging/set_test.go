package judging_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

var someTime = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// judgedJob returns a job with models, and with judges of these specifications.
func judgedJob(reward string, judges ...judge.Spec) config.Job {
	for i := range judges {
		judges[i] = completed(judges[i])
	}
	return config.Job{
		Models: map[string]config.Model{
			"grader": {API: config.APIScripted, Model: "grader"}, "small": {API: "anthropic", Model: "nobody-knows"}, "chat": {API: "openai-chat", Model: "c"},
		},
		Agents: []agent.Agent{{Name: "cpe", Execute: "x", Model: "small"}}, Judges: judges, Reward: reward,
	}
}

// completed returns a specification with the defaults that loading adds.
func completed(s judge.Spec) judge.Spec {
	if s.Agent == "" {
		s.Agent = "shell"
	}
	if s.Model == "" {
		s.Model = "grader"
	}
	if s.Prompt == "" && s.Criteria == nil {
		s.Prompt = "Is it good?"
	}
	return s
}

// loadTask loads a task whose task.toml ends with toml.
func loadTask(t *testing.T, toml string) *task.Task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	for name, text := range map[string]string{
		"task.toml": "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n" + toml, "instruction.md": "Say hello.\n", "tests/test.sh": "echo 1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loaded := task.Load(dir)
	if err := loaded.Err(); err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestJudgesOfJobAndTask(t *testing.T) {
	own := func(name, more string) string {
		return fmt.Sprintf("[[judges]]\nname = %q\nmodel = \"grader\"\nprompt = \"x\"\n%s\n", name, more)
	}
	for name, tc := range map[string]struct {
		job    config.Job
		task   string
		judges string   // their names
		reward bool     // there is an expression
		want   []string // problems: "task|job key: message (hint)"
	}{
		"none":                        {judgedJob(""), "", "", false, nil},
		"those of the job come first": {judgedJob("", judge.Spec{Name: "b"}, judge.Spec{Name: "a"}), own("c", ""), "b a c", false, nil},
		"the reward of the task":      {judgedJob(""), "reward = \"scores.c\"\n" + own("c", ""), "c", true, nil},
		"the job's reward wins":       {judgedJob("tests"), "reward = \"2 * scores.c\"\n" + own("c", ""), "c", true, nil},
		"a reward over both":          {judgedJob("0.5 * scores.a + 0.5 * scores.c", judge.Spec{Name: "a"}), own("c", ""), "a c", true, nil},
		"a reward over a judge that only other tasks have": {
			judgedJob("0.5 * scores.a + 0.5 * scores.c", judge.Spec{Name: "a"}), "", "a", false, []string{`job reward: there is no scores.c; scores has: a`},
		},
		"a task's reward over nothing":            {judgedJob(""), "reward = \"scores.c\"\n", "", false, []string{`task reward: there is no scores.c: scores is empty`}},
		"a task's reward over a judge of the job": {judgedJob("", judge.Spec{Name: "a"}), "reward = \"scores.a\"\n", "a", true, nil},
		"a score that may be null":                {judgedJob(""), "reward = \"scores.c\"\n" + own("c", "on_error = \"ignore\""), "c", false, []string{`task reward: with scores.c = null it has no value (null) (write scores.c ?? 0`}},
		"one name in both":                        {judgedJob("", judge.Spec{Name: "quality"}), own("Quality", ""), "quality Quality", false, []string{`task judges[0].name: the job has a judge called "Quality", too; case does not count (rename one of them)`}},
		"a name that is taken":                    {judgedJob(""), own("INPUTS", ""), "INPUTS", false, []string{`task judges[0].name: the name "INPUTS" is taken`}},
		"a model that the job lacks":              {judgedJob(""), strings.Replace(own("c", ""), `"grader"`, `"gradr"`, 1), "c", false, []string{`task judges[0].model: judge "c" has the model "gradr", which is not in models (did you mean "grader"?)`}},
		"an agent that is none":                   {judgedJob(""), own("c", "agent = \"cp\""), "c", false, []string{`task judges[0].agent: judge "c" has the agent "cp", which is neither`}},
		"an agent of the job":                     {judgedJob(""), own("c", "agent = \"cpe\""), "c", false, nil},
		"a preset of another API":                 {judgedJob(""), strings.Replace(own("c", "agent = \"claude-code\""), `"grader"`, `"chat"`, 1), "c", false, []string{`task judges[0].model: judge "c" speaks anthropic (preset claude-code), but the model "chat" speaks openai-chat`}},
		"a preset and a script":                   {judgedJob(""), own("c", "agent = \"claude-code\""), "c", false, nil},
		"a budget without a price":                {judgedJob(""), strings.Replace(own("c", "budget.max_cost_usd = 1"), `"grader"`, `"small"`, 1), "c", false, []string{`task judges[0].budget.max_cost_usd: the price of the model "small" is not known`}},
		"the model of the agent":                  {judgedJob(""), strings.Replace(own("c", ""), `"grader"`, `"policy"`, 1), "c", false, nil},
		"artifacts in each other":                 {judgedJob(""), own("c", "placement = \"fresh\"\nartifacts = [\"/app\", \"/app/x\"]"), "c", false, []string{`task judges[0].artifacts[1]: "/app" and "/app/x" are one in the other`}},
		"metadata that are there":                 {judgedJob("", judge.Spec{Name: "a", Prompt: "{{.Task.Metadata.author}}"}), "[metadata]\nauthor = \"Ada\"\n", "a", false, nil},
		"metadata that are not":                   {judgedJob("", judge.Spec{Name: "a", Prompt: "x\n{{.Task.Metadata.author}}"}), "", "a", false, []string{`job judges[0].prompt: for the task hello: line 2: <.Task.Metadata.author>: map has no entry for key "author"`}},
		"metadata of a task's judge":              {judgedJob(""), strings.Replace(own("c", ""), `"x"`, `"{{.Task.Metadata.author}}"`, 1), "c", false, []string{`task judges[0].prompt: for the task hello: line 1: <.Task.Metadata.author>`}},
		"an artifact that nobody keeps":           {judgedJob("", judge.Spec{Name: "a", Prompt: "{{if true}}{{fenced (.Artifact \"/app/x\")}}{{end}}"}), "", "a", false, []string{`job judges[0].prompt: it reads the artifact "/app/x", which is not kept (add it to artifacts of the job`}},
		"an artifact of the task":                 {judgedJob("", judge.Spec{Name: "a", Prompt: "{{.Artifact \"/app/x\"}}"}), "artifacts = [\"/app\"]\n", "a", false, nil},
		"an artifact of a fresh judge":            {judgedJob("", judge.Spec{Name: "a", Prompt: "{{.Artifact \"/app/x\"}}"}, judge.Spec{Name: "b", Placement: judge.InFresh, Artifacts: []string{"/app"}}), "", "a b", false, nil},
		"an artifact of a group":                  {judgedJob("", judge.Spec{Name: "a", Scope: judge.OfGroup, Agent: judge.Call, Prompt: "{{range .Candidates}}{{.Artifact \"/x\"}}{{end}}"}), "", "a", false, []string{`job judges[0].prompt: it reads the artifact "/x"`}},
		"a verdict in a file":                     {judgedJob(""), own("c", "source = \"file\""), "c", false, []string{`warning: task judges[0].source: judge "c" gives its verdict as a file: every program in its environment can write it, also a program of the agent that the judge runs (use source: reply, which is the default)`}},
		"processes of root":                       {judgedJob("", judge.Spec{Name: "a", Processes: judge.KeepProcesses}), "", "a", false, []string{`warning: job judges[0].processes: judge "a" keeps the agent's processes, and the agent may run as root`}},
		"processes of a user":                     {judgedJob("", judge.Spec{Name: "a", Processes: judge.KeepProcesses}), "agent.user = \"agent\"\n", "a", false, nil},
		"processes of root itself":                {judgedJob(""), "agent.user = \"root:users\"\n" + own("c", "processes = \"keep\""), "c", false, []string{`warning: task judges[0].processes:`}},
		"a job's judge that is broken":            {judgedJob("scores.a", judge.Spec{Name: "a", Score: "verdict.x"}), "", "", false, []string{`job judges[0].score: there is no verdict.x`, `job reward: there is no scores.a: scores is empty`}},
	} {
		t.Run(name, func(t *testing.T) {
			judges, reward, problems := judging.NewSet(tc.job, someTime).Of(loadTask(t, tc.task))
			var names, got []string
			for _, j := range judges {
				names = append(names, j.Name)
			}
			for _, p := range problems {
				where := map[bool]string{true: "task", false: "job"}[p.OfTask]
				if p.Warning {
					where = "warning: " + where
				}
				got = append(got, fmt.Sprintf("%s %s: %s (%s)", where, p.Key, p.Message, p.Hint))
			}
			if strings.Join(names, " ") != tc.judges || (reward != nil) != tc.reward || len(got) != len(tc.want) {
				t.Errorf("judges %v, reward %v, problems:\n%s", names, reward != nil, strings.Join(got, "\n"))
				return
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got  %s\nwant %s", got[i], want)
				}
			}
		})
	}
}

// Without tests, neither when nor reward can use them, also where a task says so.
func TestJudgesWithoutTests(t *testing.T) {
	job := judgedJob("")
	job.Verifier.Disable = true
	_, reward, problems := judging.NewSet(job, someTime).Of(loadTask(t, "reward = \"tests\"\n[[judges]]\nname = \"c\"\nmodel = \"grader\"\nprompt = \"x\"\nwhen = \"tests > 0\"\n"))
	if reward != nil || len(problems) != 2 || problems[0].Key.String() != "judges[0].when" || problems[1].Key.String() != "reward" {
		t.Errorf("%v %+v", reward, problems)
	}
}

// A set of judges does not mix up the tasks.
func TestAJudgeSetServesManyTasks(t *testing.T) {
	set := judging.NewSet(judgedJob("scores.a", judge.Spec{Name: "a"}), someTime)
	plain, other := loadTask(t, ""), loadTask(t, "[[judges]]\nname = \"c\"\nmodel = \"grader\"\nprompt = \"x\"\n")
	for range 2 {
		judges, first, problems := set.Of(plain)
		if len(judges) != 1 || first == nil || len(problems) > 0 {
			t.Errorf("%v %v %v", judges, first, problems)
		}
		both, second, problems := set.Of(other)
		if len(both) != 2 || second == nil || len(problems) > 0 {
			t.Errorf("%v %v %v", both, second, problems)
		}
		if _, again, _ := set.Of(plain); again != first {
			t.Error("the reward of plain tasks is compiled again")
		}
	}
}
