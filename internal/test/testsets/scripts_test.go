package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scripted runs a script with bash in a directory, and returns its output.
func scripted(t *testing.T, dir, script string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "set -euo pipefail\n"+script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A part that was due, and was left out for want of something, is in the last line.
func TestTheLastLineNamesTheUnfinishedPart(t *testing.T) {
	seconds := regexp.MustCompile(`in \d+ s`)
	for _, tc := range []struct{ left, last string }{
		{"", "CI PASSED in N s"},
		{"leave_out users 'nothing has to run'", "CI PASSED in N s"},
		{"leave_out kubernetes 'no node' kubernetes-program", "CI PASSED in N s, but did not run what was due: kubernetes-program"},
	} {
		out, err := scripted(t, "../../..", ". .ci/lib.sh\ntrap 'rm -rf \"$work\"' EXIT\nparts=' users kubernetes '\n"+tc.left+"\npassed",
			"ROLLOUT_CI_CACHE="+t.TempDir())
		out = seconds.ReplaceAllString(out, "in N s")
		if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || lines[len(lines)-1] != tc.last {
			t.Errorf("%q: %v, %q, want %q", tc.left, err, out, tc.last)
		}
	}
	run, err := os.ReadFile("../../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.TrimSpace(string(run)); !strings.HasSuffix(text, "\npassed") || !strings.Contains(text, "\\\n    kubernetes-program\n") {
		t.Error(".ci/run does not name what was due")
	}
}

// .github/check --changed fails if git does, and looks at packages that have lost a file.
func TestCheckOfAChange(t *testing.T) {
	check, err := os.ReadFile("../../../.github/check")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	log := filepath.Join(bin, "log")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"go", "gofmt", "golangci-lint"} { // which only note what they are asked
		write(filepath.Join(bin, program), "#!/bin/sh\necho "+program+" \"$@\" >> '"+log+"'\n", 0o755)
	}
	write(".github/check", string(check), 0o755)
	for _, name := range []string{"a/x.go", "b/y.go", "b/z.go", "c/only.go", "d/same.go"} {
		write(name, "package p\n", 0o644)
	}
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "ROLLOUT_TEST_LONG=1"}
	if out, err := scripted(t, dir, `git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm one
echo '// more' >> a/x.go && rm b/y.go c/only.go`, env...); err != nil {
		t.Fatal(err, out)
	}
	out, err := scripted(t, dir, ".github/check --changed HEAD", env...)
	if err != nil || !strings.Contains(out, "3 files differ from ") {
		t.Errorf("%v: %s", err, out)
	}
	asked, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gofmt -l a/x.go\n", "run --allow-serial-runners ./a ./b\n", "go run ./internal/test/testsets changed -base "} {
		if !strings.Contains(string(asked), want) {
			t.Errorf("nothing was asked for %q, but for\n%s", want, asked)
		}
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if out, err := scripted(t, dir, ".github/check --changed 0123456789012345678901234567890123456789", env...); err == nil {
		t.Errorf("a commit that does not exist: no error, %s", out)
	}
	if asked, err := os.ReadFile(log); err == nil {
		t.Errorf("although git failed, it went on with\n%s", asked)
	}
}
