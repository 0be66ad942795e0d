package app_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/test/apptest"
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

// bare is a remote provider without a registry for built images, whose machines do not support all
// images.
type bare struct{ environment.Provider }

func (bare) CheckPull(_ context.Context, ref string) error {
	if strings.HasPrefix(ref, "foreign") {
		return &environment.Error{Kind: environment.KindPull, Err: errors.New("image " + ref + " is not for the nodes"), Hint: "use others"}
	}
	return nil
}

func (bare) CheckBuild(context.Context, environment.BuildOptions) error {
	return &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("there is no registry"), Hint: "set registry"}
}

// single is a provider that runs single containers.
type single struct{ environment.Provider }

func (single) Name() string { return "single" }

// choose replaces the host's provider by a remote one that make returns.
func choose(h *host.Host, make func(environment.Provider) (environment.Provider, error)) {
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

// request returns a request for the job, with another value of a key if path is not empty.
func request(path, value string) stages.JobRequest {
	r := stages.JobRequest{File: "job.yaml"}
	if path != "" {
		r.Sets = []config.Override{{Path: path, Value: value, Origin: "--set"}}
	}
	return r
}

// problems returns the problems that validate finds, except those about the form of scripts.
func problems(t *testing.T, h *host.Host, req stages.JobRequest) diag.List {
	t.Helper()
	checked, err := proof.Validate(t.Context(), h, req, false)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(checked.Problems, func(d diag.Diagnostic) bool { return strings.HasSuffix(d.Message, "[shebang]") })
}

func TestValidateAsksRemoteProviders(t *testing.T) {
	t.Run("that cannot be used", func(t *testing.T) {
		h, _ := apptest.New(t)
		choose(h, func(environment.Provider) (environment.Provider, error) {
			return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("there is no cluster"), Hint: "set KUBECONFIG"}
		})
		got := problems(t, h, request("", ""))
		if len(got) != 1 || len(got.Warnings()) != 1 || got[0].Message != "there is no cluster" || got[0].Hint != "set KUBECONFIG" || got[0].File != "job.yaml" || got[0].Line != 2 {
			t.Errorf("problems %+v", got)
		}
	})
	t.Run("that refuses", func(t *testing.T) {
		h, _ := apptest.New(t)
		choose(h, func(environment.Provider) (environment.Provider, error) {
			return nil, &environment.Error{Kind: environment.KindUnavailable, Refused: true, Err: errors.New("there is no namespace"), Hint: "create it"}
		})
		got := problems(t, h, request("", ""))
		if len(got) != 1 || len(got.Errors()) != 1 || got[0].Message != "there is no namespace" || got[0].File != "job.yaml" || got[0].Line != 2 {
			t.Errorf("problems %+v", got)
		}
	})
	t.Run("that can never grant the limits of a task", func(t *testing.T) {
		h, _ := apptest.New(t)
		choose(h, func(p environment.Provider) (environment.Provider, error) { return picky{p, nil, new(int)}, nil })
		got := problems(t, h, request("environment.override_cpus", "2"))
		if len(got) != 1 || len(got.Warnings()) != 1 || got[0].Message != "the quota grants 1 cpu" || !strings.HasSuffix(got[0].File, "task.toml") {
			t.Errorf("problems %+v", got)
		}
		if got := problems(t, h, request("", "")); len(got) > 0 {
			t.Errorf("with less: %+v", got)
		}
	})
	t.Run("but no others", func(t *testing.T) { // what their type cannot do is known all the same
		h, _ := apptest.New(t)
		h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
			t.Error("the provider was contacted")
			return nil, errors.New("no")
		}
		if got := problems(t, h, request("", "")); len(got) > 0 {
			t.Errorf("problems %+v", got)
		}
	})
}

func TestValidateWarnsOfTasksThatALocalProviderCanNeverRun(t *testing.T) {
	h, _ := apptest.New(t)
	h.Providers[0].Unconnected = single{}
	h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		t.Error("the provider was contacted")
		return nil, errors.New("no")
	}
	addTask(t, h, "with-database", "debian:bookworm")
	compose := "services:\n  main: {}\n  db: {image: postgres:17}\n"
	file := h.Path("evals/with-database/environment/docker-compose.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(compose), 0o644)); err != nil {
		t.Fatal(err)
	}
	got := problems(t, h, request("", ""))
	if len(got) != 1 || len(got.Warnings()) != 1 || !strings.Contains(got[0].Message, "has the services db") || !strings.HasSuffix(got[0].File, "with-database/task.toml") {
		t.Errorf("problems %+v", got)
	}
}

func TestRunWarnsOfTasksThatCanNeverRun(t *testing.T) {
	h, out := apptest.New(t)
	choose(h, func(p environment.Provider) (environment.Provider, error) { return picky{p, nil, new(int)}, nil })
	if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: request("environment.override_cpus", "2")}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out.Lines, ", "); got != "0 warnings, 1 warnings" {
		t.Errorf("reported: %s", got)
	}
}

func TestRunIsRefusedIfNetworksAreNotRestricted(t *testing.T) {
	h, _ := apptest.New(t)
	proofs := 0
	choose(h, func(p environment.Provider) (environment.Provider, error) {
		return picky{p, &environment.Error{Kind: environment.KindStart, Err: errors.New("policies are not enforced")}, &proofs}, nil
	})
	_, err := app.Run(t.Context(), h, stages.RunRequest{Job: request("environment.network", "none")})
	if err == nil || !strings.Contains(err.Error(), "policies are not enforced") || proofs != 1 {
		t.Errorf("error %v after %d proofs", err, proofs)
	}
	if _, err := result.ReadTree(h.Path("jobs/nightly")); err == nil {
		t.Error("the job has a directory")
	}
	if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: request("", "")}); err != nil || proofs != 1 {
		t.Errorf("with a public network: %v after %d proofs", err, proofs)
	}
}

// addTask adds a task to the host's dataset, with an image or, if that is empty, a Dockerfile.
func addTask(t *testing.T, h *host.Host, name, image string) {
	t.Helper()
	files := map[string]string{
		"task.toml":      "version = \"1.0\"\n",
		"instruction.md": "Make /done.\n", "solution/solve.sh": "touch /done\n", "tests/test.sh": "echo 1 >/logs/verifier/reward.txt\n",
	}
	if image == "" {
		files["environment/Dockerfile"] = "FROM debian:bookworm\nWORKDIR /app\n"
	} else {
		files["task.toml"] += "environment.docker_image = \"" + image + "\"\n"
	}
	for file, text := range files {
		path := h.Path(filepath.Join("evals", name, file))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMissingImagesAreReportedOnce(t *testing.T) {
	remote := func(t *testing.T) (*host.Host, *apptest.Recorder) {
		h, out := apptest.New(t)
		choose(h, func(p environment.Provider) (environment.Provider, error) { return bare{p}, nil })
		return h, out
	}
	t.Run("of some tasks", func(t *testing.T) {
		h, out := remote(t)
		for _, name := range []string{"built-1", "built-2", "built-3", "built-4", "built-5"} {
			addTask(t, h, name, "")
		}
		addTask(t, h, "foreign", "foreign:1")
		got := problems(t, h, request("", ""))
		if len(got) != 2 || len(got.Warnings()) != 2 {
			t.Fatalf("problems %v", got)
		}
		if d := got[0].String(); !strings.HasPrefix(d, "job.yaml:2:") || !strings.HasSuffix(d, "5 tasks have no image (built-1, built-2, built-3 and 2 more): there is no registry (set registry)") {
			t.Errorf("several tasks: %s", d)
		}
		if d := got[1].String(); !strings.Contains(d, "foreign/task.toml: ") || !strings.HasSuffix(d, "image foreign:1 is not for the nodes (use others)") {
			t.Errorf("a single task: %s", d)
		}
		if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: request("", "")}); err != nil {
			t.Fatalf("the other tasks: %v", err)
		}
		if got := strings.Join(out.Lines, ", "); got != "0 warnings, 2 warnings" {
			t.Errorf("reported: %s", got)
		}
	})
	t.Run("of all tasks", func(t *testing.T) {
		h, _ := remote(t)
		addTask(t, h, "one", "foreign:1") // instead of the one that works
		addTask(t, h, "two", "foreign:2")
		if got := problems(t, h, request("", "")); len(got) != 1 || len(got.Errors()) != 1 {
			t.Errorf("validate: %v", got)
		}
		_, err := app.Run(t.Context(), h, stages.RunRequest{Job: request("", "")})
		var refused diag.List
		if !errors.As(err, &refused) || len(refused) != 1 || len(refused.Errors()) != 1 || !strings.Contains(err.Error(), "2 tasks have no image (one, two): image foreign:1 is not for the nodes (use others)") {
			t.Errorf("error %v", err)
		}
		if _, err := os.Stat(h.Path("jobs/nightly")); err == nil {
			t.Error("the job has a directory")
		}
	})
	t.Run("before networks are proven, which takes long", func(t *testing.T) {
		h, out := apptest.New(t)
		addTask(t, h, "built", "")
		proofs := 0
		choose(h, func(p environment.Provider) (environment.Provider, error) {
			return struct {
				environment.Provider
				environment.CreationChecker
				environment.ImageChecker
			}{p, picky{p, errors.New("policies are not enforced"), &proofs}, bare{p}}, nil
		})
		_, err := app.Run(t.Context(), h, stages.RunRequest{Job: request("environment.network", "none")})
		if err == nil || proofs != 1 || strings.Join(out.Lines, ", ") != "0 warnings, 1 warnings" {
			t.Errorf("error %v after %d proofs, reported: %q", err, proofs, out.Lines)
		}
	})
	t.Run("of none", func(t *testing.T) {
		h, out := remote(t)
		if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: request("", "")}); err != nil || strings.Join(out.Lines, ", ") != "0 warnings" {
			t.Errorf("error %v, reported: %q", err, out.Lines)
		}
	})
}
