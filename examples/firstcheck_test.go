package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is a shell block of a page, with what the page shows of its output.
type step struct {
	commands string
	output   []string // lines; "…" stands for any number of lines; nil: the page shows nothing
}

// parseSteps returns the shell blocks of a page. What follows a block at once, as a block of text
// or as a quotation, is its output.
func parseSteps(page string) []step {
	var steps []step
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] != "```sh" {
			continue
		}
		end := i + 1 + slices.Index(lines[i+1:], "```")
		s := step{commands: strings.Join(lines[i+1:end], "\n")}
		switch next := end + 2; {
		case next < len(lines) && lines[next] == "```text":
			s.output = lines[next+1 : next+1+slices.Index(lines[next+1:], "```")]
		case next < len(lines) && strings.HasPrefix(lines[next], ">"):
			for ; strings.HasPrefix(lines[next], ">"); next++ {
				s.output = append(s.output, strings.TrimPrefix(strings.TrimPrefix(lines[next], ">"), " "))
			}
		}
		steps = append(steps, s)
		i = end
	}
	return steps
}

var (
	durations = regexp.MustCompile(`\b\d+(?:\.\d+)?(?:ms|s)\b|\b\d+m\d+s\b`)
	commits   = regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)
	gaps      = regexp.MustCompile(`[ ─]+`)
)

// comparable returns a line without what differs between two runs: durations, commits, and the
// widths of columns.
func comparable(line string) string {
	line = commits.ReplaceAllString(durations.ReplaceAllString(line, "TIME"), "COMMIT")
	return strings.TrimSpace(gaps.ReplaceAllString(line, " "))
}

// notPrinted returns the first lines of want that do not follow each other in got, or nil. "…" in
// want stands for any number of lines.
func notPrinted(want, got []string) []string {
	equal := func(a, b string) bool { return comparable(a) == comparable(b) }
	open := false // any number of lines may come first
	for len(want) > 0 {
		if want[0] == "…" {
			want, open = want[1:], true
			continue
		}
		n := slices.Index(want, "…")
		if n < 0 {
			n = len(want)
		}
		at := 0
		for open && at+n < len(got) && !slices.EqualFunc(want[:n], got[at:at+n], equal) {
			at++
		}
		if at+n > len(got) || !slices.EqualFunc(want[:n], got[at:at+n], equal) {
			return want[:n]
		}
		want, got, open = want[n:], got[at+n:], false
	}
	if !open && len(got) > 0 {
		return []string{"the end, but there is: " + got[0]}
	}
	return nil
}

func TestNotPrinted(t *testing.T) {
	got := []string{"a", "b  in 1.5s", "c at 4020e5c", "d"}
	for want, missing := range map[string]string{
		"a|b in 20ms|c at 753434d0|d": "", "a|…": "", "…|d": "", "…": "", "…|b in 0s|…": "", "a|…|c at 0123456|d": "",
		"a": "the end, but there is: b  in 1.5s", "b in 1s|…": "b in 1s", "…|d|c|…": "d|c", "…|c at 0123456": "the end, but there is: d", "a|x|…": "a|x",
	} {
		if lines := strings.Join(notPrinted(strings.Split(want, "|"), got), "|"); lines != missing {
			t.Errorf("%s: missing is %q, want %q", want, lines, missing)
		}
	}
}

// TestFirstRedCheck runs the commands of docs/first-red-check.md in one shell, and compares what
// they print with what the page shows.
func TestFirstRedCheck(t *testing.T) {
	steps := parseSteps(string(pages(t)["docs/first-red-check.md"]))
	if shown := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.output == nil }); len(steps) < 10 || len(shown) < 8 {
		t.Fatalf("the page has %d shell blocks, %d with their output: the test does not find them", len(steps), len(shown))
	}
	dir := t.TempDir()
	env := providers["sandbox"].prepare(t, dir)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(build(t), filepath.Join(bin, "rollout")); err != nil {
		t.Fatal(err)
	}
	const mark = "-- the next block --"
	var script strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&script, "%s\necho %q\n", s.commands, mark)
	}
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(script.String())
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GITHUB_") }), env...)
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "NO_COLOR=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	t.Logf("%s%s", &stdout, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	outputs := strings.Split(stdout.String(), mark+"\n")
	if len(outputs) != len(steps)+1 {
		t.Fatalf("%d of %d blocks ended", len(outputs)-1, len(steps))
	}
	for i, s := range steps {
		got := strings.Split(strings.TrimRight(outputs[i], "\n"), "\n")
		if s.output == nil {
			s.output = []string{""}
		}
		if lines := notPrinted(s.output, got); lines != nil {
			t.Errorf("%s\ndoes not print:\n%s", s.commands, strings.Join(lines, "\n"))
		}
	}
}
