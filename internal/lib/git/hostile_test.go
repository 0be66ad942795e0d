package git_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/test/testprogram"
)

// Whatever a commit contains, nothing is written outside of the directory, nothing runs, and the
// problem is reported.
func TestHostileCommits(t *testing.T) {
	s := newScene(t)
	s.client = git.New(git.Options{RetryDelay: time.Millisecond, MaxBytes: 2 << 20, MaxFiles: 1000})
	file := func(name string) string { return "100644 blob " + s.repo.Blob("x") + "\t" + name }
	link := func(name, to string) string { return "120000 blob " + s.repo.Blob(to) + "\t" + name }
	dir := func(name string, entries ...string) string {
		return "040000 tree " + s.repo.Tree(entries...) + "\t" + name
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = file(fmt.Sprint(i))
	}
	commit := strings.Repeat("1", 40)
	for _, tc := range []struct {
		name string
		tree []string
		want string // the problem; "" means none
		got  string // the files written
	}{
		{name: "dots", tree: []string{dir("..", file("x"))}, want: `the name ".."`},
		{name: "a dot", tree: []string{dir(".", file("x"))}, want: `the name "."`},
		{name: "a repository in it", tree: []string{dir(".git", file("config"))}, want: "the name .git"},
		{name: "a repository for other systems", tree: []string{dir(".GiT", file("config"))}, want: "the name .git"},
		{name: "a line break", tree: []string{file("a\nb")}, want: "control characters"},
		{name: "an escape sequence", tree: []string{file("a\x1b[2Jb")}, want: "control characters"},
		{name: "no UTF-8", tree: []string{file("a\xffb")}, want: "not UTF-8"},
		{name: "a long name", tree: []string{file(strings.Repeat("n", 256))}, want: "more than 255 bytes"},
		{name: "a file twice", tree: []string{file("a"), file("a")}, want: "two files called a"},
		{name: "a file and a directory", tree: []string{file("a"), dir("a", file("b"))}, want: "a is a file as well as a directory"},
		{name: "a link and a directory", tree: []string{link("a", "/etc"), dir("a", file("passwd"))}, want: "a is a file as well as a directory"},
		{name: "a link with a long target", tree: []string{link("a", strings.Repeat("x", 5000))}, want: "longer than 4095 bytes"},
		{name: "a link with a NUL", tree: []string{link("a", "x\x00y")}, want: "the link a cannot be written"},
		{name: "a huge file", tree: []string{"100644 blob " + s.repo.Blob(strings.Repeat("x", 3<<20)) + "\ta"}, want: "is larger than the 2 MiB"},
		{name: "too many files", tree: many, want: "holds 1001 files, more than the 1000"},
		{name: "dashes", tree: []string{file("--help"), file("-rf")}, got: "--help 644 \"x\"\n-rf 644 \"x\"\n"},
		{name: "links that point outside", tree: []string{link("a", "/etc/passwd"), link("b", "../../..")}, got: "a -> /etc/passwd\nb -> ../../..\n"},
		{name: "a submodule", tree: []string{"160000 commit " + commit + "\tsub", file(".gitmodules")}, got: ".gitmodules 644 \"x\"\nsub/\n"},
		{name: "attributes that run things", tree: []string{
			"100644 blob " + s.repo.Blob("* filter=evil eol=crlf export-ignore\n") + "\t.gitattributes", file("f"),
		}, got: ".gitattributes 644 \"* filter=evil eol=crlf export-ignore\\n\"\nf 644 \"x\"\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := *s
			at.T = t
			id := s.repo.CommitTree("b", s.repo.Tree(dir("task", tc.tree...), dir("other", file("fine"))))
			into, directories, err := at.export(id, "task", "other")
			if err != nil {
				t.Fatal(err)
			}
			if got := tree(t, filepath.Join(into, "1")); got != "fine 644 \"x\"\n" {
				t.Errorf("the other directory: %s %v", got, directories[1])
			}
			if tc.want != "" {
				if len(directories[0].Problems) == 0 || !strings.Contains(directories[0].Problems[0], tc.want) || strings.ContainsAny(directories[0].Problems[0], "\x1b\n") {
					t.Errorf("%q, want %s", directories[0].Problems, tc.want)
				}
				if _, err := os.Lstat(filepath.Join(into, "0")); err == nil {
					t.Error("something was written")
				}
				return
			}
			got := tree(t, filepath.Join(into, "0"))
			if got != tc.got || len(directories[0].Problems) > 0 {
				t.Errorf("got\n%s%v\nwant\n%s", got, directories[0].Problems, tc.got)
			}
			if tc.name == "a submodule" && (len(directories[0].Warnings) != 1 || !strings.Contains(directories[0].Warnings[0], "the submodule sub is not fetched")) {
				t.Errorf("warnings %v", directories[0].Warnings)
			}
		})
	}
}

// The fetch of a repository that is too large is ended.
func TestTooLargeRepositoryIsRefused(t *testing.T) {
	s := newScene(t)
	files := map[string]string{"task/big": incompressible(4 << 20)}
	id := s.repo.Commit("main", files)
	s.repo.Config("uploadpack.allowFilter", "false")
	s.client = git.New(git.Options{RetryDelay: time.Millisecond, MaxBytes: 1 << 20})
	_, directories, err := s.export(id, "task")
	// A fast machine may finish before the size is measured; then the directory is refused.
	if err == nil && (len(directories[0].Problems) != 1 || !strings.Contains(directories[0].Problems[0], "is larger than the 1 MiB")) ||
		err != nil && !strings.Contains(err.Error(), "it is larger than allowed") {
		t.Errorf("%v, %v", directories, err)
	}
}

// User configuration, variables that redirect git, and hooks from templates have no effect.
func TestUserConfigurationHasNoEffect(t *testing.T) {
	s := newScene(t)
	id := s.repo.Commit("main", hello)
	home, marker := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	config := fmt.Sprintf("[core]\n\thooksPath = %[1]s\n\tfsmonitor = touch %[2]s\n\taskPass = %[1]s/ask\n[init]\n\ttemplateDir = %[1]s\n"+
		"[url \"https://elsewhere.invalid/\"]\n\tinsteadOf = %[3]s/\n[credential]\n\thelper = !touch %[2]s\n[protocol]\n\tallow = never\n", home, marker, s.server.URL)
	hook := "#!/bin/sh\ntouch " + marker + "\n"
	for name, text := range map[string]string{".gitconfig": config, "reference-transaction": hook, "post-checkout": hook, "ask": hook, "hooks/reference-transaction": hook} {
		testprogram.Write(t, filepath.Join(home, name), text)
	}
	s.client = git.New(git.Options{RetryDelay: time.Millisecond, Environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_DIR=/nowhere", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.allow", "GIT_CONFIG_VALUE_0=never",
		"GIT_ASKPASS=" + home + "/ask", "GIT_TEMPLATE_DIR=" + home, "GIT_EXTERNAL_DIFF=" + home + "/ask", "GIT_PROXY_COMMAND=" + home + "/ask",
	}})
	into, _, err := s.export(id, "tasks/hello")
	if err != nil {
		t.Fatal(err)
	}
	if got := tree(t, filepath.Join(into, "0")); got != helloTree {
		t.Errorf("got\n%s", got)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a command of the user's configuration ran")
	}
}
