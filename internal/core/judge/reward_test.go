package judge

import (
	"fmt"
	"strings"
	"testing"
)

// panel returns a judge that always has a score, and judges that may have none.
func panel(t *testing.T) []*Judge {
	return []*Judge{
		compiled(t, Spec{Name: "quality"}), compiled(t, Spec{Name: "style", When: "tests > 0"}),
		compiled(t, Spec{Name: "flaky", OnError: Ignore}), compiled(t, Spec{Name: "odd", When: "tests > 0", OnError: Ignore}),
		compiled(t, Spec{Name: "named", When: "rewards.speed > 0.5"}),
	}
}

func TestRewardsAreCheckedBeforeARun(t *testing.T) {
	for reward, want := range map[string]string{
		"0.7 * tests + 0.3 * scores.quality":         "",
		"tests":                                      "",
		"1":                                          "",
		"scores['quality']":                          "",
		"tests == 1 and scores.quality > 0.5":        "", // true counts as 1
		"tests * (scores.flaky ?? 0.5)":              "",
		"tests > 0 ? scores.style : 0":               "", // it has a score if tests > 0
		"tests > 0 ? (scores.odd ?? 0) : 0":          "",
		"min(tests, rewards.speed, scores.quality)":  "",
		"mean([tests, scores.quality])":              "",
		"scores.flaky == nil ? tests : scores.flaky": "",

		"tests + scores.quality":       "with tests = 0.5, scores.quality = 1 it is 1.5, which is not from 0 to 1",
		"tests - 0.1":                  "with tests = 0 it is -0.1",
		"scores.style":                 "with scores.style = null it has no value (null) (write scores.style ?? 0, or remove what leaves the judge without a score: its when)",
		"tests * scores.style":         "with tests = 0, scores.style = null it cannot be computed",
		"tests * scores.flaky":         "scores.flaky = null it cannot be computed: invalid operation: float64 * <nil>, at character 7 (write scores.flaky ?? 0, or remove what leaves the judge without a score: on_error: ignore)",
		"tests > 0 ? scores.odd : 0":   "with tests = 0.5, scores.odd = null it has no value (null) (write scores.odd ?? 0, or remove what leaves the judge without a score: its when and on_error: ignore)",
		"tests > 0 ? scores.named : 0": "scores.named = null it has no value",
		"scores.qualty":                `there is no scores.qualty; scores has: flaky, named, odd, quality, style (did you mean "quality"?)`,
		"score.quality":                `there is no score; there are: rewards, scores, tests (did you mean "scores"?)`,
		"test":                         `did you mean "tests"?`,
		"tests / (tests - tests)":      "it is not a finite number (write what counts if the divisor is 0)",
		"scores":                       "it is a list or an object, not a number (write an expression such as 0.7 * tests",
		"tests + 'a'":                  "mismatched types float64 and string",
		"tests +":                      "unexpected token EOF",
		"rewards.speed + rewards.size": "with rewards.speed = 1, rewards.size = 1 it is 2",
		"quality":                      "there is no quality",
		"verdict.score":                "there is no verdict",
	} {
		t.Run(reward, func(t *testing.T) {
			r, found := CompileReward(reward, panel(t), true)
			if want == "" {
				wantProblems(t, found)
				return
			}
			if wantProblems(t, found, "reward: "); r != nil || !strings.Contains(fmt.Sprintf("%s (%s)", found[0].Message, found[0].Hint), want) {
				t.Errorf("got %s (%s)\nwant %s", found[0].Message, found[0].Hint, want)
			}
		})
	}
}

func TestRewardsWithoutTests(t *testing.T) {
	for reward, want := range map[string]string{
		"scores.quality":         "",
		"tests * scores.quality": "reward: it uses the tests, but they are not run (verifier.disable) (leave tests out of it",
		"rewards.speed":          "reward: it uses the tests",
		"rewards['speed']":       "reward: it uses the tests",
	} {
		_, found := CompileReward(reward, panel(t), false)
		if want == "" {
			wantProblems(t, found)
			continue
		}
		wantProblems(t, found, want)
	}
}

// Problems name the missing judge, because a task may have one of that name.
func TestUnknownScoresAreNamed(t *testing.T) {
	for reward, want := range map[string]string{"scores.other * tests": "other", "other * tests": "", "tests + 1": ""} {
		_, found := CompileReward(reward, panel(t), true)
		if len(found) != 1 || found[0].Score != want {
			t.Errorf("%s: %+v", reward, found)
		}
	}
}

func TestValuesOfRewards(t *testing.T) {
	half, one, none := 0.5, 1.0, (*float64)(nil)
	for _, tc := range []struct {
		reward string
		tests  *float64
		scores map[string]*float64
		want   float64
		err    string
	}{
		{"0.7 * tests + 0.3 * scores.quality", &one, map[string]*float64{"quality": &half}, 0.85, ""},
		{"tests * (scores.flaky ?? 0.5)", &one, map[string]*float64{"flaky": none}, 0.5, ""},
		{"tests * (scores.flaky ?? 0.5)", &one, nil, 0.5, ""},
		{"tests == 1 and scores.quality == 1", &one, map[string]*float64{"quality": &one}, 1, ""},
		{"tests * scores.quality", none, map[string]*float64{"quality": &one}, 0, "cannot be computed"},
		{"tests * scores.quality", new(7.0), map[string]*float64{"quality": &one}, 0, "is 7, which is not from 0 to 1"},
		{"", &half, nil, 0.5, ""},
		{"", new(7.0), nil, 7, ""}, // the tests' own reward has no bounds
		{"", none, nil, 0, "the tests have left no reward"},
	} {
		r, found := CompileReward(tc.reward, panel(t), true)
		if len(found) > 0 {
			t.Fatal(found)
		}
		got, err := r.Value(tc.tests, nil, tc.scores)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: %v, %v; want %v, %s", tc.reward, got, err, tc.want, tc.err)
		}
	}
}

// Of many judges, not all combinations are tried, but enough to find one that has no score, or a
// sum that is too large.
func TestRewardsOfManyJudges(t *testing.T) {
	var judges []*Judge
	var sum []string
	for i := range 20 {
		s := Spec{Name: fmt.Sprintf("j%d", i)}
		if i == 13 {
			s.OnError = Ignore
		}
		judges, sum = append(judges, compiled(t, s)), append(sum, fmt.Sprintf("scores.j%d", i))
	}
	all := strings.Join(sum, " + ")
	for reward, want := range map[string]string{
		"(" + all + ") / 20": "scores.j13 = null",
		"(" + strings.Replace(all, "scores.j13", "(scores.j13 ?? 0)", 1) + ") / 20": "",
		"(" + strings.Replace(all, "scores.j13", "(scores.j13 ?? 0)", 1) + ") / 19": "it is 1.05",
	} {
		_, found := CompileReward(reward, judges, true)
		if want == "" {
			wantProblems(t, found)
		} else if len(found) != 1 || !strings.Contains(found[0].Message, want) {
			t.Errorf("%s: %+v", reward, found)
		}
	}
}
