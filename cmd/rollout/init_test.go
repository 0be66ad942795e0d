//go:build linux

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInitAsksOnATerminal(t *testing.T) {
	t.Setenv("CI", "")
	dir := t.TempDir()
	r := onTerminal(t, dir, "init", "new")
	r.await(t, "]: ")
	if list := r.text(); !strings.Contains(list, "  docker      ") || !strings.Contains(list, "  kubernetes  ") {
		t.Errorf("the providers are not aligned:\n%s", list)
	}
	r.write(t, "podman\r")
	r.await(t, "there is no provider podman")
	r.write(t, "sandbox\r")
	r.await(t, "Directory with your tasks")
	r.write(t, "nowhere\r")
	r.await(t, "nowhere: there is no such directory")
	r.write(t, "https://127.0.0.1:1/registry.json\r") // init also asks again after this mistake
	r.await(t, "is a registry: name one of its datasets, too")
	r.write(t, "\r")
	r.await(t, "Name of your agent")
	r.write(t, "coder\r")
	if code := r.exit(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	job, err := os.ReadFile(filepath.Join(dir, "new", "job.yaml"))
	must(t, err)
	for _, want := range []string{"\nenvironment:\n  type: sandbox\n", `- name: "coder"`, "path: evals"} {
		if !strings.Contains(string(job), want) {
			t.Errorf("the job file has no %q:\n%s", want, job)
		}
	}
}

func TestInitTakesADatasetOfARegistry(t *testing.T) {
	t.Setenv("CI", "")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"name": "set", "version": "1.0", "description": "", "metrics": [],
			"tasks": [{"name": "a", "git_url": "https://git.example.org/tasks.git", "git_commit_id": "main", "path": "a"}]}]`)
	}))
	defer web.Close()
	dir := t.TempDir()
	r := onTerminal(t, dir, "init")
	r.await(t, "]: ")
	r.write(t, "\r")
	r.await(t, "Directory with your tasks, NAME@VERSION")
	r.write(t, web.URL+"/registry.json set@2.0\r")
	r.await(t, "1.0")
	r.write(t, web.URL+"/registry.json set@1.0\r")
	r.await(t, "Name of your agent")
	r.write(t, "oracle\r")
	if code := r.exit(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	job, err := os.ReadFile(filepath.Join(dir, "job.yaml"))
	must(t, err)
	if want := "\ndatasets:\n  - registry: {url: \"" + web.URL + "/registry.json\"}\n    name: \"set\"\n    version: \"1.0\"\n"; !strings.Contains(string(job), want) {
		t.Errorf("the job file has no %q:\n%s", want, job)
	}
}

func TestInitLeavesNothingWhenInterrupted(t *testing.T) {
	t.Setenv("CI", "")
	for key, want := range map[string]int{"\x03": 130, "\x04": 2} { // Ctrl-C, and Ctrl-D, which ends the input
		dir := t.TempDir()
		r := onTerminal(t, dir, "init", "new")
		r.await(t, "]: ")
		r.write(t, "\r")
		r.await(t, "Directory with your tasks")
		r.write(t, key)
		if code := r.exit(t); code != want {
			t.Errorf("%q: exit code %d, want %d", key, code, want)
		}
		if !strings.Contains(r.text(), "nothing was written") {
			t.Errorf("%q: nothing says that nothing was written", key)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%q: left %v, %v", key, entries, err)
		}
	}
}

func TestInitAsksNothingInCIOrWithYes(t *testing.T) {
	for ci, args := range map[string][]string{"true": {"init"}, "": {"init", "--yes"}} {
		t.Setenv("CI", ci)
		dir := t.TempDir()
		r := onTerminal(t, dir, args...)
		if code := r.exit(t); code != 0 || strings.Contains(r.text(), "Provider") {
			t.Errorf("%q: exit code %d", args, code)
		}
		if _, err := os.Stat(filepath.Join(dir, "job.yaml")); err != nil {
			t.Error(err)
		}
	}
}
