package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/forge/github/step"
	"github.com/org/rollout-action/internal/lib/ghvars"
)

// Step is a workflow step that runs the Action. Close it after its request was carried out.
type Step struct {
	// Request is the request that the inputs describe: a stages.RunRequest, stages.JobRequest (of
	// PlanJob), app.DivideRequest, reporting.MergeRequest, reporting.ReportRequest,
	// proof.ProveRequest or reporting.WithdrawRequest.
	Request any
	// Host is the host for the request: with the variables and the token of the inputs, and the
	// fork rule.
	Host *host.Host

	outer   *host.Host
	inputs  inputs
	guard   *guard   // nil: everything may be executed
	written []string // output paths in the workspace
}

func usage(format string, args ...any) error {
	return &host.UsageError{Err: fmt.Errorf(format, args...)}
}

// Open reads the inputs of a step and checks whether the step is allowed to carry them out.
func Open(ctx context.Context, h *host.Host) (_ *Step, err error) {
	in, err := readInputs(h)
	if err != nil {
		return nil, err
	}
	mask(h, append(slices.Sorted(maps.Values(in.env)), in.value("github-token")))
	s := &Step{outer: h, inputs: in, written: in.written()}
	facts := sync.OnceValue(func() github.Environment { return github.ReadStep(h.Getenv) })
	if in.executes() && in.value("allow-fork-checkout") != "true" {
		if s.guard, err = newGuard(ctx, h, in, facts()); err != nil {
			return nil, err
		}
	}
	if s.Request, err = in.request(); err != nil {
		return nil, errors.Join(err, s.guard.Close())
	}
	for _, target := range in.targets() {
		if err := checkTarget(h, "the input "+target.name, h.Path(target.path)); err != nil {
			return nil, errors.Join(err, s.guard.Close())
		}
	}
	saveState(h, stateWritten, s.written)
	s.Host = s.host(facts)
	return s, nil
}

// host returns the host for the request.
func (s *Step) host(facts func() github.Environment) *host.Host {
	host := *s.outer
	host.Getenv = s.getenv
	host.OnLoad = s.loaded
	host.GitHub = func() github.Environment {
		env := facts()
		if !env.Inside {
			env = github.Environment{}
		}
		env.Token = ghvars.Read(s.getenv).Token
		return env
	}
	if s.guard != nil {
		host.Guard, host.Known = s.guard, s.guard.known
	}
	return &host
}

// getenv looks up a variable in the inputs, then in the environment of the step.
func (s *Step) getenv(name string) (string, bool) {
	if name == "XDG_CACHE_HOME" && s.guard != nil && s.guard.cacheDir != "" {
		return s.guard.cacheDir, true
	}
	if value, ok := s.inputs.env[name]; ok {
		return value, true
	}
	if token := s.inputs.value("github-token"); name == ghvars.Token && token != "" {
		return token, true
	}
	return s.outer.Getenv(name)
}

// loaded hides the job's secrets, and saves the data with which the post step cleans up. It is the
// step's host.Host.OnLoad.
func (s *Step) loaded(file *config.Loaded) error {
	mask(s.outer, file.Secrets)
	if s.inputs.executes() {
		if err := s.checkTargets(file); err != nil {
			return err
		}
		s.written = append(s.written, file.Job.JobsDir)
		saveState(s.outer, stateWritten, s.written)
		saveState(s.outer, stateProvider, file.Job.Environment.Type)
		saveState(s.outer, stateOwner, environment.Self())
	}
	return nil
}

// Shown returns an error of the request with the paths of checked copies replaced by the original
// ones.
func (s *Step) Shown(err error) error { return s.guard.inKnown(err) }

// Close removes the step's temporary files, and gives its output files to the owner of the
// workspace.
func (s *Step) Close() error {
	handOver(s.outer, s.written)
	return s.guard.Close()
}

// What the step tells its post step, as JSON. Source for their way: GitHub's documentation,
// "Sending values to the pre and post actions".
const (
	stateWritten  = "rollout_written"  // []string: output paths in the workspace
	stateProvider = "rollout_provider" // string
	stateOwner    = "rollout_owner"    // environment.Owner
)

// saveState saves a value for the post step, which does less without it.
func saveState(h *host.Host, name string, value any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = step.SaveState(h.Getenv, name, string(text))
	}
	if err != nil {
		h.Output.Warn(fmt.Sprintf("the step after the job will not know what to clean up: %v", err))
	}
}

// state reads what saveState saved, and reports whether there is such a value.
func state(h *host.Host, name string, value any) bool {
	text, _ := h.Getenv("STATE_" + name)
	return text != "" && json.Unmarshal([]byte(text), value) == nil
}
