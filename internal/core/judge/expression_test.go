package judge

import (
	"math"
	"strings"
	"sync"
	"testing"
)

func TestScoresAreCheckedBeforeARun(t *testing.T) {
	for score, want := range map[string]string{
		"verdict.score / 10":                                                    "",
		"verdict['score'] / 10":                                                 "",
		"verdict?.score / 10":                                                   "",
		"verdict.correct":                                                       "", // true counts as 1
		"verdict.correct and verdict.score > 3":                                 "",
		"0.5 * verdict.correct + 0.5 * verdict.cited":                           "",
		"(verdict.correct + verdict.cited) / 2":                                 "",
		"verdict.tone == 'kind' ? 1 : 0":                                        "",
		"verdict.tone in ['kind']":                                              "",
		"(verdict.bonus ?? 0) / 10":                                             "",
		"any(verdict.findings, .severity == 'high')":                            "",
		"sum(map(verdict.findings, .fixed ? 0 : 1)) > 2":                        "",
		"len(filter(verdict.findings, .fixed)) > 1":                             "",
		"min(verdict.score, 3) / 10":                                            "",
		"if verdict.correct { 1 } else { 0 }":                                   "",
		"0.1 * verdict.correct + 0.2 * verdict.correct + 0.7 * verdict.correct": "", // 1.0000000000000002, or so

		"verdict.score":                      `for the verdict {"cited":true,"correct":true,"findings":[],"score":10,"tone":"kind"} the score is 10, which is not from 0 to 1 (give the values in the schema`,
		"verdict.score / 10 - 0.1":           "the score is -0.1",
		"verdict.correct + verdict.cited":    "the score is 2",
		"verdict.scor / 10":                  `there is no verdict.scor; verdict has: bonus, cited, correct, findings, score, tone (did you mean "score"?)`,
		"vedict.score":                       `there is no vedict; there are: verdict (did you mean "verdict"?)`,
		"count(verdict.findings, .fixd) > 0": `there is no #.fixd; # has: fixed, severity (did you mean "fixed"?)`,
		"verdict.findings.severity":          "array elements can only be selected using an integer",
		"verdict.bonus / 10":                 "cannot be computed: invalid operation: <nil> / int, at character 15 (add the property to required in the schema, or write verdict.NAME ?? 0)",
		"count(verdict.findings, .fixed) / len(verdict.findings)": "the score is not a finite number (write what counts if the divisor is 0)",
		"verdict.findings[0].fixed":                               "index out of range",
		"verdict.tone / 2":                                        "mismatched types string and int",
		"verdict.tone":                                            "is a text, not a number",
		"verdict.findings":                                        "is a list or an object, not a number",
		"verdict.tone == 'kimd'":                                  `it compares with "kimd", and the schema has only: `,
		"any(verdict.findings, .severity in ['low', 'hihg'])":     `it compares with "hihg"`,
		"'KIND' != verdict.tone":                                  `it compares with "KIND"`,
		"len(verdict.findings) / 20":                              "which is not from 0 to 1",
		"len(filter(verdict.findings, .fixed)) / 20":              "which is not from 0 to 1",
		"mean(map(verdict.findings, .fixed ? 1 : 0))":             "mean of an empty list has no value",
		"median(map(verdict.findings, .fixed ? 1 : 0))":           "median of an empty list has no value",
		"mean(map(verdict.findings, .fixed ? 1 : 0), 1)":          "",
		"1":                                      "the score does not depend on the verdict",
		"verdict.score /":                        "unexpected token EOF",
		"now()":                                  "now is no function; there are: abs, all,",
		"env('HOME')":                            "env is no function",
		"verdict.toString()":                     "is no function",
		"let x = verdict.score; x / 10":          "too complicated",
		"verdict.score; 1":                       "too complicated",
		"count(1..1000000, verdict.correct) > 0": "too complicated",
		"count(verdict.findings, any(verdict.findings, .fixed)) > 0": "too complicated",
		"reduce(verdict.findings, #acc + 1)":                         "reduce is no function",
		"$env.verdict.score / 10":                                    "there is no $env",
		"verdict.tone matches '('":                                   "error parsing regexp",
		strings.Repeat("1+", 400) + "verdict.score":                  "exceeds maximum allowed nodes",
		strings.Repeat(" ", 5000) + "verdict.score":                  "longer than 4096 bytes",
	} {
		t.Run(score[:min(60, len(score))], func(t *testing.T) {
			_, found := Compile(Spec{Name: "q", Prompt: "x", Verdict: review, Score: score})
			if want == "" {
				wantProblems(t, found)
				return
			}
			wantProblems(t, found, want)
		})
	}
}

func TestScoresOfVerdicts(t *testing.T) {
	j := compiled(t, Spec{Verdict: review, Score: "0.5 * verdict.correct + 0.3 * (verdict.score / 10) + 0.2 * (count(verdict.findings, .fixed) == len(verdict.findings))"})
	for verdict, want := range map[string]float64{
		`{"score": 10, "correct": true, "cited": true, "tone": "kind", "findings": []}`:                                    1,
		`{"score": 0, "correct": false, "cited": true, "tone": "kind", "findings": [{"severity": "low", "fixed": false}]}`: 0,
		`{"score": 5, "correct": true, "cited": false, "tone": "rude", "findings": [{"severity": "low", "fixed": true}]}`:  0.85,
	} {
		if v, err := j.Read([]byte(verdict)); err != nil || math.Abs(v.Score-want) > 1e-12 {
			t.Errorf("%s: %v, %v; want %v", verdict, v.Score, err, want)
		}
	}
}

func TestWhenIsTyped(t *testing.T) {
	for when, want := range map[string]string{
		"tests > 0":                         "",
		"rewards.style > 0.5 and tests < 1": "",
		"rewards['two words'] > 0":          "",
		"len(rewards) > 0":                  "",
		"tests":                             "when: with tests = 0 it is neither true nor false",
		"tests > 'a'":                       "mismatched types float64 and string",
		"test > 0":                          `there is no test; there are: rewards, tests (did you mean "tests"?)`,
		"scores.other > 0":                  "there is no scores",
		"verdict.score > 0":                 "there is no verdict",
		"tests > ":                          "unexpected token EOF",
	} {
		t.Run(when, func(t *testing.T) {
			_, found := Compile(Spec{Name: "q", Prompt: "x", When: when})
			if want == "" {
				wantProblems(t, found)
				return
			}
			wantProblems(t, found, want)
		})
	}
}

func TestApplies(t *testing.T) {
	one := 1.0
	for _, tc := range []struct {
		when  string
		facts Facts
		want  bool
		err   string
	}{
		{"", Facts{}, true, ""},
		{"tests > 0", Facts{Tests: &one}, true, ""},
		{"tests > 1", Facts{Tests: &one}, false, ""},
		{"rewards.a == 0.5", Facts{Rewards: map[string]float64{"a": 0.5}}, true, ""},
		{"tests > 0", Facts{}, false, "cannot be computed"},
		{"rewards.a > 0", Facts{Tests: &one}, false, "cannot be computed"},
		{"(rewards.a ?? 0) > 0", Facts{Tests: &one}, false, ""},
	} {
		got, err := compiled(t, Spec{When: tc.when}).Applies(tc.facts)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s of %+v: %v, %v", tc.when, tc.facts, got, err)
		}
	}
}

func TestJudgesAreSafeForConcurrentUse(t *testing.T) {
	j := compiled(t, Spec{Verdict: review, Score: "verdict.score / 10", When: "tests > 0", Prompt: "{{.Task.Name}} {{.Tests.Reward}}"})
	r, found := CompileReward("tests * scores.quality ?? 0", []*Judge{j}, true)
	if len(found) > 0 {
		t.Fatal(found)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				one := 1.0
				v, err := j.Read([]byte(`{"score": 5, "correct": true, "cited": true, "tone": "kind", "findings": []}`))
				applies, whenErr := j.Applies(Facts{Tests: &one})
				_, askErr := j.Ask(Input{}, nil)
				value, rewardErr := r.Value(&one, nil, map[string]*float64{"quality": &v.Score})
				if err != nil || whenErr != nil || askErr != nil || rewardErr != nil || !applies || value != 0.5 {
					t.Errorf("%v %v %v %v %v %v", err, whenErr, askErr, rewardErr, applies, value)
				}
			}
		})
	}
	all.Wait()
}
