//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/scripted"
	"github.com/org/rollout-action/internal/test/testenv"
)

// keyOfModel is the real key of a model. Nothing that the test searches contains it, not even this
// source: scripts contain the pattern.
const (
	keyOfModel = "sk-nobody-may-see-73550119"
	keyPattern = "sk-nobody-may-see[-]73550119"
)

// searching is a script that looks for the key wherever root can look in an environment, and writes
// the matches to $1. It searches files that changed within the hour: with the host's own system as
// the image there are too many others.
const searching = `
out=$1
for p in /proc/[0-9]*; do
	for what in environ cmdline; do
		if tr '\0' '\n' <"$p/$what" 2>/dev/null | grep -q '` + keyPattern + `'; then echo "$p/$what" >>"$out"; fi
	done
done
find / -xdev \( -path /proc -o -path /sys -o -path /dev \) -prune -o -type f -mmin -60 -size -20M -print0 2>/dev/null |
	xargs -0r grep -la '` + keyPattern + `' 2>/dev/null >>"$out"
find /tmp /run /dev/shm /agent /logs /rollout -type f -size -20M -print0 2>/dev/null | xargs -0r grep -la '` + keyPattern + `' 2>/dev/null >>"$out"
env | grep '` + keyPattern + `' >>"$out"
echo searched >>"$out"
`

// The real key of a model must only be in the memory of Rollout, in its own variables, and in its
// requests to the provider.
func TestTheModelKeyReachesOnlyTheProvider(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		script := scripted.Script{Answers: []scripted.Answer{{Text: "the key is " + keyOfModel}}, Repeat: true}
		must(t, script.Check())
		upstream := scripted.New(script)
		n := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer "+keyOfModel {
				t.Errorf("the key is %q", got)
			}
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			if n++; n == 1 {
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprintf(w, `{"error":{"message":"%s and %s"}}`, keyOfModel, base64.StdEncoding.EncodeToString([]byte("Bearer "+keyOfModel)))
				return
			}
			answer, err := upstream.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			_, _ = io.Copy(w, answer.Body)
		}))
		t.Cleanup(server.Close)
		name := fmt.Sprintf("key-%s-%d", provider, time.Now().UnixNano())
		dir := t.TempDir()
		for path, text := range map[string]string{
			"job.yaml": fmt.Sprintf(`name: %s
environment: {type: %s, keep: outcome, provider_config: %s}
models:
  m: {api: openai-chat, model: big, base_url: "%s", api_key: "${REAL_KEY}", record_to: tapes}
agents:
  - name: asker
    model: m
    cache_install: true
    files: [./agent]
    install: bash /agent/search.sh /installed-searched
    execute: |
      bash /agent/ask.sh 2 || exit
      bash /agent/search.sh /logs/agent/found.txt
      cp /installed-searched /logs/agent/installed.txt
      sleep 2
datasets:
  - path: evals
`, name, provider, configOf(provider), server.URL),
			"agent/ask.sh":              askingAgent,
			"agent/search.sh":           searching,
			"evals/task/task.toml":      "version = \"1.0\"\n[environment]\ndocker_image = \"" + testenv.Image + "\"\nnetwork = \"none\"\n",
			"evals/task/instruction.md": "Ask.\n",
			"evals/task/tests/test.sh":  "bash /agent/search.sh /logs/verifier/found.txt\necho 1 > /logs/verifier/reward.txt\n",
		} {
			path := filepath.Join(dir, path)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}
		r := &run{cmd: exec.Command(binary, "job.yaml", "--markdown", "report.md", "--junit", "junit.xml"), output: &bytes.Buffer{}}
		r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr, r.cmd.Env = dir, r.output, r.output, append(os.Environ(), "REAL_KEY="+keyOfModel)
		must(t, r.cmd.Start())
		watched := make(chan map[string]bool)
		ended := make(chan struct{})
		go func() { watched <- watchProcesses(r.cmd.Process.Pid, ended) }()
		code := r.exit(t)
		close(ended)
		if code != 0 {
			t.Fatalf("exit code %d:\n%s", code, r.output)
		}
		for found := range <-watched {
			t.Errorf("a process of this machine has the key: %s", found)
		}
		if strings.Contains(r.output.String(), keyOfModel) {
			t.Errorf("the output has the key:\n%s", r.output)
		}
		tree, err := result.ReadTree(filepath.Join(dir, "jobs", name))
		must(t, err)
		tr := tree.Trials[0]
		for _, log := range []string{"agent/found.txt", "agent/installed.txt", "verifier/found.txt"} {
			text, err := os.ReadFile(filepath.Join(dir, "jobs", name, filepath.FromSlash(tr.Dir()), result.LogsDir, filepath.FromSlash(log)))
			if err != nil || string(text) != "searched\n" {
				t.Errorf("%s: the environment has the key: %v\n%s", log, err, text)
			}
		}
		if n != 2 || tr.Usage == nil || tr.Usage.Turns != 1 {
			t.Errorf("the provider was asked %d times; usage %+v", n, tr.Usage)
		}
		must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(keyOfModel)) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(keyOfModel)))) {
				t.Errorf("%s has the key", path)
			}
			return err
		}))
		searchKept(t, provider, name)
	})
}

// configOf returns the provider_config of a provider in tests.
func configOf(provider string) string {
	if text, ok := configs[provider]; ok {
		return text
	}
	return "{}"
}

// watchProcesses returns the processes of this machine with the key in their arguments, and the
// descendants of a process with the key in their variables, until ended is closed.
func watchProcesses(of int, ended <-chan struct{}) map[string]bool {
	found := map[string]bool{}
	own, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", of)) // it may have ended
	for {
		parents := map[int]int{}
		list, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range list {
			pid, _ := strconv.Atoi(filepath.Base(p))
			if text, err := os.ReadFile(p + "/cmdline"); err == nil && bytes.Contains(text, []byte(keyOfModel)) {
				found[fmt.Sprintf("%s/cmdline: %q", p, text)] = true
			}
			if text, err := os.ReadFile(p + "/stat"); err == nil {
				if fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(fields) > 1 {
					parents[pid], _ = strconv.Atoi(fields[1])
				}
			}
		}
		for pid := range parents {
			up := parents[pid]
			for up > 1 && up != of {
				up = parents[up]
			}
			if up != of {
				continue
			}
			arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // ended processes have none
			if bytes.Equal(arguments, own) {
				continue // between fork and exec it is Rollout's own memory
			}
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && bytes.Contains(text, []byte(keyOfModel)) {
				found[fmt.Sprintf("the variables of %q", arguments)] = true
			}
		}
		select {
		case <-ended:
			return found
		case <-time.After(20 * time.Millisecond): // polls the kernel
		}
	}
}

// searchKept searches the containers, images and image layers that a provider keeps of a job, and
// removes them.
func searchKept(t *testing.T, provider, name string) {
	t.Helper()
	p, err := open(provider)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	ctx := context.Background()
	listed, err := p.List(ctx)
	must(t, err)
	kept := 0
	for _, l := range listed {
		if l.Labels.Job != name {
			continue
		}
		kept++
		if provider == "docker" {
			parent, err := exec.Command("docker", "image", "inspect", "-f", "{{.Parent}}", imageOf(l)).Output()
			must(t, err)
			t.Cleanup(func() {
				if out, err := exec.Command("docker", "rmi", strings.TrimSpace(string(parent))).CombinedOutput(); err != nil {
					t.Errorf("remove the layer: %v: %s", err, out)
				}
			})
		}
		t.Cleanup(func() {
			if err := p.Remove(ctx, l.ID); err != nil {
				t.Error(err)
			}
		})
		searchEnvironment(t, provider, l)
	}
	if kept == 0 {
		t.Error("no environment was kept")
	}
}

// imageOf returns the image in which docker stores the files of an environment.
func imageOf(l environment.Listed) string {
	return "rollout/outcome:" + strings.TrimPrefix(l.ID, "outcome-")
}

func searchEnvironment(t *testing.T, provider string, l environment.Listed) {
	t.Helper()
	if provider != "docker" {
		return // its files are below the store, which the test of the environment's own files has searched
	}
	testenv.NeedDocker(t)
	// The image and its history include the agent's layer.
	for _, args := range [][]string{{"image", "inspect", imageOf(l)}, {"history", "--no-trunc", imageOf(l)}, {"save", imageOf(l)}} {
		command := exec.Command("docker", args...)
		out, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		found := contains(out, keyOfModel)
		if err := command.Wait(); err != nil {
			t.Errorf("docker %s: %v", strings.Join(args, " "), err)
		}
		if found {
			t.Errorf("docker %s has the key", strings.Join(args, " "))
		}
	}
}

// contains reports whether a stream contains a text.
func contains(from io.Reader, text string) bool {
	r := bufio.NewReaderSize(from, 1<<20)
	var tail []byte
	buffer := make([]byte, 1<<20)
	found := false
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			joined := append(tail, buffer[:n]...)
			found = found || bytes.Contains(joined, []byte(text))
			tail = bytes.Clone(joined[max(0, len(joined)-len(text)):])
		}
		if err != nil {
			return found
		}
	}
}
