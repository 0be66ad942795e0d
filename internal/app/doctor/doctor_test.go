package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/doctor"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/providers"
)

// diagnose returns the findings, by area and name.
func diagnose(t *testing.T, h *host.Host, file string) (map[string]doctor.Finding, bool) {
	t.Helper()
	found, err := doctor.Diagnose(t.Context(), h, stages.JobRequest{File: file})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]doctor.Finding{}
	for _, f := range found {
		by[f.Area+" "+f.Name] = f
	}
	return by, doctor.OKs(found)
}

// broken returns a provider that cannot be used here.
func broken(name string) providers.Entry {
	return providers.Entry{
		Name: name, Check: func(map[string]any) []environment.ConfigProblem { return nil },
		New: func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
			return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("nothing answers\x1b[31m"), Hint: "start it"}
		},
	}
}

func want(t *testing.T, found map[string]doctor.Finding, name string, state doctor.State, text string) {
	t.Helper()
	if f, ok := found[name]; !ok || f.State != state || !strings.Contains(f.Text+" ("+f.Hint+")", text) {
		t.Errorf("%s: %+v, want %s with %q among %v", name, f, state, text, found)
	}
}

func TestOneProviderIsEnoughWithoutAJob(t *testing.T) {
	h, _ := apptest.New(t)
	h.Providers = append(slices.Clone(h.Providers), broken("engine"))
	found, ok := diagnose(t, h, "")
	want(t, found, "provider fake", doctor.OK, "works here")
	want(t, found, "provider engine", doctor.Note, "nothing answers (start it)")
	if !ok {
		t.Error("a provider that no job uses is missing")
	}
	h.Providers = providers.Table{broken("engine")}
	found, ok = diagnose(t, h, "")
	want(t, found, "provider engine", doctor.Missing, "nothing answers (start it)")
	if ok {
		t.Error("nothing is missing, though no provider works")
	}
}

func TestTheProviderOfAJobMustWork(t *testing.T) {
	h, _ := apptest.New(t)
	h.Providers = append(slices.Clone(h.Providers), broken("engine"))
	found, ok := diagnose(t, h, "job.yaml")
	want(t, found, "job job.yaml", doctor.OK, "2 agents × 1 task × 1 attempt = 2 trials")
	if !ok {
		t.Errorf("%v", found)
	}
	write(t, h, "other.yaml", "name: j\nenvironment: {type: engine}\nagents: [{name: nop}]\ndatasets: [{path: evals}]\n")
	found, ok = diagnose(t, h, "other.yaml")
	want(t, found, "provider engine", doctor.Missing, "nothing answers (start it)")
	want(t, found, "provider fake", doctor.OK, "works here")
	if ok {
		t.Error("the job's provider does not work, and nothing is missing")
	}
}

func TestVariablesAreNamedAndNeverShown(t *testing.T) {
	h, _ := apptest.New(t)
	h.Getenv = func(name string) (string, bool) {
		value, ok := map[string]string{"HAVE": "s3cret", "EMPTY": ""}[name]
		return value, ok
	}
	write(t, h, "keys.yaml", `name: j
environment: {type: fake, pass_env: [PASSED]}
models: {m: {api: anthropic, model: x, api_key: "${KEY}"}, unused: {api: anthropic, model: x, api_key: "${UNUSED}"}}
agents: [{name: a, execute: "true", model: m, env: {A: "${HAVE}", B: "${EMPTY}", C: "${OPTIONAL:-x}", D: "$$ {X}"}}]
datasets: [{path: evals}]
`)
	found, ok := diagnose(t, h, "keys.yaml")
	want(t, found, "variable HAVE", doctor.OK, "is set")
	want(t, found, "variable KEY", doctor.Missing, "is not set (export it")
	want(t, found, "variable EMPTY", doctor.Missing, "is not set (export it")
	want(t, found, "variable PASSED", doctor.Note, "is not set")
	for _, name := range []string{"UNUSED", "OPTIONAL"} {
		if f, ok := found["variable "+name]; ok {
			t.Errorf("%+v", f)
		}
	}
	if data, err := json.Marshal(found); err != nil || strings.Contains(string(data), "s3cret") || ok {
		t.Errorf("%s %v", data, err)
	}
}

func TestProblemsOfTheJobFileAreFindings(t *testing.T) {
	h, _ := apptest.New(t)
	write(t, h, "wrong.yaml", "name: j\nenvironment: {type: fake}\nagents: [{name: nop}]\ndatasets: [{path: nowhere}]\n")
	found, ok := diagnose(t, h, "wrong.yaml")
	want(t, found, "job wrong.yaml:4", doctor.Missing, "there is no directory")
	want(t, found, "provider fake", doctor.OK, "works here")
	if ok {
		t.Error("nothing is missing")
	}
}

func TestAFullDiskIsMissing(t *testing.T) {
	h, _ := apptest.New(t)
	h.FreeDisk = func(string) (int64, error) { return lowest - 1, nil }
	found, ok := diagnose(t, h, "")
	want(t, found, "disk results", doctor.Missing, "no trial starts below 512.0 MiB")
	if ok {
		t.Error("nothing is missing")
	}
	write(t, h, "any.yaml", "name: j\nenvironment: {type: fake, min_free_disk: 0}\nagents: [{name: nop}]\ndatasets: [{path: evals}]\n")
	found, _ = diagnose(t, h, "any.yaml")
	want(t, found, "disk results", doctor.OK, "free below")
	h.FreeDisk = func(string) (int64, error) { return 0, errors.New("no such disk") }
	found, ok = diagnose(t, h, "")
	want(t, found, "disk results", doctor.Note, "is not known: no such disk")
	if !ok {
		t.Error("an unknown size is missing")
	}
	field, _ := reflect.TypeFor[config.Environment]().FieldByName("MinFreeDisk")
	if got := field.Tag.Get("default"); got != "512Mi" {
		t.Errorf("min_free_disk is %s by default, and doctor expects 512Mi", got)
	}
}

const lowest = 512 << 20

func TestTheTokenOfAWorkflow(t *testing.T) {
	server := githubtest.New(t)
	server.AddRepo("org/agent")
	commit := strings.Repeat("1a", 20)
	server.AddCommit("org/agent", commit)
	server.SetBranch("org/agent", "main", commit)
	server.AddToken("all", githubtest.Workflow())
	some := githubtest.Workflow()
	some.Actions = githubtest.None
	server.AddToken("some", some)
	h, _ := apptest.New(t)
	run := github.Environment{Inside: true, Actions: github.Actions{Repository: "org/agent", APIURL: server.URL}}
	h.GitHub = func() github.Environment { return run }
	const plain = "name: j\nenvironment: {type: fake}\nagents: [{name: nop}]\ndatasets: [{path: evals}]\n"
	write(t, h, "plain.yaml", plain)
	write(t, h, "gated.yaml", plain+"gate: {max_pass_rate_drop: 0.1, on_no_baseline: fail}\n")
	for file, state := range map[string]doctor.State{"": doctor.Note, "plain.yaml": doctor.Note, "gated.yaml": doctor.Missing} {
		found, ok := diagnose(t, h, file)
		want(t, found, "github token", state, "GITHUB_TOKEN: ${{ github.token }}")
		if ok != (state == doctor.Note) {
			t.Errorf("%q without a token: %t", file, ok)
		}
	}
	run.Token = "all"
	found, ok := diagnose(t, h, "")
	want(t, found, "github contents: read", doctor.OK, "org/agent")
	want(t, found, "github actions: read", doctor.OK, "org/agent")
	want(t, found, "github pull-requests: write", doctor.Note, "not checked: ")
	if !ok {
		t.Errorf("%v", found)
	}
	run.Token = "some"
	for file, state := range map[string]doctor.State{"": doctor.Note, "plain.yaml": doctor.Note, "gated.yaml": doctor.Missing} {
		found, ok = diagnose(t, h, file)
		want(t, found, "github actions: read", state, "give the job the permission actions: read")
		if ok != (state == doctor.Note) {
			t.Errorf("%q without a permission: %t, %v", file, ok, found)
		}
	}
	run.Fork = true
	found, _ = diagnose(t, h, "")
	want(t, found, "github pull-requests: write", doctor.Note, "runs of a fork")
}

// What the workflow's permissions say of comments is read from the checkout, because GitHub does
// not tell it.
func TestThePermissionToCommentIsReadFromTheWorkflow(t *testing.T) {
	server := githubtest.New(t)
	server.AddRepo("org/agent")
	h, _ := apptest.New(t)
	run := github.Environment{Inside: true, Token: githubtest.WriteToken, Actions: github.Actions{
		Repository: "org/agent", APIURL: server.URL, Workspace: h.Path("."), WorkflowFile: "ci.yml", Job: "evaluate",
	}}
	h.GitHub = func() github.Environment { return run }
	const permission = "github pull-requests: write"
	found, _ := diagnose(t, h, "")
	want(t, found, permission, doctor.Note, "is not in the checkout")
	if err := os.MkdirAll(h.Path(".github/workflows"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		workflow string
		state    doctor.State
		text     string
	}{
		{"permissions: {pull-requests: write}\njobs: {evaluate: {runs-on: x}}\n", doctor.OK, "ci.yml gives this permission to the job; it was not tried"},
		{"permissions: write-all\r\njobs: {evaluate: {runs-on: x}}\r\n", doctor.OK, "gives this permission"},
		{"permissions: {pull-requests: write}\njobs: {evaluate: {permissions: {contents: read}}}\n", doctor.Note, "does not give this permission to the job, so no comment is written (give the job the permission pull-requests: write)"},
		{"permissions: {}\njobs: {evaluate: {permissions: {pull-requests: write}}}\n", doctor.OK, "gives this permission"},
		{"permissions: read-all\njobs: {evaluate: {}}\n", doctor.Note, "does not give this permission"},
		{"permissions: {pull-requests: read}\njobs: {evaluate: {}}\n", doctor.Note, "does not give this permission"},
		{"permissions: {}\njobs: {evaluate: {}}\n", doctor.Note, "does not give this permission"},
		{"jobs: {evaluate: {}}\n", doctor.Note, "not checked: GitHub does not tell it without a comment being written, and the workflow has no permissions"},
		{"permissions: write-all\njobs: {other: {}}\n", doctor.Note, "not checked: "},
		{"permissions: write-all\njobs: {evaluate: {uses: ./x.yml}}\n", doctor.Note, "belongs to another workflow"},
		{"permissions: [write]\njobs: {evaluate: {}}\n", doctor.Note, "cannot be read"},
		{"\xff\x00: [", doctor.Note, "is no valid YAML"},
		{"a: &a [x,x]\nb: &b [*a,*a]\njobs: {evaluate: {}}\n", doctor.Note, "has no permissions"},
		{strings.Repeat("#", 2<<20), doctor.Note, "not checked: "},
	} {
		write(t, h, ".github/workflows/ci.yml", tc.workflow)
		found, _ := diagnose(t, h, "")
		want(t, found, permission, tc.state, tc.text)
	}
	run.Token = "ghp_ofaperson"
	found, _ = diagnose(t, h, "")
	want(t, found, permission, doctor.Note, "not checked: GitHub does not tell it without a comment being written, and the token is not that of the workflow")
}

func TestACancelledDiagnosisHasNoFindings(t *testing.T) {
	h, _ := apptest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := doctor.Diagnose(ctx, h, stages.JobRequest{}); !errors.Is(err, host.ErrCancelled) || found != nil {
		t.Errorf("%v, %v", found, err)
	}
}

func write(t *testing.T, h *host.Host, name, text string) {
	t.Helper()
	if err := os.WriteFile(h.Path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
