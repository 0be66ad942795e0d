package trajectory_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model/trajectory"
)

func TestReadOwn(t *testing.T) {
	for name, one := range map[string]struct{ text, want string }{
		"final metrics count": {
			`{"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "a", "version": "1", "model_name": "m"}, "extra": {"steps": [1]}, "steps": [
				{"step_id": 1, "source": "user", "message": "?"},
				{"step_id": 2, "source": "agent", "message": [{"type": "text", "text": "!"}], "metrics": {"prompt_tokens": 5, "completion_tokens": 1, "cost_usd": 0.5}},
				{"step_id": 3, "source": "agent", "message": "", "metrics": null}],
			 "final_metrics": {"total_prompt_tokens": 100, "total_completion_tokens": 20, "total_cached_tokens": 60, "total_cost_usd": 0.25, "total_steps": 9}}`,
			"m 2 100 60 20 0.25",
		},
		"else the sum of the steps": {
			`{"schema_version": "ATIF-v1.0", "steps": [
				{"source": "agent", "model_name": "first", "metrics": {"prompt_tokens": 5, "completion_tokens": 1, "cached_tokens": 2, "cost_usd": 0.5}},
				{"source": "agent", "model_name": "second", "is_copied_context": true, "metrics": {"prompt_tokens": 1000}},
				{"source": "agent", "metrics": {"prompt_tokens": 7, "completion_tokens": 1}}], "agent": {}}`,
			"first 2 12 2 2 0.5",
		},
		"nothing is known":    {`{"schema_version": "ATIF-v1.8", "steps": []}`, " 0 - - - -"},
		"null":                {`{"schema_version": "ATIF-v1.8", "steps": [], "final_metrics": {"total_prompt_tokens": null, "total_cost_usd": null}}`, " 0 - - - -"},
		"empty":               {``, "it is empty"},
		"a list":              {`[]`, "it is no JSON object"},
		"text":                {`hello`, "invalid character"},
		"cut":                 {`{"schema_version": "ATIF-v1.8", "steps": [{"source": "agent"`, "steps: step 1: unexpected EOF"},
		"another format":      {`{"steps": []}`, "schema_version"},
		"a later format":      {`{"schema_version": "ATIF-v2.0", "steps": []}`, "schema_version"},
		"no steps":            {`{"schema_version": "ATIF-v1.8"}`, "it has no steps"},
		"steps twice":         {`{"schema_version": "ATIF-v1.8", "steps": [], "steps": [{"source": "agent"}]}`, "it has steps twice"},
		"metrics twice":       {`{"schema_version": "ATIF-v1.8", "steps": [], "final_metrics": {}, "final_metrics": {}}`, "it has final_metrics twice"},
		"more after the end":  {`{"schema_version": "ATIF-v1.8", "steps": []} {}`, "there is more after its end"},
		"steps are no list":   {`{"schema_version": "ATIF-v1.8", "steps": {}}`, "steps: they are no list"},
		"a step is no object": {`{"schema_version": "ATIF-v1.8", "steps": [[]]}`, "step 1: json"},
		"negative":            {`{"schema_version": "ATIF-v1.8", "steps": [{"source": "agent", "metrics": {"prompt_tokens": -1}}]}`, `"-1" is no number of tokens`},
		"a fraction":          {`{"schema_version": "ATIF-v1.8", "steps": [{"source": "agent", "metrics": {"prompt_tokens": 1.5}}]}`, `"1.5" is no number of tokens`},
		"a text":              {`{"schema_version": "ATIF-v1.8", "steps": [{"source": "agent", "metrics": {"prompt_tokens": "5"}}]}`, `is not a number`},
		"huge":                {`{"schema_version": "ATIF-v1.8", "steps": [], "final_metrics": {"total_prompt_tokens": 1e308}}`, `is no number of tokens`},
		"too huge":            {`{"schema_version": "ATIF-v1.8", "steps": [], "final_metrics": {"total_prompt_tokens": 1e999}}`, `is not a number`},
		"a million":           {`{"schema_version": "ATIF-v1.8", "steps": [], "final_metrics": {"total_cost_usd": 1000001}}`, `no plausible amount`},
		"a sum of millions": {
			`{"schema_version": "ATIF-v1.8", "steps": [{"source": "agent", "metrics": {"cost_usd": 900000}}, {"source": "agent", "metrics": {"cost_usd": 900000}}]}`,
			"more than 1e+06 US dollars",
		},
		"deep": {`{"schema_version": "ATIF-v1.8", "steps": [], "x": ` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "x: "},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := trajectory.ReadOwn(strings.NewReader(one.text))
			got := fmt.Sprint(own.Model, " ", own.Turns, " ", show(own.Input), " ", show(own.Cached), " ", show(own.Completion), " ", show(own.CostUSD))
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, one.want) || err == nil && got != one.want {
				t.Errorf("%s, want %s", got, one.want)
			}
		})
	}
}

func show[T any](n *T) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// A trajectory that is too long is not read to its end.
func TestReadOwnIsBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"schema_version": "ATIF-v1.8", "steps": [`), &repeated{text: `{"source": "agent", "message": "again"},`})
	if _, err := trajectory.ReadOwn(endless); !errors.Is(err, trajectory.ErrTooLong) {
		t.Errorf("%v", err)
	}
}

// repeated is a text that never ends.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at%len(r.text)]
		r.at++
	}
	return len(p), nil
}
