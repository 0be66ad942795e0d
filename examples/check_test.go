package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The result files according to the specification. They are defined again here, instead of
// importing internal/core/result, so that a renamed field is noticed.
type (
	jobResult struct {
		JobName          string             `json:"job_name"`
		Cancelled        *bool              `json:"cancelled"`
		TotalDurationSec float64            `json:"total_duration_sec"`
		StartedAt        time.Time          `json:"started_at"`
		EndedAt          time.Time          `json:"ended_at"`
		Agents           map[string]summary `json:"agents"`
		Results          []outcome          `json:"results"`
		Skipped          []outcome          `json:"skipped"`
		summary
	}
	summary struct {
		TotalTrials     *int            `json:"total_trials"`
		CompletedTrials *int            `json:"completed_trials"`
		FailedTrials    *int            `json:"failed_trials"`
		SkippedTrials   *int            `json:"skipped_trials"`
		PassRate        *float64        `json:"pass_rate"`
		MeanReward      *float64        `json:"mean_reward"`
		PassRateAll     *float64        `json:"pass_rate_all"`
		MeanRewardAll   *float64        `json:"mean_reward_all"`
		TotalCost       json.RawMessage `json:"total_cost"`
	}
	outcome struct {
		Task    string   `json:"task_name"`
		Dataset string   `json:"dataset_name"`
		Agent   string   `json:"agent_name"`
		Attempt int      `json:"attempt"`
		Reward  *float64 `json:"reward"`
	}
	trialResult struct {
		outcome
		Error       json.RawMessage       `json:"error"`
		Cost        json.RawMessage       `json:"cost"`
		TestsReward *float64              `json:"tests_reward"` // with judges
		Scores      map[string]*float64   `json:"scores"`
		Durations   map[string]*float64   `json:"durations"`
		Timestamps  map[string]*time.Time `json:"timestamps"`
	}
)

// outcomes returns the expected trials, in the order of a job's results.
func (e expected) outcomes() []outcome {
	var all []outcome
	for _, agent := range sortedKeys(e.Rewards) {
		for _, task := range sortedKeys(e.Rewards[agent]) {
			for attempt := range e.Attempts {
				all = append(all, outcome{task, e.Dataset, agent, attempt + 1, new(e.Rewards[agent][task])})
			}
		}
	}
	return all
}

// summarise returns the job's expected numbers for these outcomes.
func (e expected) summarise(outcomes []outcome) summary {
	var passed, total int
	var sum, dollars float64
	cost := "null"
	for _, o := range outcomes {
		for _, costs := range []map[string]float64{e.Costs, e.Judging} {
			if one, ok := costs[o.Agent]; ok {
				dollars += one
				cost = fmt.Sprint(dollars)
			}
		}
		total++
		sum += *o.Reward
		if *o.Reward == 1 {
			passed++
		}
	}
	rate, mean := float64(passed)/float64(total), sum/float64(total)
	return summary{
		TotalTrials: &total, CompletedTrials: &total, FailedTrials: new(0), SkippedTrials: new(0),
		PassRate: &rate, MeanReward: &mean, PassRateAll: &rate, MeanRewardAll: &mean, TotalCost: json.RawMessage(cost),
	}
}

// checkNumbers compares every number of the job's result.json.
func checkNumbers(t *testing.T, dir string, want expected) {
	t.Helper()
	var got jobResult
	readJSON(t, filepath.Join(dir, "result.json"), &got)
	outcomes := want.outcomes()
	same(t, "job_name", got.JobName, filepath.Base(dir))
	same(t, "cancelled", got.Cancelled, new(false))
	same(t, "the job's numbers", got.summary, want.summarise(outcomes))
	same(t, "agents", sortedKeys(got.Agents), sortedKeys(want.Rewards))
	for agent, numbers := range got.Agents {
		own := slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return o.Agent != agent })
		same(t, "the numbers of "+agent, numbers, want.summarise(own))
	}
	same(t, "results", got.Results, outcomes)
	same(t, "skipped", got.Skipped, []outcome{})
	if got.TotalDurationSec <= 0 || got.StartedAt.IsZero() || !got.EndedAt.After(got.StartedAt) {
		t.Errorf("it took %v seconds from %s to %s", got.TotalDurationSec, got.StartedAt, got.EndedAt)
	}
}

// checkTree checks every file of the job's directory.
func checkTree(t *testing.T, dir string, want expected) {
	t.Helper()
	agents := sortedKeys(want.Rewards)
	same(t, "the job's directory", names(t, dir), sorted(append([]string{
		"config.json", "events.jsonl", "metadata.json", "outputs.jsonl", "plan.json", "result.json", "verdict.json",
	}, agents...)))
	for _, agent := range agents {
		same(t, agent+"/", names(t, filepath.Join(dir, agent)), []string{want.Dataset})
		var trials []string
		for _, o := range want.outcomes() {
			if o.Agent == agent {
				trials = append(trials, fmt.Sprintf("%s__%d", o.Task, o.Attempt))
			}
		}
		same(t, agent+"/"+want.Dataset+"/", names(t, filepath.Join(dir, agent, want.Dataset)), sorted(trials))
	}
	for _, o := range want.outcomes() {
		t.Run(fmt.Sprintf("%s %s %d", o.Agent, o.Task, o.Attempt), func(t *testing.T) {
			checkTrial(t, filepath.Join(dir, o.Agent, o.Dataset, fmt.Sprintf("%s__%d", o.Task, o.Attempt)), o, want)
		})
	}
	checkEvents(t, filepath.Join(dir, "events.jsonl"))
}

// checkTrial checks a trial's directory. Only agents with scripts write logs; those with a model
// leave a trajectory.
func checkTrial(t *testing.T, dir string, want outcome, all expected) {
	t.Helper()
	phases := []string{"environment_setup", "agent_execution", "verifier"}
	directories := []string{"command", "logs", "result.json"}
	dollars, hasModel := all.Costs[want.Agent]
	scripted, cost := want.Agent != "oracle" && !hasModel, "null"
	if hasModel {
		directories = append(directories, "trajectory.json", "trajectory.jsonl")
		cost = fmt.Sprint(dollars)
	}
	if len(all.Judges) > 0 {
		directories = append(directories, "artifact-entries", "artifacts", "judges")
		cost = fmt.Sprint(dollars + all.Judging[want.Agent])
		judges := all.Judges
		for judge := range all.Ranks {
			if want.Agent == sortedKeys(all.Rewards)[0] && *want.Reward > 0 {
				judges = append(slices.Clip(judges), judge, judge+".order-2")
			}
		}
		same(t, "judges/", names(t, filepath.Join(dir, "judges")), sorted(append([]string{"inputs", "trial.json"}, judges...)))
		for _, judge := range judges {
			files := []string{"command", "judged.json", "prompt.md", "trajectory.json", "trajectory.jsonl", "verdict.json"}
			if all.Ranks[judge] != nil {
				files = append(files, "group.json")
			}
			same(t, "judges/"+judge, names(t, filepath.Join(dir, "judges", judge)), sorted(files))
		}
	}
	if slices.Contains(all.Installs, want.Agent) {
		phases = slices.Insert(phases, 1, "agent_setup")
		directories = append(directories, "setup")
		same(t, "setup/", names(t, filepath.Join(dir, "setup")), []string{"stderr.txt", "stdout.txt"})
	}
	same(t, "the trial's directory", names(t, dir), sorted(directories))
	same(t, "command/", names(t, filepath.Join(dir, "command")), []string{"stderr.txt", "stdout.txt"})
	same(t, "logs/", names(t, filepath.Join(dir, "logs")), []string{"agent", "verifier"})
	same(t, "logs/verifier/", names(t, filepath.Join(dir, "logs", "verifier")), []string{"reward.txt", "stderr.txt", "stdout.txt"})
	if logs := names(t, filepath.Join(dir, "logs", "agent")); scripted != (len(logs) > 0) {
		t.Errorf("logs/agent/ holds %q", logs)
	}
	if text := read(t, filepath.Join(dir, "logs", "verifier", "stdout.txt")); !strings.Contains(text, " of ") {
		t.Errorf("the verifier printed %q, and no count of checks", text)
	}
	reward, err := strconv.ParseFloat(strings.TrimSpace(read(t, filepath.Join(dir, "logs", "verifier", "reward.txt"))), 64)
	var got trialResult
	readJSON(t, filepath.Join(dir, "result.json"), &got)
	tests := want.Reward
	if len(all.Judges) > 0 {
		tests = got.TestsReward
	}
	if err != nil || tests == nil || reward != *tests {
		t.Errorf("reward.txt says %v (%v), want %v", reward, err, tests)
	}
	for judge, scores := range all.Ranks {
		if score := got.Scores[judge]; score == nil || *score != scores[want.Agent] {
			t.Errorf("the score %s is %v, want %v", judge, score, scores[want.Agent])
		}
	}
	same(t, "result.json", got.outcome, want)
	same(t, "error", string(got.Error), "null")
	same(t, "cost", string(got.Cost), cost)
	for _, phase := range []string{"environment_setup", "agent_setup", "agent_execution", "verifier"} {
		began, ended, seconds := got.Timestamps[phase+"_started_at"], got.Timestamps[phase+"_ended_at"], got.Durations[phase+"_sec"]
		ran := began != nil && ended != nil && seconds != nil && !ended.Before(*began)
		if ran != slices.Contains(phases, phase) {
			t.Errorf("the phase %s: began %v, ended %v", phase, began, ended)
		}
	}
}

// checkEvents checks that every line is a JSON object.
func checkEvents(t *testing.T, path string) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace([]byte(read(t, path))), []byte("\n"))
	for _, line := range lines {
		var event map[string]any
		if err := json.Unmarshal(line, &event); err != nil {
			t.Errorf("events.jsonl: %v: %s", err, line)
		}
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// names returns the names in a directory, sorted.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
