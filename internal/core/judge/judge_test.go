package judge

import (
	"fmt"
	"strings"
	"testing"
)

// compiled returns a judge without problems.
func compiled(t testing.TB, s Spec) *Judge {
	t.Helper()
	if s.Name == "" {
		s.Name = "quality"
	}
	if s.Prompt == "" && len(s.Criteria) == 0 {
		s.Prompt = "How good is it?"
	}
	j, found := Compile(s)
	if len(found) > 0 {
		t.Fatalf("problems: %+v", found)
	}
	return j
}

// wantProblems compares problems with texts that each must contain, of the form "key: message
// (hint)".
func wantProblems(t *testing.T, found []Problem, want ...string) {
	t.Helper()
	var got []string
	for _, p := range found {
		line := ""
		if p.Line > 0 {
			line = fmt.Sprintf("line %d: ", p.Line)
		}
		got = append(got, fmt.Sprintf("%s: %s%s (%s)", p.Key, line, p.Message, p.Hint))
	}
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// object returns the schema of an object.
func object(properties map[string]any, required ...any) map[string]any {
	return map[string]any{"type": "object", "required": append([]any{}, required...), "properties": properties}
}

func between(low, high any) map[string]any {
	return map[string]any{"type": "number", "minimum": low, "maximum": high}
}

var (
	points = map[string]any{"type": "integer", "minimum": 0, "maximum": 10}
	truth  = map[string]any{"type": "boolean"}
	// review is a schema with a value of each kind.
	review = object(map[string]any{
		"score": points, "bonus": points, "correct": truth, "cited": truth, "tone": map[string]any{"enum": []any{"rude", "kind"}},
		"findings": map[string]any{"type": "array", "items": object(map[string]any{
			"severity": map[string]any{"enum": []any{"low", "high"}}, "fixed": truth,
		}, "severity", "fixed")},
	}, "score", "correct", "cited", "tone", "findings")
)

func TestProblemsOfAJudgeAreReported(t *testing.T) {
	criterion := []Criterion{{Name: "minimal", Text: "Is it?"}}
	for name, tc := range map[string]struct {
		spec Spec
		want []string
	}{
		"a prompt is enough":               {Spec{Prompt: "x"}, nil},
		"criteria are enough":              {Spec{Criteria: criterion}, nil},
		"criteria with a prompt":           {Spec{Criteria: criterion, Prompt: "x"}, nil},
		"neither a prompt nor criteria":    {Spec{}, []string{`judge "q" has no prompt (add prompt:, prompt_file: or criteria:)`}},
		"criteria with a verdict":          {Spec{Criteria: criterion, Verdict: review}, []string{"verdict: the verdict follows from criteria"}},
		"criteria with a score":            {Spec{Criteria: criterion, Score: "1"}, []string{"score: the score follows from criteria"}},
		"a call with a place":              {Spec{Agent: Call, Prompt: "x", Placement: InFresh}, []string{"placement: a call of a model has no environment, and so no placement"}},
		"a call with artifacts":            {Spec{Agent: Call, Prompt: "x", Artifacts: []string{"/a"}}, []string{"artifacts: a call of a model has no environment"}},
		"a call that keeps processes":      {Spec{Agent: Call, Prompt: "x", Processes: KeepProcesses}, []string{"processes: a call of a model has no environment"}},
		"a call that writes a file":        {Spec{Agent: Call, Prompt: "x", Source: FromFile}, []string{"source: a call of a model has no environment, and so no source: file"}},
		"a call that says it replies":      {Spec{Agent: Call, Prompt: "x", Source: FromReply, Processes: EndProcesses}, nil},
		"an agent that replies":            {Spec{Agent: "shell", Prompt: "x", Source: FromReply}, nil},
		"a fresh judge without artifacts":  {Spec{Agent: "shell", Prompt: "x", Placement: InFresh}, nil},
		"artifacts where all files are":    {Spec{Agent: "shell", Prompt: "x", Artifacts: []string{"/a"}}, []string{"artifacts: a judge in the agent's own environment finds all files there"}},
		"processes of a fresh environment": {Spec{Agent: "shell", Prompt: "x", Placement: InFresh, Processes: KeepProcesses}, []string{"processes: a fresh environment has no processes to keep"}},
		"all problems at once": {
			Spec{Agent: Call, Placement: InFresh, Criteria: []Criterion{{Name: "a", Choices: []string{"x"}}}, Score: "1"},
			[]string{"choices", "score", "placement"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.spec.Name = "q"
			j, found := Compile(tc.spec)
			wantProblems(t, found, tc.want...)
			if (j == nil) != (len(tc.want) > 0) {
				t.Errorf("the judge is %v", j)
			}
		})
	}
}

func TestSourceAndPlaceFollowFromTheAgent(t *testing.T) {
	for _, tc := range []struct {
		spec   Spec
		source Source
		place  Placement
	}{
		{Spec{Agent: Call}, FromReply, ""},
		{Spec{Agent: "shell"}, FromReply, InTrial},
		{Spec{Agent: "claude-code", Source: FromFile}, FromFile, InTrial},
		{Spec{Agent: "claude-code", Source: FromReply, Placement: InFresh}, FromReply, InFresh},
	} {
		if source, place := tc.spec.VerdictSource(), tc.spec.Place(); source != tc.source || place != tc.place {
			t.Errorf("%+v: %s, %s", tc.spec, source, place)
		}
	}
}

func TestNullableScores(t *testing.T) {
	for _, tc := range []struct {
		spec Spec
		want bool
	}{{Spec{}, false}, {Spec{OnError: Fail}, false}, {Spec{OnError: Ignore}, true}, {Spec{When: "tests > 0"}, true}} {
		if got := compiled(t, tc.spec).Nullable(); got != tc.want {
			t.Errorf("%+v: %v", tc.spec, got)
		}
	}
}

func TestCriteriaOfAJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		criteria []Criterion
		want     string
	}{
		"two with one name":           {[]Criterion{{Name: "a"}, {Name: "A"}}, `criteria[1].name: criteria[0] and criteria[1] have the same name: "A"`},
		"one choice":                  {[]Criterion{{Name: "a", Choices: []string{"x"}}}, `criteria[0].choices: criterion "a" has only one choice`},
		"a choice that occurs twice":  {[]Criterion{{Name: "a", Choices: []string{"x", "y", "x"}}}, `criteria[0].choices[2]: criterion "a" has the choice "x" twice`},
		"choices that differ in case": {[]Criterion{{Name: "a", Choices: []string{"x", "X"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := Compile(Spec{Name: "q", Criteria: tc.criteria})
			if tc.want == "" {
				wantProblems(t, found)
				return
			}
			wantProblems(t, found, tc.want)
		})
	}
}

// Compile does not change the spec that it is given.
func TestCompileLeavesTheSpecAlone(t *testing.T) {
	s := Spec{Name: "q", Criteria: []Criterion{{Name: "a", Text: "b"}}}
	j := compiled(t, s)
	if s.Criteria[0].Choices != nil || len(j.Criteria[0].Choices) != 2 {
		t.Errorf("%+v, %+v", s.Criteria, j.Criteria)
	}
}
