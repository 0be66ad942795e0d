package reporttest

import (
	"testing/fstest"

	"github.com/org/rollout-action/internal/gate"
	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted/untrustedtest"
)

// Hostile returns a job in which everything that comes from outside is an attack: names, messages, logs, paths, the words of
// checks, links and the baseline.
func Hostile(a untrustedtest.Attack) report.Input {
	s := a.Text
	specs := []Spec{
		{Agent: s, Dataset: s, Task: s, Reward: new(0.0), Seconds: 1},
		{Agent: s, Dataset: s, Task: s, Attempt: 2, Reward: new(1.0), Seconds: 1},
		{Agent: s, Dataset: s, Task: s + "x", Error: result.AgentExecutionFailed, Message: s, Seconds: 1},
		{Agent: s, Dataset: s, Task: "y" + s, Error: result.ErrorType(s), Message: s, Seconds: 1},
		{Agent: s, Dataset: s, Task: s + "z", Missing: true},
		{Agent: s, Dataset: s, Task: "ours", Reward: new(1.0), Seconds: 1},
	}
	in := Make(s, specs)
	for i := range in.Plan.Tasks {
		in.Plan.Tasks[i].Path = s
	}
	for i := range in.Trials {
		in.Trials[i].Rewards = map[string]float64{s: 1}
	}
	files := fstest.MapFS{}
	for _, t := range in.Trials {
		for _, log := range []string{"logs/verifier/stdout.txt", "command/stderr.txt", "error.txt", "logs/verifier/ctrf.json", "logs/verifier/junit.xml"} {
			files[t.Dir()+"/"+log] = &fstest.MapFile{Data: []byte(s), Mode: 0o644}
		}
		test, _ := result.Marshal(map[string]any{"results": map[string]any{"tests": []map[string]any{
			{"name": s, "status": "failed", "suite": s, "message": s, "trace": s}, {"name": s, "status": s},
		}}})
		files[t.Dir()+"/logs/verifier/ctrf.json"] = &fstest.MapFile{Data: test, Mode: 0o644}
	}
	in.Files, in.Dir = index(files), s
	base := make([]Spec, len(specs))
	copy(base, specs)
	for i := range base {
		base[i].Reward, base[i].Error, base[i].Missing = new(1.0), "", false
	}
	in = Against(in, Make(s, base))
	in.Baseline = s
	in.Verdict = gate.Verdict{
		Outcome: gate.Fail, Reason: s, Notes: []string{s},
		Checks:      []gate.Check{{Name: s, Agent: s, Dataset: s, Outcome: gate.Fail, Message: s, Hint: s}, {Name: s, Outcome: gate.Outcome(s), Message: s}},
		Quarantined: []gate.Quarantined{{Dataset: s, Task: s + "x", Reason: s, Until: s}},
	}
	in.Incomplete, in.Notes = []string{s}, []string{s}
	in.Links.Sha = s
	in.Links.Artifact = "https://github.com/acme/widgets/" + s
	return in
}
