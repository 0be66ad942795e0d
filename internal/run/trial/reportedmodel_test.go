package trial_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/scripted"
)

const ownTrajectory = `{"schema_version": "ATIF-v1.8", "agent": {"name": "mine", "version": "1", "model_name": "big-SECRETKEY"}, "steps": [
	{"step_id": 1, "source": "user", "message": "Do it."}, {"step_id": 2, "source": "agent", "message": "Done."}],
	"final_metrics": {"total_prompt_tokens": 100, "total_completion_tokens": 20, "total_cost_usd": 0.25}}`

// The usage that an agent without a gateway reports is in the result, marked as reported by the
// agent.
func TestAnAgentsOwnTrajectory(t *testing.T) {
	leave := func(text string) string { return "cat >/logs/agent/trajectory.json <<'END'\n" + text + "\nEND\n" }
	for name, one := range map[string]struct {
		execute string
		usage   string // requested model, turns, unpriced; "": none
		cost    result.USD
		warning string
	}{
		"read":        {leave(ownTrajectory), "big-*** 1 0", result.Dollars(0.25), ""},
		"its cost":    {leave(ownTrajectory) + "echo 0.75 >/logs/agent/cost_usd.txt", "big-*** 1 0", result.Dollars(0.75), ""},
		"no cost":     {leave(strings.ReplaceAll(ownTrajectory, "total_cost_usd", "x")), "big-*** 1 1", result.USD{}.LowerBound(), ""},
		"broken":      {leave(`{"schema_version": "ATIF-v1.8", "steps": [`), "", result.USD{}, "logs/agent/trajectory.json is not read"},
		"a link":      {"echo '" + strings.ReplaceAll(ownTrajectory, "\n", "") + "' >/tmp/t; ln -s /tmp/t /logs/agent/trajectory.json", "", result.USD{}, ""},
		"a directory": {"mkdir /logs/agent/trajectory.json", "", result.USD{}, "logs/agent/trajectory.json is not read"},
		"none":        {"true", "", result.USD{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inRealPlaces(t, func(t *testing.T, p place) {
				o := p.run(t, story{agent: agent.Agent{Execute: one.execute}, secrets: []string{"SECRETKEY"}})
				o.check(t, want{reward: "1"})
				got := ""
				if u := o.Trial.Usage; u != nil {
					got = strings.Join([]string{u.Requested, strconv.FormatInt(u.Turns, 10), strconv.FormatInt(u.Unpriced, 10)}, " ")
					if u.ReportedBy != result.ReportedByAgent {
						t.Errorf("reported by %q", u.ReportedBy)
					}
				}
				if got != one.usage || o.Trial.Costs.Model != one.cost {
					t.Errorf("usage %q, cost %v; want %q, %v", got, o.Trial.Costs.Model, one.usage, one.cost)
				}
				if warnings := strings.Join(o.Trial.Warnings, "\n"); one.warning == "" && warnings != "" || !strings.Contains(warnings, one.warning) {
					t.Errorf("warnings %q, want %q", warnings, one.warning)
				}
			})
		})
	}
}

// With a gateway, its counts are the usage.
func TestTheGatewayWinsOverAnOwnTrajectory(t *testing.T) {
	inRealPlaces(t, func(t *testing.T, p place) {
		s, _ := shellStory(t, "anthropic", agent.Budget{}, scripted.Script{Answers: []scripted.Answer{
			{Run: "echo '" + strings.ReplaceAll(ownTrajectory, "\n", "") + "' >/logs/agent/trajectory.json"}, {Text: "Done."},
		}})
		o := p.run(t, s)
		o.check(t, want{reward: "1"})
		if u := o.Trial.Usage; u.ReportedBy != "" || u.Turns != 2 {
			t.Errorf("%+v", u)
		}
	})
}
