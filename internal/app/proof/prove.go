// Package proof checks tasks and job files: it validates them without running an agent, and proves
// tasks with their solutions.
package proof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/internal/run/trial"
)

// ProveRequest is the request of Prove.
type ProveRequest struct {
	Job           stages.JobRequest
	Runs, NopRuns int           // how often each solution, and how often nothing, is run; at least 1
	Offline       bool          // run each solution once more without a network
	Since         string        // only tasks with files that changed since this commit, branch or tag; "": all
	Shard         *result.Shard // only this part of the tasks; nil: all
	Reports       ProveReports
}

// ProveReports are the destinations of Prove's report.
type ProveReports struct {
	Files         []reporting.ReportFile
	GitHub        string // as in ReportOptions
	NoAnnotations bool   // the caller prints the annotations
}

// Prove runs oracle and nop on every task of a dataset or a job, and reports which tasks are
// proven. With an error, it returns the partial report, without an outcome, or nil.
func Prove(ctx context.Context, h *host.Host, req ProveRequest) (*prove.Report, error) {
	if req.Runs < 1 || req.NopRuns < 1 {
		return nil, host.Usagef("--runs and --nop-runs want at least 1")
	}
	if err := (reporting.ReportOptions{GitHub: req.Reports.GitHub}).Check(); err != nil {
		return nil, err
	}
	p, notes, err := planProof(ctx, h, req)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	h.Output.Warnings(p.Warnings)
	dir := ""
	if len(p.Specs) > 0 {
		if dir, err = runProof(ctx, p); dir == "" {
			return nil, err
		}
	}
	report, reportErr := finishProof(ctx, p, dir, req, notes)
	return report, errors.Join(err, reportErr)
}

// planProof plans the job that proves the target's tasks: oracle and nop on each that can be run.
// The notes are for the user.
func planProof(ctx context.Context, h *host.Host, req ProveRequest) (_ *stages.Planned, notes []string, err error) {
	proof := req.Job
	proof.Agents = []string{agent.Oracle, agent.Nop}
	proof.Overrides = append(slices.Clip(proof.Overrides),
		config.Override{Path: "n_attempts", Literal: max(req.Runs, req.NopRuns), Origin: "--runs"})
	if !slices.ContainsFunc(proof.Overrides, func(o config.Override) bool { return o.Path == "name" }) {
		name := "validate-" + h.Now().Format("2006-01-02__15-04-05")
		proof.Overrides = append(proof.Overrides, config.Override{Path: "name", Literal: name, Origin: "--name"})
	}
	l, err := stages.LoadTarget(ctx, h, proof.WithoutJudges(), stages.OracleAndNop()...)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if _, err := l.Plan(); err != nil { // names are checked before tasks are left out
		return nil, nil, err
	}
	if notes, err = selectTasks(ctx, l, req); err != nil {
		return nil, nil, err
	}
	l.Job.Verifier.Disable = false // whatever the purpose of the job file
	l.Job.Gate = gate.Policy{Confidence: gate.DefaultConfidence, Noise: gate.NoiseTest, OnInconclusive: gate.Pass}
	p, err := l.Plan()
	if err != nil {
		return nil, nil, err
	}
	p.Purpose = stages.Purpose{Proves: true}
	p.Specs = slices.DeleteFunc(p.Specs, func(s trial.Spec) bool { return !req.wants(s) })
	if req.Offline {
		p.Specs = append(p.Specs, offline(p.Specs)...)
	}
	return p, notes, nil
}

// offlineAgent is the agent name under which offline runs of oracle are stored.
const offlineAgent = "oracle-offline"

// offline returns the first run of each solution once more, without a network.
func offline(specs []trial.Spec) []trial.Spec {
	var out []trial.Spec
	for _, s := range specs {
		if s.Key.Agent == agent.Oracle && s.Key.Attempt == 1 {
			s.Key.Agent, s.Offline = offlineAgent, true
			out = append(out, s)
		}
	}
	return out
}

// wants reports whether a trial is part of the proof.
func (r ProveRequest) wants(s trial.Spec) bool {
	switch {
	case s.Task.Missing || s.Task.Err() != nil:
		return false
	case s.Key.Agent == agent.Oracle:
		return s.Key.Attempt <= r.Runs && s.Task.HasSolution()
	}
	return s.Key.Attempt <= r.NopRuns
}

// runProof runs the trials in a job's directory, which it returns once it exists.
func runProof(ctx context.Context, p *stages.Planned) (dir string, err error) {
	provider, err := p.Connect(ctx, "")
	if err != nil {
		return "", err
	}
	defer provider.Close()
	o, err := p.Open(ctx, provider, nil)
	if err != nil {
		return "", err
	}
	err = o.Execute(ctx)
	o.Close(ctx)
	return p.Dir(), err
}

// finishProof checks the results of the runs and writes the reports; dir is "" if there were no
// runs. Once ctx has ended, it checks no further files of tasks.
func finishProof(ctx context.Context, p *stages.Planned, dir string, req ProveRequest, notes []string) (*prove.Report, error) {
	var tree result.Tree
	if dir != "" {
		var err error
		if tree, err = reporting.ReadTree(p.Host.Paths, p.Host.Output, dir); err != nil {
			return nil, err
		}
	}
	cancelled := result.Summarize(tree.Plan, tree.Trials).Cancelled
	reports, unchecked := taskReports(ctx, p, tree, req, cancelled)
	if unchecked > 0 {
		notes = append(notes, fmt.Sprintf("cancelled, so the files of %s were not checked", plural.Count(unchecked, "task")))
	}
	report := prove.Report{
		Tasks: reports, Dir: dir, Notes: notes, StartedAt: tree.Plan.StartedAt,
		Cancelled: unchecked > 0 || cancelled,
	}
	if dir != "" {
		report.Files = os.DirFS(p.Host.Path(dir))
	}
	w, notes := reporting.OpenWorkflow(p.Host, req.Reports.GitHub)
	report.Notes = append(report.Notes, notes...)
	err := deliverProof(p.Host, w, &report, req.Reports)
	return &report, err
}

// taskReports checks every task, in the job's order. For tasks reached after ctx has ended, it
// checks the runs but not the files; unchecked counts these.
func taskReports(ctx context.Context, p *stages.Planned, tree result.Tree, req ProveRequest, cancelled bool) (out []prove.TaskReport, unchecked int) {
	type name struct{ dataset, task string }
	byTask := map[name][]result.Trial{}
	slices.SortFunc(tree.Trials, func(a, b result.Trial) int { return a.Key.Compare(b.Key) })
	for _, t := range tree.Trials {
		n := name{t.Dataset, t.Task}
		byTask[n] = append(byTask[n], t)
	}
	for _, set := range p.Sets {
		out = slices.Grow(out, len(set.Tasks))
		for _, t := range set.Tasks {
			runs := req.runsOf(byTask[name{set.Name, t.Name}])
			runs.Interrupted = cancelled
			out = append(out, prove.TaskReport{Dataset: set.Name, Task: t.Name, Dir: p.Host.ShownTask(t, ""), Path: t.RepoPath, Fetched: t.Origin != nil, Runs: runs})
		}
	}
	checked := make([]bool, len(out))
	_ = stages.EachTask(ctx, "Checking tasks", p.Tasks(), func(i int, t *task.Task) { // the rest is unchecked
		out[i].Verdict, out[i].Findings = prove.Check(t, out[i].Runs)
		checked[i] = true
	})
	for i, t := range p.Tasks() {
		if !checked[i] {
			out[i].Verdict, out[i].Findings = prove.CheckRuns(t, out[i].Runs)
			unchecked++
		}
	}
	return out, unchecked
}

// runsOf sorts a task's trials by agent.
func (r ProveRequest) runsOf(trials []result.Trial) prove.Runs {
	runs := prove.Runs{OracleWanted: r.Runs, NopWanted: r.NopRuns}
	for _, t := range trials {
		switch t.Agent {
		case agent.Oracle:
			runs.Oracle = append(runs.Oracle, t)
		case offlineAgent:
			runs.Offline = append(runs.Offline, t)
		case agent.Nop:
			runs.Nop = append(runs.Nop, t)
		}
	}
	return runs
}
