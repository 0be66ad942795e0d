package app_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/providers"
)

// picky is a remote provider that grants at most one processor, and may not restrict networks.
type picky struct {
	environment.Provider
	networks error
	proofs   *int
}

func (p picky) CheckCreation(_ context.Context, l environment.Limits, _ environment.Network) error {
	if l.MilliCPUs > 1000 {
		return &environment.Error{Kind: environment.KindResources, Err: errors.New("the quota grants 1 cpu"), Hint: "ask for a larger one"}
	}
	return nil
}

func (p picky) ProveNetworks(context.Context, func(string)) error {
	*p.proofs++
	return p.networks
}

// choose has the host's provider be remote, with what make returns.
func choose(h *app.Host, make func(environment.Provider) (environment.Provider, error)) {
	entry := &h.Providers[0]
	connect := entry.New
	entry.Remote = true
	entry.New = func(ctx context.Context, cfg map[string]any, on providers.Host) (environment.Provider, error) {
		p, err := connect(ctx, cfg, on)
		if err != nil {
			return nil, err
		}
		return make(p)
	}
}

// request is for the job with another value of a key, if path is not empty.
func request(path, value string) app.JobRequest {
	r := app.JobRequest{File: "job.yaml"}
	if path != "" {
		r.Sets = []config.Override{{Path: path, Value: value, Origin: "--set"}}
	}
	return r
}

// problems returns what validate finds, but for the form of scripts.
func problems(t *testing.T, h *app.Host, req app.JobRequest) diag.List {
	t.Helper()
	checked, err := app.Validate(t.Context(), h, req, false)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(checked.Problems, func(d diag.Diagnostic) bool { return strings.HasSuffix(d.Message, "[shebang]") })
}

func TestValidateAsksRemoteProviders(t *testing.T) {
	t.Run("that cannot be used", func(t *testing.T) {
		h, _ := host(t)
		choose(h, func(environment.Provider) (environment.Provider, error) {
			return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("there is no cluster"), Hint: "set KUBECONFIG"}
		})
		got := problems(t, h, request("", ""))
		if len(got) != 1 || len(got.Warnings()) != 1 || got[0].Message != "there is no cluster" || got[0].Hint != "set KUBECONFIG" || got[0].File != "job.yaml" || got[0].Line != 2 {
			t.Errorf("problems %+v", got)
		}
	})
	t.Run("that can never grant the limits of a task", func(t *testing.T) {
		h, _ := host(t)
		choose(h, func(p environment.Provider) (environment.Provider, error) { return picky{p, nil, new(int)}, nil })
		got := problems(t, h, request("environment.override_cpus", "2"))
		if len(got) != 1 || len(got.Warnings()) != 1 || got[0].Message != "the quota grants 1 cpu" || !strings.HasSuffix(got[0].File, "task.toml") {
			t.Errorf("problems %+v", got)
		}
		if got := problems(t, h, request("", "")); len(got) > 0 {
			t.Errorf("with less: %+v", got)
		}
	})
	t.Run("but no others", func(t *testing.T) {
		h, _ := host(t)
		h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
			t.Error("the provider was contacted")
			return nil, errors.New("no")
		}
		if got := problems(t, h, request("", "")); len(got) > 0 {
			t.Errorf("problems %+v", got)
		}
	})
}

func TestRunWarnsOfTasksThatCanNeverRun(t *testing.T) {
	h, out := host(t)
	choose(h, func(p environment.Provider) (environment.Provider, error) { return picky{p, nil, new(int)}, nil })
	if _, err := app.Run(t.Context(), h, app.RunRequest{Job: request("environment.override_cpus", "2")}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out.lines, ", "); got != "0 warnings, 1 warnings" {
		t.Errorf("reported: %s", got)
	}
}

func TestRunIsRefusedIfNetworksAreNotRestricted(t *testing.T) {
	h, _ := host(t)
	proofs := 0
	choose(h, func(p environment.Provider) (environment.Provider, error) {
		return picky{p, &environment.Error{Kind: environment.KindStart, Err: errors.New("policies are not enforced")}, &proofs}, nil
	})
	_, err := app.Run(t.Context(), h, app.RunRequest{Job: request("environment.network", "none")})
	if err == nil || !strings.Contains(err.Error(), "policies are not enforced") || proofs != 1 {
		t.Errorf("error %v after %d proofs", err, proofs)
	}
	if _, err := result.ReadTree(h.Path("jobs/nightly")); err == nil {
		t.Error("the job has a directory")
	}
	if _, err := app.Run(t.Context(), h, app.RunRequest{Job: request("", "")}); err != nil || proofs != 1 {
		t.Errorf("with a public network: %v after %d proofs", err, proofs)
	}
}
