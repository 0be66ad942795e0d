package judge

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func ranker(t *testing.T, s Spec) *Judge {
	t.Helper()
	s.Name, s.Agent, s.Model, s.Scope = "best", Call, "grader", OfGroup
	j, problems := Compile(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return j
}

func TestLabels(t *testing.T) {
	for i, want := range map[int]string{0: "A", 25: "Z", 26: "AA", 27: "AB", 51: "AZ", 52: "BA"} {
		if got := Label(i); got != want {
			t.Errorf("Label(%d) = %s, want %s", i, got, want)
		}
	}
}

func TestOrdersShowEachPairBothWays(t *testing.T) {
	for nth := 0; nth < 6; nth += 2 {
		there, back := Order(7, nth, 5), Order(7, nth+1, 5)
		slices.Reverse(back)
		if !slices.Equal(there, back) {
			t.Errorf("orders %d and %d are not each other's reverse", nth, nth+1)
		}
	}
	first := map[int]bool{}
	for seed := range uint64(100) {
		first[Order(4, 0, seed)[0]] = true
	}
	if len(first) != 4 {
		t.Errorf("of 4 candidates, only %v are shown first in 100 tasks", first)
	}
}

func TestReadRanking(t *testing.T) {
	j := ranker(t, Spec{})
	for name, test := range map[string]struct {
		text  string
		ranks []int
		err   string
	}{
		"ties":          {text: `{"reason": "So.", "ranking": [["C"], ["A", "B"]]}`, ranks: []int{2, 2, 1}},
		"plain labels":  {text: `{"reason": "So.", "ranking": ["C", "A", ["B"]]}`, ranks: []int{2, 3, 1}},
		"fenced":        {text: "```json\n{\"reason\": \"So.\", \"ranking\": [[\"A\", \"B\", \"C\"]]}\n```", ranks: []int{1, 1, 1}},
		"one missing":   {text: `{"reason": "So.", "ranking": [["C"], ["A"]]}`, err: "candidate B is not in the ranking"},
		"one twice":     {text: `{"reason": "So.", "ranking": [["C"], ["A", "B", "C"]]}`, err: "candidate C is in the ranking twice"},
		"a stranger":    {text: `{"reason": "So.", "ranking": [["D"], ["A", "B", "C"]]}`, err: `there is no candidate "D"; there are: A to C`},
		"a number":      {text: `{"reason": "So.", "ranking": [[1], ["A", "B", "C"]]}`, err: `there is no candidate "1"`},
		"an empty list": {text: `{"reason": "So.", "ranking": [[], ["A", "B", "C"]]}`, err: "ranking[0] is no list of candidates"},
		"no list":       {text: `{"reason": "So.", "ranking": "A"}`, err: "it has no list ranking"},
		"no reason":     {text: `{"ranking": [["A", "B", "C"]]}`, err: "it has no text reason"},
		"more":          {text: `{"reason": "So.", "scores": {}, "ranking": [["A", "B", "C"]]}`, err: `it has the property "scores"`},
		"prose":         {text: `A is the best.`, err: "not with { as a JSON object does"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := j.ReadRanking([]byte(test.text), 3)
			if test.err != "" {
				if is := (*InvalidError)(nil); !errors.As(err, &is) || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || !slices.Equal(r.Ranks, test.ranks) || r.Reason != "So." {
				t.Errorf("%+v %v, want the ranks %v", r, err, test.ranks)
			}
		})
	}
	if _, err := j.ReadRanking([]byte(" \n"), 3); !errors.Is(err, ErrMissing) {
		t.Errorf("an empty verdict: %v", err)
	}
}

func TestBeaten(t *testing.T) {
	for _, test := range []struct{ ranks, want []int }{
		{[]int{1, 2, 3}, []int{4, 2, 0}},
		{[]int{2, 2, 1}, []int{1, 1, 4}},
		{[]int{1, 1}, []int{1, 1}},
		{[]int{1}, []int{0}},
	} {
		if got := Beaten(test.ranks); !slices.Equal(got, test.want) {
			t.Errorf("Beaten(%v) = %v, want %v", test.ranks, got, test.want)
		}
	}
}

func TestAskGroup(t *testing.T) {
	in := GroupInput{Task: Task{Instruction: "Write a poem."}, Candidates: []Input{
		{Trial: Trial{Agent: "secret-agent", Model: "secret-model", Transcript: "Roses are red.", Reply: "Done."}, Tests: Tests{Reward: new(1.0)}},
		{Trial: Trial{Agent: "other-agent", Model: "other-model", Transcript: "Violets are blue."}, Artifacts: func(string) (string, error) { return "a poem", nil }},
	}}
	in.Candidates[0].Artifacts = in.Candidates[1].Artifacts
	own, err := ranker(t, Spec{}).AskGroup(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompted, err := ranker(t, Spec{Prompt: `Which is better? {{range .Candidates}}{{.Label}}={{.Trial.Reply}}/{{.Tests.Reward}}/{{.Artifact "/app/poem"}} {{end}}`}).AskGroup(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, wants := range map[string][]string{
		own:      {"Write a poem.", "## Candidate A", "Roses are red.", "## Candidate B", "Violets are blue.", "There are 2 candidates, called A to B"},
		prompted: {"A=Done./1/a poem", "B=/<no value>/a poem", `"enum": [`},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("the prompt lacks %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "secret") {
			t.Errorf("the prompt names an agent or a model:\n%s", text)
		}
	}
}

func TestGroupProblems(t *testing.T) {
	for name, test := range map[string]struct {
		spec Spec
		want string
	}{
		"criteria":            {Spec{Criteria: []Criterion{{Name: "clear", Text: "Clear."}}}, "a judge of a group ranks trials, so its verdict is a ranking and it has no criteria"},
		"a verdict":           {Spec{Verdict: map[string]any{"type": "object"}}, "it has no verdict"},
		"a score":             {Spec{Score: "verdict.score"}, "it has no score"},
		"the trial's place":   {Spec{Agent: "shell", Placement: InTrial}, "the environments of the trials are gone when a group is ranked"},
		"kept processes":      {Spec{Agent: "shell", Processes: KeepProcesses}, "and so are their processes"},
		"an agent's name":     {Spec{Prompt: "{{range .Candidates}}{{.Trial.Agent}}{{end}}"}, "can't evaluate field Agent"},
		"a trial":             {Spec{Prompt: "{{.Trial.Reply}}"}, "can't evaluate field Trial"},
		"an unknown artifact": {Spec{Prompt: "{{.Artifact \"/a\"}}"}, "can't evaluate field Artifact"},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.spec
			s.Name, s.Model, s.Scope = "best", "grader", OfGroup
			if s.Agent == "" {
				s.Agent = Call
			}
			_, problems := Compile(s)
			if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.Message, test.want) }) {
				t.Errorf("problems: %+v, want %q", problems, test.want)
			}
		})
	}
	_, problems := Compile(Spec{Name: "a", Agent: Call, Model: "m", Prompt: "?", Orders: 3})
	if len(problems) != 1 || problems[0].Message != "only a judge of a group has orders" {
		t.Errorf("orders without a group: %+v", problems)
	}
}

func TestNoRewardOfAGroup(t *testing.T) {
	j := ranker(t, Spec{})
	_, problems := CompileReward("0.5 * tests + 0.5 * scores.best", []*Judge{j}, true)
	if len(problems) != 1 || problems[0].Score != "" || !strings.Contains(problems[0].Message, "no reward can use it") {
		t.Errorf("problems: %+v", problems)
	}
	if r, problems := CompileReward("tests", []*Judge{j}, true); r == nil || len(problems) > 0 {
		t.Errorf("a reward without it: %+v", problems)
	}
}
