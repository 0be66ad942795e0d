package action

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
)

// stepWith returns the Host of a step with inputs.
func stepWith(inputs map[string]string) *host.Host {
	env := map[string]string{}
	for name, value := range inputs {
		env["INPUT_"+strings.ToUpper(name)] = value
	}
	return &host.Host{Variables: host.Variables{
		Getenv: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		Environ: func() (all []string) {
			for _, name := range slices.Sorted(maps.Keys(env)) {
				all = append(all, name+"="+env[name])
			}
			return all
		},
	}}
}

func override(flag, path string, value any) config.Override {
	return config.Override{Path: path, Literal: value, Origin: "--" + flag}
}

func TestInputsBecomeRequests(t *testing.T) {
	for name, c := range map[string]struct {
		inputs map[string]string
		want   any
	}{
		"run is the default": {map[string]string{"job": "job.yaml"}, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}}},
		"a command that has no use for defaults of action.yml ignores them": {
			map[string]string{"command": "plan", "job": "j", "comment": "changes", "baseline": "github:", "allow-fork-checkout": "false"},
			stages.JobRequest{File: "j"}},
		"lists have a line for each entry": {
			map[string]string{"job": "j", "agent": "a\nb", "task": "\n a*\n\n  b c \n", "set": "x=1\ny=2=3", "reuse": "jobs/a\njobs/b", "metadata": "k=v"},
			stages.RunRequest{Reuse: []string{"jobs/a", "jobs/b"}, Job: stages.JobRequest{
				File: "j", Agents: []string{"a", "b"}, Overrides: []config.Override{override("task", "include_tasks", []string{"a*", "b c"})},
				Sets: []config.Override{
					{Path: "x", Value: "1", Origin: "--set x=1"}, {Path: "y", Value: "2=3", Origin: "--set y=2=3"},
				},
				Selection: config.Selection{Metadata: []string{"k=v"}},
			}}},
		"keys of the job, in the order of the documentation": {
			map[string]string{"job": "j", "n-attempts": "3", "n-concurrent": "2", "name": "--name", "jobs-dir": "d", "env-type": "sandbox", "n-tasks": "5", "sample-seed": "7"},
			stages.RunRequest{Job: stages.JobRequest{
				File: "j", Selection: config.Selection{NTasks: new(5), Seed: new(7)}, Overrides: []config.Override{
					override("n-attempts", "n_attempts", 3), override("n-concurrent", "n_concurrent_trials", 2), override("name", "name", "--name"),
					override("jobs-dir", "jobs_dir", "d"), override("env-type", "environment.type", "sandbox"),
				},
			}}},
		"whole numbers may begin with zeros, and are decimal": {
			map[string]string{"job": "j", "n-attempts": "010", "n-tasks": "08"},
			stages.RunRequest{Job: stages.JobRequest{File: "j", Overrides: []config.Override{override("n-attempts", "n_attempts", 10)}, Selection: config.Selection{NTasks: new(8)}}}},
		"variables of the job file may begin like GitHub's": {
			map[string]string{"job": "j", "env": "GITHUB_PERSONAL_ACCESS_TOKEN=x"}, stages.RunRequest{Job: stages.JobRequest{File: "j"}}},
		"thresholds of the gate": {
			map[string]string{"command": "report", "paths": "jobs/a", "max-failed-trials": "-1", "on-inconclusive": "fail"},
			reporting.ReportRequest{Dir: "jobs/a", Options: reporting.ReportOptions{Gate: []config.Override{
				{Path: "gate.max_failed_trials", Value: "-1", Origin: "--max-failed-trials"}, {Path: "gate.on_inconclusive", Value: "fail", Origin: "--on-inconclusive"},
			}}}},
		"merge takes directories": {
			map[string]string{"command": "merge", "paths": "a\nb", "output": "o", "comment": "always"},
			reporting.MergeRequest{Paths: []string{"a", "b"}, Output: "o", Report: reporting.ReportOptions{Comment: "always"}}},
		"a shard is not commented on, but knows the baseline, for gate.confirm": {
			map[string]string{"job": "j", "shard": "1/4", "comment": "changes", "baseline": "github:", "baseline-artifact": "a", "junit": "j.xml"},
			stages.RunRequest{Job: stages.JobRequest{File: "j"}, Shard: &result.Shard{Index: 1, Total: 4}, Report: reporting.ReportOptions{
				Baseline: "github:", Stored: reporting.StoredAt{Artifact: "a"}, Files: []reporting.ReportFile{{Format: "junit", Path: "j.xml"}},
			}}},
		"a baseline that runs with the job is the baseline": {
			map[string]string{"job": "j", "against": "main", "baseline": "github:", "comment": "always"},
			stages.RunRequest{Job: stages.JobRequest{File: "j"}, Against: "main", Report: reporting.ReportOptions{Comment: "always"}}},
		"an empty baseline is the default one": {
			map[string]string{"command": "merge", "paths": "a", "baseline": ""},
			reporting.MergeRequest{Paths: []string{"a"}, Report: reporting.ReportOptions{Baseline: "github:"}}},
		"a budget has values as in a job file": {
			map[string]string{"job": "j", "budget-cost-usd": "20", "budget-duration": "90m"},
			stages.RunRequest{Job: stages.JobRequest{File: "j", Overrides: []config.Override{
				{Path: "budget.max_cost_usd", Value: "20", Origin: "--budget-cost-usd"}, {Path: "budget.max_duration", Value: "90m", Origin: "--budget-duration"},
			}}}},
		"a plan is divided": {
			map[string]string{"command": "plan", "job": "j", "shards": "auto", "target": "20m", "timings": "t", "comment": "changes"},
			app.DivideRequest{Job: stages.JobRequest{File: "j"}, Shards: "auto", Target: 20 * time.Minute, Timings: "t", Comment: "changes"}},
		"a plan counts what the run is asked for": {
			map[string]string{"command": "plan", "job": "j", "shards": "2", "estimate": "true", "reuse": "baseline", "against": "main", "confirm-against": "old", "stop-early": "early", "confirm": "4"},
			app.DivideRequest{Job: stages.JobRequest{File: "j", Overrides: []config.Override{
				{Path: "gate.stop", Value: "early", Origin: "--stop-early"}, {Path: "gate.confirm.attempts", Value: "4", Origin: "--confirm"},
			}}, Shards: "2", Target: stages.DefaultTarget, Estimate: true, Reuse: []string{"baseline"}, Against: "main", ConfirmAgainst: "old"}},
		"a plan that is not divided comments on nothing": {
			map[string]string{"command": "plan", "job": "j", "comment": "changes"}, stages.JobRequest{File: "j"}},
		"a cancelled run withdraws what it has announced": {
			map[string]string{"command": "withdraw", "name": "n", "comment": "changes", "baseline": "github:"}, reporting.WithdrawRequest{Name: "n"}},
		"tasks are proven": {
			map[string]string{"command": "validate", "job": "evals", "changed": "main", "runs": "5", "junit": "j.xml", "shard": "1/2", "task-format": "harbor", "baseline": "github:", "comment": "changes"},
			proof.ProveRequest{
				Job: stages.JobRequest{File: "evals", TaskFormat: "harbor"}, Runs: 5, NopRuns: stages.DefaultNopRuns, Since: "main",
				Shard: &result.Shard{Index: 1, Total: 2}, Reports: proof.ProveReports{Files: []reporting.ReportFile{{Format: "junit", Path: "j.xml"}}},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := readInputs(stepWith(c.inputs))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.request(); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestWrongInputs(t *testing.T) {
	for _, c := range []struct {
		inputs map[string]string
		want   string
	}{
		{map[string]string{"job": "j", "report": "junit=a.xml\ntap=b"}, `the input report: there is no report "tap": want annotations, comment, html, json, junit, markdown`},
		{map[string]string{"job": "j", "report": "junit"}, "the input report: want NAME=FILE, as in junit=FILE"},
		{map[string]string{"command": "validate", "job": "evals", "report": "html=a"}, `the input report: there is no report "html": want annotations, json, junit, markdown`},
		{map[string]string{"command": "validate"}, "the input job is missing: validate needs a directory of tasks"},
		{map[string]string{"command": "validate", "job": "evals", "agent": "mine"}, "command: validate has no use for the input agent"},
		{nil, "the input job is missing: run needs a job file"},
		{map[string]string{"command": "merge"}, "the input paths is missing: merge needs directories"},
		{map[string]string{"command": "report", "paths": "a\nb"}, "command: report takes one directory in the input paths, got 2: a b"},
		{map[string]string{"command": "merge", "paths": "a", "job": "j"}, "command: merge has no use for the input job (it is for run, plan, validate; it has paths instead"},
		{map[string]string{"command": "plan", "job": "j", "shard": "1/4"}, "command: plan has no use for the input shard (it is for run, validate; each job of the matrix"},
		{map[string]string{"command": "plan", "job": "j", "comment": "always"}, "command: plan has no use for the input comment"},
		{map[string]string{"job": "j", "name": "a\nb"}, "the input name has several lines"},
		{map[string]string{"job": "j", "n-attempts": "many"}, `the input n-attempts is "many": want a whole number`},
		{map[string]string{"job": "j", "shard": "5/4"}, "--shard 5/4: want i/N"},
		{map[string]string{"job": "j", "set": "x"}, "--set x: want path=value"},
		{map[string]string{"command": "plan", "job": "j", "shards": "2", "target": "soon"}, `the input target is "soon": want a time, as in 20m`},
		{map[string]string{"command": "ruin", "job": "j"}, `the input command is "ruin": want run, plan, merge, report`},
		{map[string]string{"job": "j", "allow-fork-checkout": "yes"}, `the input allow-fork-checkout is "yes": want true or false`},
		{map[string]string{"job": "j", "env": "A_KEY=secret\nsecret"}, "line 2 of the input env is not of the form NAME=value"},
		{map[string]string{"job": "j", "env": "BODY=secret\nGITHUB_OUTPUT=/tmp/elsewhere"}, "the input env sets GITHUB_OUTPUT, which tells what GitHub knows about this run"},
		{map[string]string{"command": "plan", "job": "j", "env": "GITHUB_SHA=secret"}, "the input env sets GITHUB_SHA"},
		{map[string]string{"job": "j", "env": "GITHUB_TOKEN=secret"}, "the input env sets GITHUB_TOKEN: use the input github-token"},
		{map[string]string{"job": "j", "n-attempt": "3", "tasks": "x"}, `the Action has no such input: n-attempt (did you mean "n-attempts"?), tasks (did you mean "task"?)`},
	} {
		s, err := readInputs(stepWith(c.inputs))
		if err == nil {
			_, err = s.request()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v, want %s", c.inputs, err, c.want)
		}
	}
}

func TestInputsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, in := range Inputs() {
		if seen[in.Name] || len(in.Commands) == 0 {
			t.Errorf("%q is there twice, or for no command", in.Name)
		}
		seen[in.Name] = true
	}
	for _, k := range config.GateKeys() {
		if !seen[k.Flag()] {
			t.Errorf("gate.%s is no input", k.Key)
		}
	}
}

// The files of reports are among those that may not lead through a link, and that the runner's user
// owns afterwards.
func TestReportsAreTargets(t *testing.T) {
	s, err := readInputs(stepWith(map[string]string{"job": "j", "report": "junit=out/a.xml\nhtml = b", "markdown": "c.md"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.targets(); len(got) != 1 || got[0] != (target{"markdown", "c.md"}) {
		t.Errorf("with a line that is refused: %+v", got)
	}
	s.values["report"] = "junit=out/a.xml\nhtml=./b"
	if got, want := s.targets(), []target{{"report", "out/a.xml"}, {"report", "b"}, {"markdown", "c.md"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
