package actiontest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The owner of the runner and its workspace.
const runnerUID, runnerGID = 1001, 1002

// runner simulates a job on GitHub's runner, as far as a container action can see it. Source:
// actions/runner, ContainerActionHandler.cs and DockerCommandManager.cs.
type runner struct {
	t         *testing.T
	id        string
	temp      string // RUNNER_TEMP of the host
	workspace string
	network   string
	env       map[string]string // in addition to the runner's own
	state     map[string]string // state that the step saved for the post step
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	work := t.TempDir()
	must(t, os.Chmod(work, 0o755))
	r := &runner{
		t: t, id: random(), temp: filepath.Join(work, "_temp"), workspace: filepath.Join(work, "widgets", "widgets"),
		env: map[string]string{}, state: map[string]string{},
	}
	r.network = "github_network_" + r.id
	for _, dir := range []string{"_github_home", "_github_workflow", "_runner_file_commands"} {
		must(t, os.MkdirAll(filepath.Join(r.temp, dir), 0o755))
	}
	must(t, os.MkdirAll(r.workspace, 0o755))
	docker(t, "network", "create", "--label", "rollout-test="+r.id, r.network)
	t.Cleanup(func() {
		if left := r.left(); len(left) > 0 { // the test has failed
			docker(t, append([]string{"rm", "--force"}, left...)...)
		}
		docker(t, "network", "rm", r.network)
	})
	r.event("push", "{}")
	return r
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // cannot fail
	return hex.EncodeToString(b)
}

func (r *runner) event(name, payload string) {
	r.env["GITHUB_EVENT_NAME"] = name
	must(r.t, os.WriteFile(filepath.Join(r.temp, "_github_workflow/event.json"), []byte(payload), 0o644))
}

// own makes the runner's user the owner of everything, as after a checkout.
func (r *runner) own() {
	r.t.Helper()
	must(r.t, filepath.WalkDir(filepath.Dir(r.temp), func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, runnerUID, runnerGID))
	}))
}

// ran is a step that has ended.
type ran struct {
	t       *testing.T
	code    int
	log     string
	outputs map[string]string
	summary string
	took    time.Duration // after the cancel, if there was one
	signals []string      // that the runner had to send
}

// started is a step that runs.
type started struct {
	r     *runner
	name  string
	cmd   *exec.Cmd
	log   *bytes.Buffer
	files map[string]string // kind -> path on the host
	ended chan error
}

// start starts a step with these inputs; entrypoint is "" for the image's own.
func (r *runner) start(image, entrypoint string, inputs map[string]string) *started {
	r.t.Helper()
	s := &started{r: r, name: "action_" + random()[:8], log: &bytes.Buffer{}, files: map[string]string{}, ended: make(chan error, 1)}
	env := map[string]string{
		"CI": "true", "GITHUB_ACTIONS": "true", "HOME": "/github/home", "GITHUB_WORKSPACE": "/github/workspace",
		"GITHUB_EVENT_PATH": "/github/workflow/event.json", "GITHUB_REPOSITORY": "acme/widgets", "GITHUB_REPOSITORY_OWNER": "acme",
		"GITHUB_RUN_ID": r.id, "GITHUB_RUN_NUMBER": "7", "GITHUB_RUN_ATTEMPT": "1", "GITHUB_JOB": "evaluate", "GITHUB_WORKFLOW": "agent",
		"GITHUB_WORKFLOW_REF": "acme/widgets/.github/workflows/agent.yml@refs/heads/main", "GITHUB_ACTION": "__org_rollout-action",
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": "http://127.0.0.1:9", "GITHUB_GRAPHQL_URL": "http://127.0.0.1:9/graphql",
		"GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main", "GITHUB_REF_TYPE": "branch", "GITHUB_SHA": strings.Repeat("1", 40),
		"GITHUB_HEAD_REF": "", "GITHUB_BASE_REF": "", "GITHUB_ACTOR": "octocat", "GITHUB_RETENTION_DAYS": "90",
		"RUNNER_OS": "Linux", "RUNNER_ARCH": "X64", "RUNNER_NAME": "runner-1", "RUNNER_TEMP": "/github/runner_temp",
		"RUNNER_WORKSPACE": filepath.Dir(r.workspace), "RUNNER_TOOL_CACHE": "/opt/hostedtoolcache",
	}
	for name, kind := range map[string]string{
		"GITHUB_OUTPUT": "set_output", "GITHUB_STATE": "save_state", "GITHUB_ENV": "set_env", "GITHUB_PATH": "add_path", "GITHUB_STEP_SUMMARY": "step_summary",
	} {
		file := kind + "_" + random()
		s.files[kind] = filepath.Join(r.temp, "_runner_file_commands", file)
		must(r.t, os.WriteFile(s.files[kind], nil, 0o644))
		must(r.t, os.Chown(s.files[kind], runnerUID, runnerGID))
		env[name] = "/github/file_commands/" + file
	}
	for name, value := range r.state {
		env["STATE_"+name] = value
	}
	for name, value := range r.env {
		env[name] = value
	}
	for name, value := range inputs {
		env["INPUT_"+strings.ToUpper(name)] = value
	}
	args := []string{"run", "--name", s.name, "--label", "rollout-test=" + r.id, "--workdir", "/github/workspace", "--rm"}
	cmdEnv := os.Environ()
	for name, value := range env {
		args = append(args, "-e", name)
		cmdEnv = append(cmdEnv, name+"="+value)
	}
	if entrypoint != "" {
		args = append(args, "--entrypoint", entrypoint)
	}
	args = append(args, "--network", r.network,
		"-v", "/var/run/docker.sock:/var/run/docker.sock", "-v", r.temp+":/github/runner_temp",
		"-v", r.temp+"/_github_home:/github/home", "-v", r.temp+"/_github_workflow:/github/workflow",
		"-v", r.temp+"/_runner_file_commands:/github/file_commands", "-v", r.workspace+":/github/workspace", image)
	s.cmd = exec.Command("docker", args...)
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = cmdEnv, s.log, s.log
	must(r.t, s.cmd.Start())
	r.t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", s.name).Run() })
	go func() { s.ended <- s.cmd.Wait() }()
	return s
}

// Time limits of the runner. Source: actions/runner, ProcessInvoker.cs.
const (
	afterInterrupt = 7500 * time.Millisecond
	afterTerminate = 2500 * time.Millisecond
)

// cancel ends the step as the runner does when its job is cancelled.
func (s *started) cancel() *ran {
	s.r.t.Helper()
	began := time.Now()
	var signals []string
	for _, next := range []struct {
		signal syscall.Signal
		name   string
		wait   time.Duration
	}{{syscall.SIGINT, "SIGINT", afterInterrupt}, {syscall.SIGTERM, "SIGTERM", afterTerminate}, {syscall.SIGKILL, "SIGKILL", time.Minute}} {
		must(s.r.t, s.cmd.Process.Signal(next.signal))
		signals = append(signals, next.name)
		select {
		case err := <-s.ended:
			return s.result(err, time.Since(began), signals)
		case <-time.After(next.wait):
		}
	}
	s.r.t.Fatal("the docker command outlives SIGKILL")
	return nil
}

// wait returns the step when it has ended by itself.
func (s *started) wait() *ran {
	s.r.t.Helper()
	select {
	case err := <-s.ended:
		return s.result(err, 0, nil)
	case <-time.After(5 * time.Minute):
		s.r.t.Fatalf("the step does not end:\n%s", s.log)
		return nil
	}
}

// result returns the results that the runner takes from a step, even from a failed one: it always
// reads the files afterwards.
func (s *started) result(err error, took time.Duration, signals []string) *ran {
	t := s.r.t
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	res := &ran{t: t, code: s.cmd.ProcessState.ExitCode(), log: s.log.String(), took: took, signals: signals}
	t.Logf("the step ended with %d after %v\n%s", res.code, signals, res.log)
	res.outputs, err = fileCommands(read(t, s.files["set_output"]))
	must(t, err)
	s.r.state, err = fileCommands(read(t, s.files["save_state"]))
	must(t, err)
	res.summary = read(t, s.files["step_summary"])
	if len(res.summary) > 1<<20 {
		t.Errorf("the summary has %d bytes, so the runner drops it", len(res.summary))
	}
	if set := read(t, s.files["set_env"]) + read(t, s.files["add_path"]); set != "" {
		t.Errorf("the step changes others' environment: %q", set)
	}
	return res
}

// fileCommands reads NAME=value and NAME<<DELIMITER blocks as the runner does; invalid input fails
// a step. Source: actions/runner, FileCommandManager.cs, EnvFileKeyValuePairs.
func fileCommands(text string) (map[string]string, error) {
	values := map[string]string{}
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], "\r\n")
		if line == "" {
			continue
		}
		equals, heredoc := strings.Index(line, "="), strings.Index(line, "<<")
		if equals >= 0 && (heredoc < 0 || equals < heredoc) {
			if equals == 0 {
				return nil, fmt.Errorf("invalid format %q: no name", line)
			}
			values[line[:equals]] = line[equals+1:]
			continue
		}
		name, delimiter, ok := strings.Cut(line, "<<")
		if !ok || name == "" || delimiter == "" {
			return nil, fmt.Errorf("invalid format %q", line)
		}
		end := slices.IndexFunc(lines[i+1:], func(l string) bool { return strings.TrimRight(l, "\r\n") == delimiter })
		if end < 0 {
			return nil, fmt.Errorf("invalid value: matching delimiter not found %q", delimiter)
		}
		values[name] = strings.TrimSuffix(strings.Join(lines[i+1:i+1+end], ""), "\n")
		i += 1 + end
	}
	return values, nil
}

// left returns the trial containers of this runner's job.
func (r *runner) left() []string {
	r.t.Helper()
	return strings.Fields(docker(r.t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label=rollout.workflow.run=https://github.com/acme/widgets/actions/runs/"+r.id))
}

// wantOwned checks that the runner owns everything in the workspace.
func (r *runner) wantOwned() {
	r.t.Helper()
	seen := 0
	must(r.t, filepath.WalkDir(r.workspace, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		seen++
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != runnerUID || stat.Gid != runnerGID {
			r.t.Errorf("%s belongs to %d:%d", path, stat.Uid, stat.Gid)
		}
		return nil
	}))
	if seen < 10 {
		r.t.Errorf("only %d files were looked at", seen)
	}
}
