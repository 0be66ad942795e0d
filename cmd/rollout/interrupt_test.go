//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/result"
)

// endless is a directory with resources on which commands wait forever: a file that is never
// written, and servers that never answer.
type endless struct {
	dir      string
	registry string // the URL of one
}

func newEndless(t *testing.T) endless {
	t.Helper()
	e := endless{dir: t.TempDir()}
	files := map[string]string{
		"job.yaml":                  "name: j\nenvironment: {type: sandbox, provider_config: {base: host}}\nagents: [{name: nop}]\ndatasets: [{path: evals}]\n",
		"far.yaml":                  "name: far\nenvironment: {type: sandbox, provider_config: {base: host}}\nagents: [{name: nop}]\ndatasets: [{name: far, registry: {path: far.json}}]\n",
		"evals/one/task.toml":       "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"evals/one/instruction.md":  "Do nothing.\n",
		"evals/one/tests/test.sh":   "echo 1 >/logs/verifier/reward.txt\n",
		"evals/one/solution/run.sh": "true\n",
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	release := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		close(release)
		_ = server.Close()
	})
	e.registry = "http://" + listener.Addr().String() + "/registry.json"
	files["far.json"] = fmt.Sprintf(`[{"name": "far", "version": "1", "description": "", "tasks": [{"name": "one", "git_url": "http://%s/repo.git", "git_commit_id": "head", "path": "one"}]}]`, listener.Addr())
	for name, text := range files {
		path := filepath.Join(e.dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	must(t, syscall.Mkfifo(filepath.Join(e.dir, "never"), 0o644))
	h := history(filepath.Join(e.dir, "repository"))
	must(t, os.Mkdir(string(h), 0o755))
	h.git(t, "init", "--quiet", "-b", "main")
	h.commit(t, "begin", map[string]string{"x.sh": "true\n"})
	h.commit(t, "wait", map[string]string{"x.sh": "sleep 600\n", "x_test.sh": "sleep 600\n"})
	r := start(t, e.dir, "job.yaml")
	r.exit(t)
	must(t, os.CopyFS(filepath.Join(e.dir, "again"), os.DirFS(filepath.Join(e.dir, "jobs"))))
	// As if the trial had been judged.
	file := filepath.Join(e.dir, "jobs/j/nop/evals/one__1", result.ResultFile)
	var trial map[string]any
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, json.Unmarshal(data, &trial))
	trial["agents"] = []result.AgentRun{{Name: "quality", Role: result.RoleJudge, Agent: "call"}}
	data, err = json.Marshal(trial)
	must(t, err)
	must(t, os.WriteFile(file, data, 0o644))
	return e
}

// fullPipe returns a full pipe that is never read.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var fds [2]int
	must(t, unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	t.Cleanup(func() { _ = unix.Close(fds[0]) })
	for {
		_, err := unix.Write(fds[1], make([]byte, 4096))
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		must(t, err)
	}
	must(t, unix.SetNonblock(fds[1], false))
	w := os.NewFile(uintptr(fds[1]), "full")
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// verbsOf returns the verbs in the help text of a command, with their subcommands.
func verbsOf(t *testing.T, path ...string) []string {
	t.Helper()
	text, err := exec.Command(binary, append(path, "--help")...).Output()
	must(t, err)
	_, list, _ := strings.Cut(string(text), "\nUsage:\n")
	list, _, _ = strings.Cut(list, "\nFlags")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) {2,}[A-Z]`).FindAllStringSubmatch(list, -1) // not examples
	if len(commands) == 0 {
		return []string{strings.Join(path, " ")}
	}
	var out []string
	for _, m := range commands {
		out = append(out, verbsOf(t, append(slices.Clone(path), m[1])...)...)
	}
	return out
}

// TestEveryVerbCanBeInterrupted: whatever a verb waits for (a file that never arrives, a server
// that never answers, a reader that has stopped), a signal ends it.
func TestEveryVerbCanBeInterrupted(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	e := newEndless(t)
	lines := []string{
		"run never", "run far.yaml", "run job.yaml --name other --resume --env-file never", "validate never", "validate far.yaml", "validate --run far.yaml",
		"validate evals --env-file never", "plan never", "plan far.yaml", "plan job.yaml", "resume again/j --env-file never", "verify jobs/j --env-file never", "rejudge jobs/j --env-file never",
		"shell job.yaml --env-file never", "report jobs/j --baseline never", "report jobs/j --baseline REGISTRY", "merge jobs/j --output merged", "diff jobs/j never", "diff jobs/j REGISTRY", "compare never jobs/j", "compare jobs/j",
		"ls jobs", "show jobs/j", "view jobs", "view jobs/j", "view jobs --export site", "judges check jobs/j --labels never", "judges check jobs/j", "export jobs/j", "export jobs/j --format csv", "history --jobs-dir jobs", "history add jobs/j --to lines.jsonl",
		"init first", "new task written", "import harbor never", "datasets ls --registry REGISTRY", "datasets ls --check --registry far.json", "datasets show far --registry REGISTRY", "datasets download far --registry far.json --output here",
		"doctor", "doctor never", "doctor job.yaml", "agents ls", "agents show codex", "cache ls", "cache prune --all --dry-run", "clean --env-type sandbox", "schema job", "version", "help",
		"mine repository --dry-run", "mine repository --env-type sandbox --set environment.provider_config.base=host", "completion bash", "completion zsh", "completion fish", "completion powershell",
	}
	for _, verb := range verbsOf(t) {
		if !slices.ContainsFunc(lines, func(line string) bool { return line == verb || strings.HasPrefix(line, verb+" ") }) {
			t.Errorf("no line interrupts rollout %s", verb)
		}
	}
	var all sync.WaitGroup
	for _, line := range lines {
		all.Go(func() { e.interrupt(t, strings.ReplaceAll(line, "REGISTRY", e.registry)) })
	}
	all.Wait()
}

// interrupt runs a verb, interrupts it when it is idle, and waits for its end.
func (e endless) interrupt(t *testing.T, line string) {
	var stderr bytes.Buffer
	cmd := exec.Command(binary, strings.Fields(line)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = e.dir, fullPipe(t), &stderr
	stdin, err := cmd.StdinPipe() // which never ends
	if err != nil {
		t.Error(err)
		return
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state tells how it ended
	}()
	e.awaitRest(cmd.Process.Pid, ended)
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Errorf("rollout %s goes on after a signal", line)
		_ = cmd.Process.Kill()
		<-ended
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("rollout %s ended with %d: %s", line, code, &stderr)
	}
}

// awaitRest waits until a process uses no processor time any more, or has ended.
func (e endless) awaitRest(pid int, ended <-chan struct{}) {
	const calm = 20
	before, same := "", 0
	for same < calm {
		select {
		case <-ended:
			return
		case <-time.After(50 * time.Millisecond): // polls
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return
		}
		// Fields 14 and 15 are the time used, field 3 is the second after the name. Source:
		// proc_pid_stat(5).
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if now := fields[0] + " " + fields[11] + " " + fields[12]; now == before && fields[0] != "R" { // one that is ready may have to wait for a processor
			same++
		} else {
			before, same = now, 0
		}
	}
}
