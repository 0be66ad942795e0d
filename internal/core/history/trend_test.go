package history

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

func run(passed, attempts int) Point {
	return Point{Agents: []Agent{{Name: "a", Passed: passed, Attempts: attempts, PassRate: float64(passed) / float64(attempts), Tasks: []Task{
		{Dataset: "d", Name: "x", Passed: passed, Attempts: attempts}, {Dataset: "d", Name: "y", Passed: passed, Attempts: attempts}}}}}
}

func TestBlocksAndLine(t *testing.T) {
	points := []Point{run(0, 4), run(0, 4), run(2, 4), run(4, 4)}
	if got := Blocks(points, "a", 3); got != "▁▅█" {
		t.Errorf("got %s", got)
	}
	if got := Line(points, "main", "a", 3); !strings.HasPrefix(got, "main's last 3: 50 % ± ") {
		t.Errorf("got %s", got)
	}
	if got := Line(points, "main", "other", 3) + Blocks(points, "other", 3); got != "" {
		t.Errorf("got %s of an agent without points", got)
	}
}

func TestChangeOf(t *testing.T) {
	before := Agent{Models: []string{"m"}, Judges: []string{"j=1"}, Tasks: []Task{{Name: "x", Digest: "1"}}}
	for want, after := range map[Changed]Agent{
		{}:             {Tasks: []Task{{Name: "x"}}},
		{Model: true}:  {Models: []string{"n"}, Tasks: before.Tasks},
		{Judges: true}: {Judges: []string{"j=2"}, Tasks: before.Tasks},
		{Tasks: true}:  {Tasks: []Task{{Name: "x", Digest: "2"}}},
	} {
		if got := ChangeOf(before, after); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// Runs of a part of the tasks are marked, and are compared with no other run: they are in no level
// and no block, and are no reason to begin the level anew.
func TestRunsOfAPartOfTheTasks(t *testing.T) {
	part := PointOf(result.Job{
		NotAffected: &result.NotAffected{Trials: 1, Tasks: []result.LeftOut{{Agent: "a", Dataset: "d", Task: "x"}, {Agent: "other", Dataset: "d", Task: "x"}}},
		Results:     result.OutcomesOf([]result.Outcome{{Key: result.Key{Agent: "a", Dataset: "d", Task: "y", Attempt: 1}, Reward: new(0.0)}}...),
	}, "", "")
	if got := part.Agents[0]; got.LeftOut != 1 || !got.Part() {
		t.Fatalf("got %+v", got)
	}
	whole := []Point{run(4, 4), run(2, 4), run(4, 4), run(2, 4)}
	points := []Point{part, whole[0], part, whole[1], whole[2], part, whole[3], part}
	if got := Blocks(points, "a", 20); got != Blocks(whole, "a", 20) {
		t.Errorf("the blocks are %s", got)
	}
	want := strings.Replace(Line(whole, "main", "a", 3), "last 3:", "last 3 whole runs:", 1)
	if got := Line(points, "main", "a", 3); got != want || !strings.Contains(got, "67 %") {
		t.Errorf("the level is %s, want %s", got, want)
	}
	if got := Line([]Point{part, part}, "main", "a", 3); got != "" {
		t.Errorf("without a whole run the level is %s", got)
	}
	runs := Runs(points, "a")
	for i, r := range runs {
		if want := (Changed{Part: points[i].Agents[0].Part()}); r.Changed != want {
			t.Errorf("run %d: %+v, want %+v", i, r.Changed, want)
		}
	}
	if got := len(Whole(runs)); got != 4 {
		t.Errorf("%d whole runs", got)
	}
	if got := PartsNote(points, "a"); !strings.HasPrefix(got, "4 runs had only a part of the tasks") || PartsNote(whole, "a") != "" {
		t.Errorf("the note is %q", got)
	}
	points[4].Agents[0].Models, points[5].Agents[0].Models, points[6].Agents[0].Models = []string{"old"}, []string{"new"}, []string{"new"}
	if runs := Runs(points, "a"); runs[5].Changed != (Changed{Model: true, Part: true}) || runs[6].Changed != (Changed{Model: true}) {
		t.Errorf("another model answered: %+v, %+v", runs[5].Changed, runs[6].Changed)
	}
}

// A job with --task is a part of those without; where every run has the same flags, none is.
func TestRunsOfSelectedTasks(t *testing.T) {
	job := func(day int, byFlags bool, rewards map[string]float64) Point {
		j := result.Job{StartedAt: at(day)}
		for _, task := range []string{"x", "y"} {
			if reward, ok := rewards[task]; ok {
				j.Results.Append(result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: 1}, Reward: &reward})
				continue
			}
			if j.NotSelected == nil {
				j.NotSelected = &result.NotSelected{ByFlags: byFlags}
			}
			j.NotSelected.Tasks = append(j.NotSelected.Tasks, result.TaskName{Dataset: "d", Task: task})
		}
		return PointOf(j, "", "")
	}
	both := map[string]float64{"x": 1, "y": 1}
	one := map[string]float64{"x": 0}
	points := []Point{job(1, true, one), job(2, false, both), job(3, true, one), job(4, false, both)}
	var changes []string
	for _, r := range Runs(points, "a") {
		changes = append(changes, r.Changed.String())
	}
	if want := []string{"part of the tasks", "", "part of the tasks", ""}; !slices.Equal(changes, want) {
		t.Errorf("the changes are %q, want %q", changes, want)
	}
	if got := Line(points, "main", "a", 20); !strings.HasPrefix(got, "main's last 2 whole runs: 100 %") {
		t.Errorf("the level is %q", got)
	}
	if got := Blocks(points, "a", 20); got != "██" {
		t.Errorf("the blocks are %s", got)
	}
	if !IsPart(points[:2], points[2], "a") || IsPart(points[:3], points[3], "a") || IsPart(points, points[2], "other") {
		t.Error("the third run has a part of the tasks, and the fourth has all")
	}
	if points[0].Agents[0].unselected != 0 {
		t.Error("the points were changed")
	}
	same := []Point{job(1, true, one), job(2, true, one)}
	if got := Line(same, "main", "a", 20); !strings.HasPrefix(got, "main's last 2: 0 %") || PartsNote(same, "a") != "" {
		t.Errorf("with the same flags in each run the level is %q", got)
	}
	file := []Point{job(1, false, both), job(2, false, one)}
	if runs := Runs(file, "a"); runs[1].Changed != (Changed{Tasks: true}) {
		t.Errorf("the job file selects other tasks: %+v", runs[1].Changed)
	}
}

func TestPointOf(t *testing.T) {
	outcome := func(attempt int, reward, cost float64) result.Outcome {
		return result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: "x", Attempt: attempt}, Reward: &reward, Cost: result.Dollars(cost), DurationSec: 10, TaskDigest: "sha256:1",
			Usage: &result.OutcomeUsage{Model: "m", Answered: []string{"m-2", "m-1"}[:attempt]}}
	}
	p := PointOf(result.Job{JobName: "j", StartedAt: at(1), Results: result.OutcomesOf(outcome(1, 1, 2), outcome(2, 0, 4))}, "main", "pass")
	a := p.Agents[0]
	if a.Passed != 1 || a.Attempts != 2 || a.PassRate != 0.5 || a.Interval == nil || a.Cost != (Mean{Mean: 3, N: 2}) || a.DurationSec != (Mean{Mean: 10, N: 2}) || a.InputTokens.N != 0 || a.Tasks[0] != (Task{"d", "x", "sha256:1", 1, 2, 0}) {
		t.Errorf("got %+v", a)
	}
	if got := strings.Join(a.Models, " "); got != "m-1 m-2" {
		t.Errorf("the models are %s", got)
	}
}

func TestTheLevelBeginsAtTheLastChange(t *testing.T) {
	points := []Point{run(0, 4), run(0, 4), run(4, 4), run(4, 4)}
	for i := range points {
		points[i].Agents[0].Models = []string{[]string{"old", "old", "new", "new"}[i]}
	}
	if got := Line(points, "main", "a", 20); !strings.HasPrefix(got, "main's last 2: 100 % (") {
		t.Errorf("got %s", got)
	}
}

// A mean has an interval if the trials are of several tasks that differ. A lower bound has none,
// nor have the lines of earlier versions.
func TestMeansHaveIntervals(t *testing.T) {
	var outcomes []result.Outcome
	for i, task := range []string{"x", "y", "z"} {
		for attempt := 1; attempt <= 2; attempt++ {
			outcomes = append(outcomes, result.Outcome{
				Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: attempt}, Reward: new(0.2 + 0.3*float64(i)), Cost: result.Dollars(1 + float64(i)), DurationSec: 10,
				Usage: &result.OutcomeUsage{InputTokens: new(int64(100 * (i + 1))), OutputTokens: new(int64(10))},
			})
		}
	}
	a := PointOf(result.Job{Results: result.OutcomesOf(outcomes...)}, "", "").Agents[0]
	if i := a.Cost.Interval; i == nil || i.Low != 0 || math.Abs(i.High-4.4841) > 1e-3 {
		t.Errorf("the interval of the cost is %+v, want 0 to 4.48", i)
	}
	if i := a.RewardInterval; i == nil || i.Low != 0 || i.High != 1 {
		t.Errorf("the interval of the reward is %+v, want 0 to 1", i)
	}
	if a.DurationSec.Interval != nil {
		t.Errorf("trials that took as long each have the interval %+v", a.DurationSec.Interval)
	}
	if a.Tokens.Mean != 210 || a.Tokens.N != 6 || a.Tokens.Interval == nil {
		t.Errorf("the tokens are %+v", a.Tokens)
	}
	outcomes[0].CostAtLeast = true
	if a := PointOf(result.Job{Results: result.OutcomesOf(outcomes...)}, "", "").Agents[0]; !a.CostAtLeast || a.Cost.Interval != nil {
		t.Errorf("the lower bound %+v has an interval", a.Cost)
	}
	for i := range outcomes {
		outcomes[i].Reward = new(float64(i % 2))
	}
	if a := PointOf(result.Job{Results: result.OutcomesOf(outcomes...)}, "", "").Agents[0]; a.RewardInterval == nil || *a.RewardInterval != *a.Interval {
		t.Errorf("of passes and failures the interval is %+v, that of the pass rate %+v", a.RewardInterval, a.Interval)
	}
	old, err := parse([]byte(`{"history_format":1,"agents":[{"name":"a","cost":{"mean":1,"n":2}}]}`))
	if err != nil || old.Agents[0].Cost.Interval != nil || old.Agents[0].Tokens.N != 0 {
		t.Errorf("an earlier line is %+v, %v", old, err)
	}
}
