package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/test/reporttest"
)

// The policy allows the style and the script that are in the page, byte for byte, and nothing else.
func TestPolicyAllowsOnlyThePagesOwnStyleAndScript(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, reporttest.Mixed(), 0); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(text)[1])
	for _, tag := range []string{"style", "script"} {
		found := regexp.MustCompile("(?s)<"+tag+">(.*?)</"+tag+">").FindAllStringSubmatch(text, -1)
		if len(found) != 1 {
			t.Fatalf("there are %d elements %s, want 1", len(found), tag)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("the policy is %s, want %s in it", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
	if found := regexp.MustCompile(` (?:style|on\w+)="`).FindString(text); found != "" {
		t.Errorf("the page has the attribute %s, which its policy forbids", found)
	}
}

// A row compares means per trial: four attempts before and one now cost the same.
func TestRowsCompareMeansPerTrial(t *testing.T) {
	spec := reporttest.Spec{Agent: "a", Dataset: "d", Task: "one", Reward: new(1.0), Seconds: 10, Cost: 0.25, Usage: &result.Usage{Turns: 3}}
	var base []reporttest.Spec
	for i := range 4 {
		s := spec
		s.Attempt = i + 1
		base = append(base, s)
	}
	in := reporttest.Against(reporttest.Make("now", []reporttest.Spec{spec}), reporttest.Make("then", base))
	p := fullPage(t, in)
	r := p.Rows[0]
	if r.Cost != (Cell{Text: "$0.25", Sort: "0.25"}) || r.Time.Base != "" || r.Turns.Text != "3" || r.Turns.Base != "" || r.Result != "4/4 → 1/1" {
		t.Errorf("the row is %+v", r)
	}
}

// The numbers of an agent are of the same attempts as those of the baseline next to them: one that
// the agent lost is a 0 in all, and where tasks differ, both sides of the tasks that both have are
// shown.
func TestAgentsCompareTheSameAttempts(t *testing.T) {
	at := func(task string, reward float64) reporttest.Spec {
		return reporttest.Spec{Agent: "a", Dataset: "d", Task: task, Reward: &reward}
	}
	lost := reporttest.Spec{Agent: "a", Dataset: "d", Task: "two", Error: result.AgentExecutionFailed}
	base := reporttest.Make("then", []reporttest.Spec{at("one", 1), at("two", 1)})
	p := fullPage(t, reporttest.Against(reporttest.Make("now", []reporttest.Spec{at("one", 1), lost}), base))
	if a := p.Agents[0]; a.Rate != "50%" || a.Reward != "0.5" || a.BaseRate != "100%" || a.BaseReward != "1" {
		t.Errorf("the agent is %+v", a)
	}
	p = fullPage(t, reporttest.Against(reporttest.Make("now", []reporttest.Spec{at("one", 1), lost, at("new", 0)}), base))
	if a := p.Agents[0]; a.Rate != "33.3%" || a.BaseRate != "100% → 50% (2 tasks of both)" || a.BaseReward != "1 → 0.5 (2 tasks of both)" {
		t.Errorf("with a new task, the agent is %+v", a)
	}
}

// If the baseline is not at hand, its numbers are those of the stored verdict.
func TestRowsOfAStoredVerdict(t *testing.T) {
	at := func(task string, reward float64) reporttest.Spec {
		return reporttest.Spec{Agent: "a", Dataset: "d", Task: task, Reward: &reward, Seconds: 10, Cost: 0.25, Usage: &result.Usage{Turns: 3}}
	}
	in, base := reporttest.Make("now", []reporttest.Spec{at("one", 0), at("new", 1)}), reporttest.Make("then", []reporttest.Spec{at("one", 1)})
	base.Job.Results.Change(0, func(o *result.Outcome) { o.Cost, o.DurationSec, o.Usage = result.USD{}, 20, nil })
	diff := result.Compare(base.Job, in.Job)
	in.Stored = result.ComparisonOf(&diff)
	p := fullPage(t, in)
	if !p.Compared || p.Stored != "from the verdict; the baseline's trials are not here" {
		t.Errorf("the page says %q", p.Stored)
	}
	i := slices.IndexFunc(p.Rows, func(r Row) bool { return r.Task == "one" })
	r := p.Rows[i]
	if r.Change != "broken" || r.Result != "1/1 → 0/1" || r.Reward.Base != "1" || r.Cost.Base != "" || r.Turns.Base != "" || r.Time.Base != "20.0s" || r.Time.Text != "10.0s" {
		t.Errorf("the row is %+v", r)
	}
	if r := p.Rows[1-i]; r.Change != "new" || r.Result != "1/1" || r.Reward.Base != "" {
		t.Errorf("the row of the new task is %+v", r)
	}
	if a := p.Agents[0]; a.BaseRate != "100% → 0% (1 task of both)" {
		t.Errorf("the agent is %+v", a)
	}
	in.Stored.Tasks, in.Stored.Agents = nil, nil // format 1
	if p := fullPage(t, in); p.Compared || p.Stored != "" {
		t.Errorf("without rows it says %q", p.Stored)
	}
}

func TestPhasesAreThousandthsOfTheTrial(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	at := func(sec int) *time.Time { return new(start.Add(time.Duration(sec) * time.Second)) }
	got := phases(result.Trial{Timestamps: result.Timestamps{
		StartedAt: start, EndedAt: *at(10),
		EnvironmentSetupStartedAt: at(0), EnvironmentSetupEndedAt: at(2),
		AgentExecutionStartedAt: at(2), AgentExecutionEndedAt: at(400), // a file may say so
		VerifierStartedAt: at(9), // and did not end
	}})
	if len(got) != 2 || got[0].X != 0 || got[0].Width != 200 || got[1].X != 200 || got[1].Width != 800 || got[1].Class != "phase2" {
		t.Errorf("the phases are %+v", got)
	}
}

// The page lists the steps of a trial.
func TestStepsOfATrial(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	steps := make([]result.StepRun, maxList+2)
	for i := range steps {
		steps[i] = result.StepRun{Name: "<one>", Reward: new(1.0), StartedAt: start, EndedAt: start.Add(time.Second)}
	}
	got := trial(report.Input{}, result.Trial{Steps: steps}, "t1", 0, false).Steps
	if len(got) != maxList+1 || got[0].Name != "<one>" || got[0].Value != "1 in 1.0s" || got[maxList].Name != "… and 2 more" {
		t.Errorf("the steps are %+v", got)
	}
}

// Each moment of the job counts in one phase of each trial that runs then, whatever the times in
// the files are.
func TestWorkersOverTime(t *testing.T) {
	start := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	at := func(sec int) *time.Time { return new(start.Add(time.Duration(sec) * time.Second)) }
	trials := []result.Trial{
		{Timestamps: result.Timestamps{StartedAt: start, EndedAt: *at(100), EnvironmentSetupStartedAt: at(-50), EnvironmentSetupEndedAt: at(20), AgentExecutionStartedAt: at(20), AgentExecutionEndedAt: at(90)}},
		{Timestamps: result.Timestamps{StartedAt: *at(50), EndedAt: *at(100), VerifierStartedAt: at(60), VerifierEndedAt: at(1000)}},
		{Timestamps: result.Timestamps{StartedAt: *at(-5000), EndedAt: *at(0)}, Reused: &result.Reused{}}, // by another job
		{Timestamps: result.Timestamps{StartedAt: *at(5000)}},
	}
	c := workers(result.PackAll(trials))
	if want := "environment setup 20.0s, agent 1m10s, verifier 40.0s, other 20.0s"; c.Says != want {
		t.Errorf("the chart says %q, want %q", c.Says, want)
	}
	if c.Texts[1].Text != "2" || c.Texts[3].Text != "1m40s" {
		t.Errorf("the axes are %+v", c.Texts)
	}
	for _, b := range c.Bars {
		if b.Y < top || b.Y+b.H > top+tall || b.X < left || b.X+b.W > left+wide {
			t.Errorf("outside of the chart: %+v", b)
		}
	}
	if c := workers(result.PackAll(trials[2:])); c.Title != "" {
		t.Errorf("a job without times has the chart %+v", c)
	}
}

func TestTokensByTurn(t *testing.T) {
	step := func(in, out string) string {
		return `{"source": "agent", "metrics": {"prompt_tokens": ` + in + `, "completion_tokens": ` + out + `}}`
	}
	in := reporttest.Make("job", []reporttest.Spec{
		{Agent: "a", Dataset: "d", Task: "one", Seconds: 1, Logs: map[string]string{"trajectory.json": `{"steps": [{"source": "user"}, ` + step("1000", "10") + `, ` + step("3000", "-5") + `]}`}},
		{Agent: "a", Dataset: "d", Task: "two", Seconds: 1, Logs: map[string]string{"trajectory.json": `{"steps": [` + step("2000", "30") + `]}`}},
		{Agent: "a", Dataset: "d", Task: "three", Seconds: 1, Logs: map[string]string{"trajectory.json": `none`}},
	})
	if c, want := tokens(in), "means of 2 trials; input 1.5k in the first turn, 3.0k in turn 2; output 20 and 0"; c.Says != want {
		t.Errorf("the chart says %q, want %q", c.Says, want)
	}
}

// Of a job with many conversations only some are read, also if they have no tokens.
func TestTokensReadsABoundedNumberOfConversations(t *testing.T) {
	var specs []reporttest.Spec
	for i := range maxRecords + 1 {
		specs = append(specs, reporttest.Spec{Agent: "a", Dataset: "d", Task: "t" + strconv.Itoa(i), Seconds: 1, Logs: map[string]string{"trajectory.json": `{"steps": [{"source": "agent"}]}`}})
	}
	turn := `{"source": "agent", "metrics": {"prompt_tokens": 1, "completion_tokens": 1}}`
	specs[maxRecords].Logs = map[string]string{"trajectory.json": `{"steps": [` + turn + `, ` + turn + `]}`}
	if c := tokens(reporttest.Make("job", specs)); c.Title != "" {
		t.Errorf("the last conversation was read: %q", c.Says)
	}
	if c := tokens(reporttest.Make("job", specs[1:])); c.Title == "" {
		t.Error("the last of as many as are read was not")
	}
}

func TestTopTasks(t *testing.T) {
	var specs []reporttest.Spec
	for i, rewards := range [][]float64{{1, 1}, {1, 0, 1, 1}, {0, 1}} {
		for j, reward := range rewards {
			specs = append(specs, reporttest.Spec{Agent: "a", Dataset: "d", Task: []string{"sure", "often", "half"}[i], Attempt: j + 1, Reward: &reward, Seconds: float64(10 * (i + 1))})
		}
	}
	cases := report.Cases(reporttest.Make("job", specs))
	if c, want := flakiest(cases), "; half 1/2; often 3/4"; c.More != want {
		t.Errorf("the flakiest are %q, want %q", c.More, want)
	}
	if c, want := slowest(cases), "; half 30.0s; often 20.0s; sure 10.0s"; c.More != want {
		t.Errorf("the slowest are %q, want %q", c.More, want)
	}
}

// A judge's verdict comes with its prompt, its conversation and its evidence; parts that do not fit
// are named.
func TestJudgesHavePromptAndEvidence(t *testing.T) {
	in := reporttest.Make("job", []reporttest.Spec{{Agent: "a", Dataset: "d", Task: "one", Reward: new(0.0), Seconds: 1, Logs: map[string]string{
		"judges/style/prompt.md": "Is it good?", "judges/style/trajectory.json": `{"steps": [{"source": "agent", "message": "I read it."}]}`,
		"judges/inputs/changes.txt": strings.Repeat("added: /app/x\n", 5000),
	}}})
	t1 := *in.Trials[0].Unpack()
	t1.Agents = []result.AgentRun{{Name: "a", Role: result.RolePolicy}, {Name: "style", Role: result.RoleJudge, Trajectory: "judges/style/trajectory.jsonl"}}
	v := trial(in, t1, "t1", maxDetails, false)
	if j := v.Judges[0]; j.Prompt.Text != "Is it good?" || j.Conversation == nil || j.Conversation.Turns[0].Text.Text != "I read it." {
		t.Errorf("the judge is %+v", j)
	}
	if len(v.Evidence) != 1 || v.Evidence[0].Name != "changes.txt" || !slices.Equal(v.LeftOut, []string{"parts of judges/inputs/changes.txt"}) {
		t.Errorf("there are %d files of evidence, left out is %v", len(v.Evidence), v.LeftOut)
	}
	v = trial(in, t1, "t1", minDetails, false)
	if len(v.Evidence) != 0 || !slices.Contains(v.LeftOut, "judges/inputs/changes.txt") {
		t.Errorf("there are %d files of evidence, left out is %v", len(v.Evidence), v.LeftOut)
	}
}

func TestLongTextsAreFolded(t *testing.T) {
	for name, c := range map[string]struct {
		text, fold string
		cut        bool
	}{
		"a short text":    {"a\nb", "", false},
		"many lines":      {strings.Repeat("a\n", 30), "30 lines", false},
		"a very long one": {strings.Repeat("a", 5000), "1 line", true},
	} {
		got, cut := folded(c.text, 2000)
		if got.Fold != c.fold || cut != c.cut || len(got.Text) > 2100 {
			t.Errorf("%s: the fold is %q, cut %v, %d bytes", name, got.Fold, cut, len(got.Text))
		}
	}
}

func fullPage(t *testing.T, in report.Input) Page {
	t.Helper()
	cases := report.Cases(in)
	return build(in, cases, detail{bytes: maxDetails, trials: len(in.Trials), rows: len(cases)})
}

// The turn with which a step of the task begins names the step.
func TestATurnBeginsAStep(t *testing.T) {
	turn, _ := turnOf(trajectory.Step{Source: "system", Message: "The step build begins.", Extra: trajectory.Extras{trajectory.TaskStep: "build\x1b[31m"}}, "t1", 1, 1000)
	if turn.Step != "build" {
		t.Errorf("the step is %q", turn.Step)
	}
}
