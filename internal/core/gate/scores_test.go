package gate

import (
	"fmt"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// judgedTrials adds a task with one trial for each score; a negative score is none. Their reward is
// 1.
func judgedTrials(j *result.Job, task, judge string, scores ...float64) {
	for n, score := range scores {
		o := result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: n + 1}, Reward: new(1.0), JudgeCost: result.Dollars(0.5)}
		o.Scores = map[string]result.OutcomeScore{"q": {Judge: judge}}
		if score >= 0 {
			o.Scores["q"] = result.OutcomeScore{Score: &score, Judge: judge}
		}
		j.Results.Append(o)
	}
}

func TestScores(t *testing.T) {
	const none = -1
	type side struct {
		judge  string
		scores []float64 // of each task
	}
	same := func(n int, score float64) []float64 {
		var out []float64
		for range n {
			out = append(out, score)
		}
		return out
	}
	for name, test := range map[string]struct {
		base, head side
		limits     ScoreLimits
		check      string
		outcome    Outcome
		skipped    bool
		message    string
	}{
		"high enough": {head: side{"x", []float64{0.5, 0.9}}, limits: ScoreLimits{Min: new(0.7)}, check: "scores.q.min", outcome: Pass, message: "mean score q 0.7 over 2 trials, at least 0.7 is asked for"},
		"too low":     {head: side{"x", []float64{0.5, 0.8}}, limits: ScoreLimits{Min: new(0.7)}, check: "scores.q.min", outcome: Fail, message: "mean score q 0.65 over 2 trials, at least 0.7 is asked for"},
		"null is not 0": {
			head: side{"x", []float64{0.8, none}}, limits: ScoreLimits{Min: new(0.7), MaxMissing: new(1)}, check: "scores.q.min", outcome: Pass,
			message: "mean score q 0.8 over 1 trial (no score in 1 of 2 trials, max_missing is 1), at least 0.7 is asked for",
		},
		"survivors alone": {
			head: side{"x", []float64{0.8, none, none, none, none, none}}, limits: ScoreLimits{Min: new(0.7)}, check: "scores.q.min", outcome: Fail,
			message: "mean score q 0.8 over 1 trial (no score in 5 of 6 trials, max_missing is 0), at least 0.7 is asked for",
		},
		"only null": {head: side{"x", []float64{none}}, limits: ScoreLimits{Min: new(0.7)}, check: "scores.q.min", outcome: Fail, message: "no trial has the score q, so there is nothing to check"},
		"a real drop": {
			base: side{"x", same(12, 0.8)}, head: side{"x", same(12, 0.5)}, limits: ScoreLimits{MaxDrop: new(0.1)}, check: "scores.q.max_drop", outcome: Fail,
			message: "mean score q fell from 0.8 to 0.5 (-0.3, 90% interval -0.3197 to -0.1946) on 12 tasks; chance alone does that in less than 0.1% of runs, and the limit is 0.1",
		},
		"chance": {
			base: side{"x", []float64{0.9, 0.5, 0.7, 0.6}}, head: side{"x", []float64{0.4, 0.6, 0.5, 0.7}}, limits: ScoreLimits{MaxDrop: new(0.05)}, check: "scores.q.max_drop", outcome: Inconclusive,
		},
		"within the limit": {
			base: side{"x", same(12, 0.8)}, head: side{"x", same(12, 0.75)}, limits: ScoreLimits{MaxDrop: new(0.1)}, check: "scores.q.max_drop", outcome: Pass,
		},
		"the judge changed": {
			base: side{"x", same(12, 0.8)}, head: side{"y", same(12, 0.1)}, limits: ScoreLimits{MaxDrop: new(0.1)}, check: "scores.q.max_drop", outcome: Pass, skipped: true,
			message: "not checked: the judge of the score q has changed since the baseline: its prompt, schema, agent or model",
		},
		"of judges that are not known": {
			base: side{"", same(12, 0.8)}, head: side{"", same(12, 0.1)}, limits: ScoreLimits{MaxDrop: new(0.1)}, check: "scores.q.max_drop", outcome: Pass, skipped: true,
		},
		"some have none": {
			base: side{"x", append(same(12, 0.8), none)}, head: side{"x", append(same(12, 0.8), 0.1)}, limits: ScoreLimits{MaxDrop: new(0.1)}, check: "scores.q.max_drop", outcome: Pass,
			message: "mean score q stayed at 0.8 (0, 90% interval 0 to 0) on 12 tasks (with 1 task without it on one side)",
		},
		"none have any": {
			base: side{"x", same(3, none)}, head: side{"x", same(3, 0.5)}, limits: ScoreLimits{MaxDrop: new(0.1)}, check: "scores.q.max_drop", outcome: Pass, skipped: true,
			message: "not checked: no task has the score q in this job and in the baseline",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var base, head result.Job
			for i, s := range test.base.scores {
				judgedTrials(&base, fmt.Sprint(i), test.base.judge, s)
			}
			for i, s := range test.head.scores {
				judgedTrials(&head, fmt.Sprint(i), test.head.judge, s)
			}
			p := Policy{Thresholds: Thresholds{Scores: map[string]ScoreLimits{"q": test.limits}}}
			c := find(t, verdict(p, base, head), test.check)
			if c.Outcome != test.outcome || c.Skipped != test.skipped || test.message != "" && c.Message != test.message {
				t.Errorf("%s, skipped %v: %q, want %s: %q", c.Outcome, c.Skipped, c.Message, test.outcome, test.message)
			}
		})
	}
}

func TestJudgeCosts(t *testing.T) {
	for name, test := range map[string]struct {
		limit   float64
		unknown bool
		outcome Outcome
		message string
	}{
		"allowed":      {1, false, Pass, "judges cost $1.00, at most $1.00 is allowed"},
		"too much":     {0.9, false, Fail, "judges cost $1.00, at most $0.90 is allowed"},
		"partly known": {1, true, Inconclusive, "judges cost $0.50 and their cost in 1 of 2 trials is not known, at most $1.00 is allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			var head result.Job
			judgedTrials(&head, "t", "x", 1, 1)
			if test.unknown {
				head.Results.Change(0, func(o *result.Outcome) { o.JudgeCost = result.USD{} })
			}
			c := find(t, verdict(Policy{Thresholds: Thresholds{MaxJudgeCostUSD: &test.limit}}, result.Job{}, head), "max_judge_cost_usd")
			if c.Outcome != test.outcome || c.Message != test.message {
				t.Errorf("%s: %q", c.Outcome, c.Message)
			}
		})
	}
}

// Trials that ended before their judge, and a judge's criteria without its verdict, are missing;
// trials that the condition (when) left out are not.
func TestMissingScores(t *testing.T) {
	var j result.Job
	judgedTrials(&j, "a", "x", 0.9, -1)
	j.Results.Change(1, func(o *result.Outcome) { o.Scores["q"] = result.OutcomeScore{Skipped: true} })
	judgedTrials(&j, "b", "x", 0.9, -1)
	j.Results.Change(2, func(o *result.Outcome) { o.Scores["q.tone"] = result.OutcomeScore{Score: new(0.9)} })
	j.Results.Append(result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: "c", Attempt: 1}, Error: result.AgentExecutionFailed})
	for score, want := range map[string]string{
		"q":      "mean score q 0.9 over 2 trials (no score in 2 of 4 trials, max_missing is 0, 1 trial not to be judged), at least 0.7 is asked for",
		"q.tone": "mean score q.tone 0.9 over 1 trial (no score in 3 of 4 trials, max_missing is 0, 1 trial not to be judged), at least 0.7 is asked for",
	} {
		p := Policy{Thresholds: Thresholds{Scores: map[string]ScoreLimits{score: {Min: new(0.7)}}}}
		if c := find(t, verdict(p, result.Job{}, j), "scores."+score+".min"); c.Outcome != Fail || c.Message != want {
			t.Errorf("%s: %q, want %q", c.Outcome, c.Message, want)
		}
	}
	// A judge that judges only some tasks is not missing in the others.
	judgedTrials(&j, "e", "x", 0.8)
	j.Results.Change(j.Results.Len()-1, func(o *result.Outcome) { o.Scores = map[string]result.OutcomeScore{"other": {Score: new(1.0)}} })
	p := Policy{Thresholds: Thresholds{Scores: map[string]ScoreLimits{"q": {Min: new(0.7), MaxMissing: new(1)}}}}
	if c := find(t, verdict(p, result.Job{}, j), "scores.q.min"); c.Outcome != Pass {
		t.Errorf("%s: %q", c.Outcome, c.Message)
	}
}
