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

// library runs a script with the functions of .ci/lib.sh, and returns its output.
func library(t *testing.T, script string) string {
	t.Helper()
	out, err := scripted(t, "../../..", ". .ci/lib.sh\ntrap 'rm -rf \"$work\"' EXIT\n"+script, "ROLLOUT_CI_CACHE="+t.TempDir())
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

// CI gives the versions of all programs that tests use to the digests of parts.
func TestVersionsOfToolsAreGiven(t *testing.T) {
	bin := t.TempDir()
	for _, program := range []string{"cargo", "chromium", "docker", "git", "google-chrome", "make", "node", "python3"} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\necho 'this "+program+" 1'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out := library(t, `PATH='`+bin+`':$PATH
machine
printf '%s\n' "${facts[@]}"`)
	if described, _, _ := strings.Cut(out, "-tool"); !strings.Contains(described, "this git 1") {
		t.Errorf("the machine is described without the version of git:\n%s", out)
	}
	for name, tools := range uses {
		for _, tool := range tools {
			if !regexp.MustCompile(`(?m)^-tool\n` + tool + `=this [\w-]+ 1$`).MatchString(out) {
				t.Errorf("%s uses %s, whose version is not given:\n%s", name, tool, out)
			}
		}
	}
}

// Packages are divided by what a change has to prove with them.
func TestHowPackagesAreTested(t *testing.T) {
	const script = `printf '%s\n' ./a/machine ./b/machine > "$work/machine"
printf '%s\n' ./a/computes ./b/computes > "$work/pure"
for name in machine computes plain; do
  state["tests ./a/$name"]=run state["tests ./b/$name"]=same state["tests ./c/$name"]=passed
done
divide "$work/machine" "$work/pure" < <(printf '%s\n' ./{a,b,c}/{machine,computes,plain})
echo "race ${race[*]}"; echo "pure ${pure[*]}"; echo "others ${others[*]}"; echo "cached ${cached[*]}"`
	const want = "race ./a/machine ./a/plain\npure ./a/computes\nothers ./b/machine\ncached ./b/computes ./b/plain\n"
	if out := library(t, script); out != want {
		t.Errorf("they are %q, want %q", out, want)
	}
}

func TestPackagesThatTakeLongestComeFirst(t *testing.T) {
	if out := library(t, "printf '%s\\n' ./a ./b ./b/c ./d | longest_first ./d ./none ./b\nlongest_first ./a < /dev/null"); out != "./d\n./b\n./a\n./b/c\n" {
		t.Errorf("they are %q", out)
	}
}

// The table has the seconds of each part, those of processors, and what was left out.
func TestTableOfParts(t *testing.T) {
	out := library(t, `printf '%6d %6d\n' 9 3 > "$work/took/short"
printf '%6d %6d\n' 1200 2100 > "$work/took/long"
parts=' users '
leave_out users 'nothing has to run'
table`)
	want := "\n=== seconds of each part, and of processors in it; several parts run at a time\n" +
		"  1200   2100  long\n     9      3  short\n   left out: users: nothing has to run\n"
	if out != want {
		t.Errorf("it is\n%s\nwant\n%s", out, want)
	}
}

// A part that needs another one's work begins after it. Until then, the queue goes on with others.
func TestAQueuedPartWaitsForAnother(t *testing.T) {
	const script = `first() { for n in {1..6000}; do [ ! -e "$work/second" ] || break; sleep 0.01; done; echo first >> "$work/order"; }
second() { echo second >> "$work/order"; : > "$work/second"; }
third() { [ -e "$work/passed/the first" ] && echo third >> "$work/order"; }
begin 'the first' first
queue 'the third' third 'the first'
queue 'the second' second
work_off 1 'the first' > "$work/printed"
cat "$work/order"
grep -c '^took [0-9]* s, and [0-9]* s of processors$' "$work/printed"
find "$work/took" -type f | wc -l`
	if out := library(t, script); out != "second\nfirst\nthird\n3\n3\n" {
		t.Errorf("it prints %q", out)
	}
	const uncounted = `waits() { for n in {1..6000}; do [ ! -e "$work/done" ] || break; sleep 0.01; done; echo waits >> "$work/order"; }
free() { echo free >> "$work/order"; : > "$work/done"; }
queue 'one' waits
queue 'another' free
work_off 1 'another' > "$work/printed"
await "${!running[@]}" > "$work/printed"
cat "$work/order"`
	if out := library(t, uncounted); out != "free\nwaits\n" {
		t.Errorf("while as many parts run as may, an uncounted one waits: it prints %q", out)
	}
	out, err := scripted(t, "../../..", `. .ci/lib.sh
trap 'rm -rf "$work"' EXIT
breaks() { false; }
begin 'the first' breaks
queue 'the second' true 'the first'
work_off 1 'the first'
echo 'it goes on'`, "ROLLOUT_CI_CACHE="+t.TempDir())
	if err == nil || strings.Contains(out, "it goes on") {
		t.Errorf("although the first part fails: %v, %s", err, out)
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
