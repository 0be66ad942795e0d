package stages

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/model/replay"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// LoadAgentFiles reads the files of the job's agents. It returns all problems at once, at most one
// per agent.
func (l *Loaded) LoadAgentFiles(ctx context.Context) error {
	l.Files = map[string]*agentfiles.Set{}
	var problems diag.List
	work := event.Begin(ctx, "Reading agents' files", 0)
	defer work.End()
	for _, a := range l.Job.AllAgents() {
		if len(a.Files) == 0 {
			continue
		}
		entries := make([]agentfiles.Entry, len(a.Files))
		for i, f := range a.Files {
			entries[i] = agentfiles.Entry{File: f, Path: l.AgentFiles[a.Name][i]}
		}
		set, failed, err := agentfiles.Load(ctx, entries)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var problem *agentfiles.Problem
		switch {
		case errors.As(err, &problem):
			at := l.AgentFilesAt[a.Name][failed]
			if problem.Missing != "" {
				problem.Hint = l.Elsewhere(problem.Missing)
			}
			message := fmt.Sprintf("files of agent %q: %s", a.Name, problem.Message)
			problems = append(problems, diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column, Message: host.Clean(message), Hint: host.Clean(problem.Hint)})
		case err != nil:
			return fmt.Errorf("read the files of agent %q: %w", a.Name, err)
		default:
			l.Files[a.Name] = set
			if len(set.Pointers) > 0 {
				message, hint := task.PointersWarning(set.Pointers)
				host.Warnf(l.Host.Output, "files of agent %q %s (%s)", host.Clean(a.Name), host.Clean(message), hint)
			}
		}
	}
	return problems.Err()
}

// OpenAgentFiles copies the agents' files, so that all trials get the same ones.
func (p *Planned) OpenAgentFiles(ctx context.Context) error {
	if len(p.Files) == 0 {
		return nil
	}
	store, err := host.OpenCache(p.Host.Variables)
	if wrong := (*host.UsageError)(nil); errors.As(err, &wrong) {
		return err
	}
	if err != nil {
		store = nil // there is no place for one
	}
	for _, a := range p.Job.AllAgents() {
		if err := p.Files[a.Name].Open(ctx, store); err != nil {
			return fmt.Errorf("copy the files of agent %q: %w", a.Name, err)
		}
	}
	return nil
}

// Inputs returns the inputs of the trials' digests other than the job file.
func (l *Loaded) Inputs() experiment.Inputs {
	in := experiment.Inputs{Visible: l.Visible, Passed: l.VisiblePassed, Files: map[string]string{}, Scripts: l.Scripts}
	for name, set := range l.Files {
		in.Files[name] = set.Digest
	}
	in.Recordings = l.recordings()
	return in
}

// recordings returns the digests of the directories from which replaying models answer. It reads
// them once. An unreadable directory has no digest: the job does not start with one.
func (l *Loaded) recordings() map[string]string {
	if l.recorded == nil {
		l.recorded = map[string]string{}
		for name := range l.Models {
			if l.Job.Models[name].Replay == "" {
				continue
			}
			if digest, err := replay.Digest(l.RecordDirs[name]); err == nil {
				l.recorded[name] = digest
			}
		}
	}
	return l.recorded
}
