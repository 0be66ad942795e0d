package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/report/reporttest"
	"github.com/org/rollout-action/internal/result"
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
