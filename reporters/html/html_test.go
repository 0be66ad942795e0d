package html_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/internal/test/untrustedtest"
	"github.com/org/rollout-action/reporters/html"
)

var assets = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|sha256-(?:[A-Za-z0-9/=]|&#43;)*`)

func TestGolden(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) {
			text := reporttest.Write(t, html.Reporter{}, in)
			reporttest.Golden(t, name+".html", assets.ReplaceAll(text, []byte("…")))
		})
	}
}

// Everything from outside is text: there are no elements, attributes or links of its making.
func TestHostileTextStaysText(t *testing.T) {
	calm := untrustedtest.Attack{Text: "harmless"}
	plain := elements(string(reporttest.Write(t, html.Reporter{}, reporttest.Hostile(calm))) + string(reporttest.Write(t, html.Reporter{}, reporttest.HostilePage(calm))))
	attacks := append([]untrustedtest.Attack{
		{Name: "a link with a script", Text: `javascript:alert("pwned")`},
		{Name: "the end of an attribute", Text: `" onmouseover="pwned()" x="`},
		{Name: "the end of elements", Text: `</pre></title></svg></style></script><script>pwned()</script>`},
		{Name: "a template", Text: `{{.Policy}}<base href="https://evil.example/">`},
		{Name: "colours around a tag", Text: "\x1b[31m<\x1b[1mscript>pwned()\x1b[0m</script>"},
	}, untrustedtest.Corpus...)
	for _, a := range attacks {
		text := string(reporttest.Write(t, html.Reporter{}, reporttest.Hostile(a))) + string(reporttest.Write(t, html.Reporter{}, reporttest.HostilePage(a)))
		body := assets.ReplaceAllString(text, "")
		for _, bad := range []string{"<script", "javascript:alert(\"", "<base", "<img", "onerror=\"", "onmouseover=\"", "\x1b", "\u202e"} {
			if strings.Contains(strings.ToLower(body), bad) {
				t.Errorf("%s: the page has %q", a.Name, bad)
			}
		}
		for _, tag := range regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(body, -1) {
			name := regexp.MustCompile(`^<\w+`).FindString(tag)
			if !plain[name] {
				t.Errorf("%s: the page has the element %s", a.Name, tag)
			}
		}
		for _, link := range regexp.MustCompile(`(?:href|src|action|xlink:href)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if !strings.HasPrefix(link[1], "#") && !strings.HasPrefix(link[1], "https://github.com/acme/widgets/") {
				t.Errorf("%s: a link leads to %q", a.Name, link[1])
			}
		}
	}
}

func elements(text string) map[string]bool {
	found := map[string]bool{}
	for _, name := range regexp.MustCompile(`<\w+`).FindAllString(assets.ReplaceAllString(text, ""), -1) {
		found[name] = true
	}
	return found
}

// The page of 500 trials that all failed, with long logs and conversations, fits, and names the
// missing parts and their places.
func TestFits(t *testing.T) {
	var specs []reporttest.Spec
	log := strings.Repeat("a line of a log <b>&</b> that goes on\n", 300)
	turn := `{"step_id": 3, "source": "agent", "message": "` + strings.Repeat("words & <words> ", 200) + `"},`
	conversation := `{"steps": [` + strings.Repeat(turn, 10) + `{"step_id": 4, "source": "user", "message": "the last"}]}`
	for i := range 500 {
		specs = append(specs, reporttest.Spec{
			Agent: "a", Dataset: "d", Task: "task-" + strings.Repeat("x", 30) + string(rune('a'+i%26)) + string(rune('a'+i/26)), Reward: new(0.0), Seconds: 60, Cost: 0.1,
			Logs: map[string]string{"logs/verifier/stdout.txt": log, "command/stdout.txt": log, "command/stderr.txt": log, "trajectory.json": conversation},
		})
	}
	in := reporttest.Make("large", specs)
	text := string(reporttest.Write(t, html.Reporter{}, in))
	if len(text) > page.DefaultLimit || len(text) < page.DefaultLimit/2 {
		t.Errorf("the page has %d bytes, want at most %d and not much less", len(text), page.DefaultLimit)
	}
	if n := strings.Count(text, `<details class="trial">`); n != 500 {
		t.Errorf("%d trials have a section, want 500", n)
	}
	for _, want := range []string{"Left out to fit into one page: parts of logs and conversations of 500 trials", "the whole is in jobs/large", "bytes of the log logs/verifier/stdout.txt", "the log command/stdout.txt", "the last"} {
		if !strings.Contains(text, want) {
			t.Errorf("not said: %s", want)
		}
	}
	for _, limit := range []int{100_000, 1_000_000} {
		text := reporttest.Write(t, html.Reporter{Limit: limit}, in)
		if len(text) > limit || !bytes.Contains(text, []byte("Left out to fit")) {
			t.Errorf("limit %d: the page has %d bytes", limit, len(text))
		}
	}
}

// A conversation has its turns, calls with results, sub-agents and the first call that failed.
func TestConversation(t *testing.T) {
	in := reporttest.Make("job", []reporttest.Spec{{Agent: "a", Dataset: "d", Task: "one", Reward: new(0.0), Seconds: 3, Logs: map[string]string{
		"command/stdout.txt": "\x1b[1;31mred\x1b[0m plain\n",
		"trajectory.json": `{"trajectory_id": "main", "steps": [
			{"step_id": 1, "source": "system", "message": "You are."},
			{"step_id": 2, "source": "agent", "message": "I call.", "reasoning_content": "I think.", "metrics": {"prompt_tokens": 1200, "completion_tokens": 30, "cost_usd": 0.02, "extra": {"latency_sec": 2.5}},
			 "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls <x>"}}],
			 "observation": {"results": [{"source_call_id": "c1", "content": "no such file", "extra": {"is_error": true}, "subagent_trajectory_ref": [{"trajectory_id": "sub"}]}]}},
			{"step_id": 3, "source": "system", "message": "The context was replaced.", "extra": {"context_management": {"type": "compaction"}}},
			{"step_id": 4, "source": "agent", "message": "Done."}],
			"subagent_trajectories": [{"trajectory_id": "sub", "steps": [{"step_id": 1, "source": "agent", "message": "I help."}]}]}`,
	}}})
	text := string(reporttest.Write(t, html.Reporter{}, in))
	for _, want := range []string{
		`<a href="#t1-2">First tool call that failed</a>`, `<a href="#t1-4">Last turn</a>`, "command: ls &lt;x&gt;", "no such file", "I think.", "1.2k in, 30 out", "$0.020 · answered in 2.5s",
		"The context was replaced here.", "Sub-agent sub", "I help.", `<span class="bold c1">red</span> plain`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestReusedTrialsAreMarked: a trial that another job ran names that job, and links only to what is
// an address.
func TestReusedTrialsAreMarked(t *testing.T) {
	in := reporttest.Make("job", []reporttest.Spec{{Agent: "a", Dataset: "d", Task: "one", Reward: new(1.0)}, {Agent: "a", Dataset: "d", Task: "two", Reward: new(1.0)}, {Agent: "a", Dataset: "d", Task: "ran", Reward: new(1.0)}})
	reporttest.ChangeTrials(&in, func(trials []result.Trial) {
		trials[0].Reused = &result.Reused{Job: "main", From: "github:", Commit: strings.Repeat("5d6e7f80", 5), URL: "https://github.com/o/r/actions/runs/7"}
		trials[1].Reused = &result.Reused{Job: "<b>\x1b[31m", From: "../../x\u202e", URL: "javascript:alert(1)"}
	})
	text := string(reporttest.Write(t, html.Reporter{}, in))
	for _, want := range []string{`<a href="https://github.com/o/r/actions/runs/7" rel="noopener noreferrer">The run that has its logs</a>`, "of job <code>main</code>, taken from <code>github:</code> at commit <code>5d6e7f80", "of job <code>&lt;b&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Count(text, ", reused</small>") != 2 || strings.Contains(text, "javascript:alert") || strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("the wrong trials are marked, or text from outside is on the page as it was")
	}
}
