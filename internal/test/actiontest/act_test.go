package actiontest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// artifactActions are substitutes for actions/upload-artifact and actions/download-artifact: short
// scripts based on the library of the real ones, which checks names and paths and speaks to the
// server.
var artifactActions struct {
	once sync.Once
	dir  string
	err  error
}

func needArtifactActions(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Lacks(t, "act", tool+", for the actions that keep artifacts")
		}
	}
	a := &artifactActions
	a.once.Do(func() {
		a.dir, a.err = os.MkdirTemp("", "rollout-artifact-actions-")
		if a.err == nil {
			a.err = bundle(a.dir)
		}
	})
	must(t, a.err)
	return a.dir
}

func bundle(dir string) error {
	if err := os.CopyFS(dir, os.DirFS("testdata/artifacts")); err != nil {
		return err
	}
	npm := exec.Command("npm", "ci")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	for _, name := range []string{"upload", "download"} {
		esbuild := exec.Command(filepath.Join(dir, "node_modules/.bin/esbuild"), name+".js", "--bundle", "--keep-names", "--platform=node", "--target=node18",
			"--log-level=error", "--outfile="+filepath.Join(dir, name, "index.js"))
		esbuild.Dir = dir
		if out, err := esbuild.CombinedOutput(); err != nil {
			return fmt.Errorf("esbuild: %w\n%s", err, out)
		}
		action := "name: " + name + "-artifact\nruns: { using: node20, main: index.js }\n"
		if err := os.WriteFile(filepath.Join(dir, name, "action.yml"), []byte(action), 0o644); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "node_modules"))
}

// actVersion is the version of nektos/act that these tests require.
const actVersion = "0.2.89"

// repository is the repository of a user of the Action, with a GitHub.
type repository struct {
	t       *testing.T
	dir     string // the checkout
	api     *githubtest.Server
	action  string // the Action's repository at a release's tag
	actions string
	// checkout replaces actions/checkout where it is given a ref or a path; act itself handles the
	// other cases.
	checkout string
	cache    string
	runs     int
}

const slug = "acme/widgets"

const checkoutAction = `name: checkout
inputs:
  ref: { default: '' }
  path: { default: . }
  submodules: { default: 'false' }
  persist-credentials: { default: 'true' }
runs:
  using: composite
  steps:
    - shell: bash
      run: |
        mkdir -p "$GITHUB_WORKSPACE/$TO"
        cp -R "$TEST_REPOSITORY/." "$GITHUB_WORKSPACE/$TO"
        if [ -n "$REF" ]; then git -C "$GITHUB_WORKSPACE/$TO" checkout --quiet --detach "$REF"; fi
      env:
        REF: ${{ inputs.ref }}
        TO: ${{ inputs.path }}
`

func newRepository(t *testing.T, knows ...string) *repository {
	t.Helper()
	image := needImage(t)
	if out, err := exec.Command("act", "--version").Output(); err != nil || !strings.Contains(string(out), actVersion) {
		testenv.Lacks(t, "act", "act "+actVersion)
	}
	gateway := docker(t, "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
	if gateway == "" {
		// Old engines do not report the gateway if it is the first address.
		gateway = strings.TrimSuffix(docker(t, "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Subnet}}"), "0.0/16") + "0.1"
	}
	api, err := githubtest.Serve(net.JoinHostPort(gateway, "0"))
	must(t, err)
	t.Cleanup(api.Close)
	r := &repository{t: t, dir: t.TempDir(), api: api, cache: t.TempDir(), action: released(t, "v1.2.3", image), actions: needArtifactActions(t)}
	pinWorkflow(t, r.action)
	r.checkout = t.TempDir()
	write(t, r.checkout, map[string]string{"action.yml": checkoutAction})
	api.AddRepo(slug)
	suite(t, r.dir, knows...)
	write(t, r.dir, map[string]string{".gitignore": "/jobs\n"})
	r.git("init", "--quiet", "--initial-branch=main")
	r.git("remote", "add", "origin", "https://github.com/"+slug)
	for _, workflow := range examples(t) {
		write(t, r.dir, map[string]string{".github/workflows/" + filepath.Base(workflow): read(t, workflow)})
	}
	return r
}

// examples returns the workflows in the documentation.
func examples(t *testing.T) []string {
	t.Helper()
	var files []string
	for dir, atLeast := range map[string]int{"examples/workflows": 5, "examples/kubernetes": 2} {
		found, err := filepath.Glob(filepath.Join(top, dir, "*.yml"))
		must(t, err)
		if len(found) < atLeast {
			t.Fatalf("there are only %d workflows in %s: the test looks at the wrong directory", len(found), dir)
		}
		files = append(files, found...)
	}
	return files
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// commit commits everything, and updates the GitHub server.
func (r *repository) commit(message string, parents ...string) string {
	r.t.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", message)
	sha := r.git("rev-parse", "HEAD")
	r.api.AddCommit(slug, sha, parents...)
	return sha
}

// acted is the result of act for one event.
type acted struct {
	t       *testing.T
	code    int
	log     string
	lines   []actLine
	results map[string]string // job and matrix -> success, failure or skipped
	// artifacts is the directory of the uploaded artifacts.
	artifacts string
}

// actLine is a line that act --json prints.
type actLine struct {
	Job       string         `json:"job"`
	JobID     string         `json:"jobID"`
	StepID    []string       `json:"stepID"`
	Matrix    map[string]any `json:"matrix"`
	Msg       string         `json:"msg"`
	Raw       bool           `json:"raw_output"`
	Command   string         `json:"command"`
	Name      string         `json:"name"`
	Arg       string         `json:"arg"`
	Content   string         `json:"content"`
	JobResult string         `json:"jobResult"`
	StepStage string         `json:"stage"`
}

// act runs a workflow for an event.
func (r *repository) act(workflow, event string, payload map[string]any, flags ...string) *acted {
	r.t.Helper()
	r.runs++
	a := &acted{t: r.t, results: map[string]string{}, artifacts: r.t.TempDir()}
	run := fmt.Sprint(100 + r.runs)
	must(r.t, os.Mkdir(filepath.Join(a.artifacts, run), 0o755)) // act's server panics when it lists a missing directory
	text, err := json.Marshal(payload)
	must(r.t, err)
	eventFile := filepath.Join(r.t.TempDir(), "event.json")
	must(r.t, os.WriteFile(eventFile, text, 0o644))
	args := append([]string{
		event, "--workflows", ".github/workflows/" + workflow, "--eventpath", eventFile, "--json", "--pull=false", "--no-cache-server",
		"--platform", "ubuntu-latest=-self-hosted",
		// The directory where act keeps workspaces and the files of steps: without it, the output
		// of the Action is lost.
		"--container-options", fmt.Sprintf("-v %[1]s:%[1]s", filepath.Join(r.cache, "act")),
		"--local-repository", "org/rollout-action@v1=" + r.action,
		"--local-repository", "org/rollout-action@" + releasedCommit + "=" + r.action, // in the reusable workflow
		"--local-repository", pinned(r.t)["actions/checkout"] + "=" + r.checkout,
		"--env", "TEST_REPOSITORY=" + r.dir,
		"--local-repository", pinned(r.t)["actions/upload-artifact"] + "=" + filepath.Join(r.actions, "upload"),
		"--local-repository", pinned(r.t)["actions/download-artifact"] + "=" + filepath.Join(r.actions, "download"),
		"--artifact-server-path", a.artifacts, "--artifact-server-addr", "127.0.0.1", "--artifact-server-port", freePort(r.t),
		"--env", "GITHUB_API_URL=" + r.api.URL, "--env", "GITHUB_RUN_ID=" + run,
		"--env", "GITHUB_WORKFLOW_REF=" + slug + "/.github/workflows/" + workflow + "@refs/heads/main", // act does not set it
		"--secret", "MODEL_API_KEY=model-secret", "--secret", "GITHUB_TOKEN=" + githubtest.WriteToken,
	}, flags...)
	cmd := exec.Command("act", args...)
	cmd.Dir = r.dir
	// A separate home: act asks questions on its first run, and reads the settings of other users.
	home := r.t.TempDir()
	write(r.t, home, map[string]string{".config/act/actrc": "\n"})
	must(r.t, os.MkdirAll(filepath.Join(r.cache, "act"), 0o755))
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "XDG_CACHE_HOME="+r.cache)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	a.code = cmd.ProcessState.ExitCode()
	a.read(out)
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("act %s %s ends with %d\n%s\nGitHub was asked: %q", event, workflow, a.code, a.log, r.api.Seen())
		}
	})
	return a
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

func (a *acted) read(out []byte) {
	a.t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line actLine
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			a.log += lines.Text() + "\n"
			continue
		}
		a.lines = append(a.lines, line)
		a.log += line.Job + " | " + strings.TrimSuffix(line.Msg, "\n") + "\n"
		if line.JobResult != "" {
			a.results[jobName(line)] = line.JobResult
		}
	}
	must(a.t, lines.Err())
}

// jobName returns a job's id, with its matrix's value of shard or model.
func jobName(line actLine) string {
	name := line.JobID
	for _, key := range []string{"shard", "model"} {
		if value, ok := line.Matrix[key]; ok {
			name += fmt.Sprintf(" %v", value)
		}
	}
	return name
}

// output returns an output of a step.
func (a *acted) output(job, step, name string) string {
	value := ""
	for _, line := range a.lines {
		if line.Command == "set-output" && jobName(line) == job && slices.Contains(line.StepID, step) && line.Name == name {
			value = line.Arg
		}
	}
	return value
}

// summary returns the summary that the steps of a job have written.
func (a *acted) summary(job string) string {
	text := ""
	for _, line := range a.lines {
		if line.Command == "summary" && jobName(line) == job {
			text += line.Content
		}
	}
	return text
}

// said returns the output of the job's steps.
func (a *acted) said(job string) string {
	text := ""
	for _, line := range a.lines {
		if line.Raw && jobName(line) == job {
			text += line.Msg
		}
	}
	return text
}

// wantResults checks the results of the given jobs; others may have any result.
func (a *acted) wantResults(want map[string]string) {
	a.t.Helper()
	for job, result := range want {
		if a.results[job] != result {
			a.t.Errorf("the job %s: %q, want %s (all: %v)", job, a.results[job], result, a.results)
		}
	}
}

// artifact unpacks an uploaded artifact into a new directory.
func (a *acted) artifact(name string) string {
	a.t.Helper()
	found, err := filepath.Glob(filepath.Join(a.artifacts, "*", name, name+".zip"))
	must(a.t, err)
	if len(found) != 1 {
		a.t.Fatalf("there are %d artifacts %s", len(found), name)
	}
	dir := a.t.TempDir()
	unzip(a.t, found[0], dir)
	return dir
}
