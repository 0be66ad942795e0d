package result

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOnlyReportedAmountsCount(t *testing.T) {
	var none USD
	for _, c := range []struct {
		name string
		got  USD
		want string
	}{
		{"nobody reported one", none, "null"},
		{"0 was reported", Dollars(0), "0"},
		{"a sum of none", none.Plus(none), "null"},
		{"a sum of what was reported", none.Plus(Dollars(0.5)).Plus(none), "0.5"},
		{"a sum with 0", none.Plus(Dollars(0)), "0"},
		{"a difference to nothing", Dollars(1).Minus(none), "null"},
		{"a difference", Dollars(1).Minus(Dollars(3)), "-2"},
		{"what no file can hold", Dollars(math.MaxFloat64).Plus(Dollars(math.MaxFloat64)), "1.7976931348623157e+308"},
		{"no number", Dollars(math.NaN()).Finite(), "null"},
	} {
		text, err := json.Marshal(c.got)
		if err != nil || string(text) != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, text, err, c.want)
		}
		var read USD
		if err := json.Unmarshal(text, &read); err != nil || read != c.got {
			t.Errorf("%s: read as %v (%v), want %v", c.name, read, err, c.got)
		}
	}
}

func TestUnreportedCostIsNull(t *testing.T) {
	free, paid, unsaid := rewarded(key("a", "t", 1), 1), rewarded(key("a", "t", 2), 1), rewarded(key("b", "t", 1), 1)
	free.Costs = Costs{Model: Dollars(0)}
	paid.Costs = Costs{Model: Dollars(2)}
	unsaid.Costs = Costs{}
	trials := []Trial{free, paid, unsaid}
	for i := range trials {
		trials[i].Cost = trials[i].Costs.Total()
	}
	plan := Plan{JobName: "j", StartedAt: time.Unix(0, 0).UTC(), Trials: KeysOf(free.Key, paid.Key, unsaid.Key)}
	for _, c := range []struct {
		name         string
		trials       []Trial
		total, agent USD
	}{
		{"those that reported one are summed", trials, Dollars(2), Dollars(2)},
		{"0 is a cost", trials[:1], Dollars(0), Dollars(0)},
		{"none is reported", trials[2:], USD{}, USD{}},
	} {
		job := Summarize(plan, c.trials)
		if job.TotalCost != c.total || job.Costs != (Costs{Model: c.total}) || job.Agents["a"].TotalCost != c.agent || job.Agents["b"].TotalCost != (USD{}) {
			t.Errorf("%s: %v of %v, agents %v", c.name, job.TotalCost, job.Costs, job.Agents)
		}
	}
	base, head := Summarize(plan, trials[2:]), Summarize(plan, trials[2:])
	if d := Compare(base, head).Overall.Delta().Cost; d != (USD{}) {
		t.Errorf("the change of two costs that nobody reported is %v", d)
	}
}

// A file of a version without null costs has 0 where none was reported.
func TestOldFilesStayReadable(t *testing.T) {
	const costs = `"costs":{"environment":0,"model":%,"judges":0}`
	for _, c := range []struct{ name, trial, want string }{
		{"all 0", `{"agent_name":"a","dataset_name":"d","task_name":"t","attempt":1,"cost":0,` + strings.Replace(costs, "%", "0", 1) + `}`, "null"},
		{"a model's", `{"agent_name":"a","dataset_name":"d","task_name":"t","attempt":1,"cost":1.5,` + strings.Replace(costs, "%", "1.5", 1) + `}`, "1.5"},
		{"as the specification has it", `{"agent_name":"a","dataset_name":"d","task_name":"t","attempt":1,"cost":0}`, "0"},
		{"a reported 0", `{"agent_name":"a","dataset_name":"d","task_name":"t","attempt":1,"cost":0,"costs":{"environment":null,"model":0,"judges":null}}`, "0"},
	} {
		var trial Trial
		if err := ParseTrial([]byte(c.trial), key("a", "t", 1), &trial); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if text, _ := json.Marshal(trial.Cost); string(text) != c.want { // never fails
			t.Errorf("%s: the cost is %s, want %s", c.name, text, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "result.json")
	old := `{"job_name":"j","total_cost":0,"agents":{"a":{"total_cost":0}},"results":[{"agent_name":"a","cost":0},{"agent_name":"a","cost":2,"reused":true}],` + strings.Replace(costs, "%", "0", 1) + `}`
	if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	job, _, err := ReadJob(path)
	if err != nil || job.TotalCost != (USD{}) || job.Agents["a"].TotalCost != (USD{}) || job.Results.At(0).Cost != (USD{}) || job.Results.At(1).Cost != Dollars(2) {
		t.Errorf("%+v (%v)", job, err)
	}
}
