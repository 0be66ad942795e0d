package reporttest

import (
	"encoding/json"
	"strings"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/untrustedtest"
)

// Hostile returns a job in which all text from outside is an attack: names, messages, logs, paths,
// the words of checks, links and the baseline.
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
	ChangeTrials(&in, func(trials []result.Trial) {
		for i := range trials {
			trials[i].Rewards = map[string]float64{s: 1}
			trials[i].Steps = []result.StepRun{{Name: s, Unmet: s}, {Name: "../" + s, Error: &result.Error{Type: result.ErrorType(s), Message: s}}}
		}
	})
	files := fstest.MapFS{}
	for _, t := range result.UnpackAll(in.Trials) {
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
		WaysOut:     []gate.WayOut{{Name: s, Text: s}},
		Quarantined: []gate.Quarantined{{Dataset: s, Task: s + "x", Reason: s, Until: s}},
	}
	in.Incomplete, in.Notes = []string{s}, []string{s}
	in.Versus = []gate.Versus{{A: s, B: s, Contrasts: []gate.Contrast{{Measure: gate.MeasureCost, Outcome: gate.Unknown}}}}
	in.History = hostilePast(in, s)
	in.Links.Sha = s
	in.Links.Artifact = "https://github.com/acme/widgets/" + s
	return in
}

// hostilePast returns earlier jobs of the same agent, with attacks as texts and absurd numbers.
func hostilePast(in report.Input, s string) (past []history.Point) {
	for i := range 3 {
		p := history.PointOf(in.Job, s, gate.Outcome(s))
		p.JobName, p.Commit, p.StartedAt = s, &s, in.Now.AddDate(-i, 0, 0)
		for j := range p.Agents {
			a := &p.Agents[j]
			a.Models, a.Judges, a.PassRate, a.MeanReward = []string{s, s + string(rune('a'+i))}, []string{s}, float64(10*i)-5, 1e300
			a.Interval, a.Cost, a.DurationSec = &gate.Interval{Low: -1e300, High: 1e300}, history.Mean{Mean: -1e300, N: 1}, history.Mean{Mean: 1e300, N: 1}
			for k := range a.Tasks {
				a.Tasks[k].Passed, a.Tasks[k].Attempts = 1-i, 1<<40
			}
		}
		past = append(past, p)
	}
	return history.Sorted(past)
}

// Past returns a job with two weeks of history on main: a task breaks, the model changes, and a
// task is added.
func Past() report.Input {
	specs := func(day int) (out []Spec) {
		for i, task := range suite {
			if day < 4 && i == 0 {
				continue // it was added later
			}
			for attempt := 1; attempt <= 2; attempt++ {
				s := Spec{Agent: "apprentice", Dataset: "cookbook", Task: task, Attempt: attempt, Reward: new(1.0), Seconds: 10 + float64(i), Cost: 0.02, Digest: "sha256:" + task}
				if i == 3 && day > 8 || (i+day+attempt)%5 == 0 {
					s.Reward = new(0.0)
				}
				out = append(out, s)
			}
		}
		return out
	}
	in := Make("nightly", specs(14))
	in.Verdict = gate.Verdict{Outcome: gate.Fail, Reason: "1 task is broken where none may be."}
	for day := range 14 {
		job := Make("nightly", specs(day)).Job
		job.StartedAt = in.Plan.StartedAt.Add(time.Duration(day-14) * 24 * time.Hour)
		p := history.PointOf(job, "main", []gate.Outcome{gate.Pass, gate.Fail, gate.Inconclusive, ""}[day%4])
		for i := range p.Agents {
			p.Agents[i].Models = []string{"model-2026-05"}
			if day > 10 {
				p.Agents[i].Models = []string{"model-2026-11"}
			}
		}
		in.History = append(in.History, p)
	}
	return in
}

// HostilePage returns a job in which the texts that only a page shows are also attacks:
// conversations, logs of all kinds, judges, artifacts, retries.
func HostilePage(a untrustedtest.Attack) report.Input {
	s := a.Text
	quoted, _ := json.Marshal(s)
	q := string(quoted)
	conversation := strings.ReplaceAll(`{"trajectory_id": S, "steps": [
		{"step_id": 1, "source": S, "message": S},
		{"step_id": 2, "source": "agent", "message": S, "model_name": S, "reasoning_content": S,
		 "tool_calls": [{"tool_call_id": S, "function_name": S, "arguments": {S: S}}, {"tool_call_id": "2", "function_name": S, "arguments": {"a": S, "b": 1}}],
		 "observation": {"results": [{"source_call_id": S, "content": S, "extra": {"is_error": true}, "subagent_trajectory_ref": [{"trajectory_id": S}]}, {"content": S}]},
		 "extra": {S: S}}],
		"subagent_trajectories": [{"trajectory_id": S, "steps": [{"step_id": 1, "source": "agent", "message": S}]}]}`, "S", q)
	logs := map[string]string{
		"trajectory.json": conversation, "command/stdout.txt": "\x1b[1;31m" + s + "\x1b[0m" + s, "command/stderr.txt": s, "setup/stdout.txt": s,
		"logs/verifier/stdout.txt": s, "error.txt": s,
		"judges/style/prompt.md": s, "judges/style/trajectory.json": conversation, "judges/inputs/changes.txt": s, "artifacts/x.txt": s,
	}
	in := Hostile(a)
	more := Make(s, []Spec{{Agent: s, Dataset: s, Task: s, Reward: new(0.0), Cost: 1, Seconds: 1, Error: result.ErrorType(s), Message: s, Logs: logs}})
	t := more.Trials[0].Unpack()
	verdict := json.RawMessage(`{"reason": ` + q + `, ` + q + `: 1}`)
	t.Agents = []result.AgentRun{{Name: s, Role: result.RoleJudge, Score: new(0.5), Reason: s, Verdict: verdict, Criteria: map[string]float64{s: 1}, Error: &result.Error{Type: result.ErrorType(s), Message: s}}, {Name: "style", Role: result.RoleJudge, Reason: s, Trajectory: "judges/style/trajectory.jsonl"}}
	t.Rewards, t.StopCondition, t.Warnings = map[string]float64{s: 1}, s, []string{s}
	t.Artifacts, t.Retries = []result.Artifact{{Source: s, Path: s, Files: 1}}, []result.Retry{{Operation: s, Attempt: 1, Message: s}}
	t.Usage = &result.Usage{Turns: 1, Requested: s, Answered: []string{s}}
	in.Plan, in.Job, in.Trials, in.Groups, in.Files = more.Plan, more.Job, result.PackAll([]result.Trial{*t}), more.Groups, more.Files
	return in
}
