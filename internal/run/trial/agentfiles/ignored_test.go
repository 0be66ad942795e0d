package agentfiles

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/test/testenv"
)

// TestIgnoresWhatGitIgnores compares with git itself, on made-up trees and patterns.
func TestIgnoresWhatGitIgnores(t *testing.T) {
	testenv.NeedGit(t)
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	pattern := func() string {
		text := pick("", "", "!", "/", "!/", "**/", "b/**/")
		text += pick("a", "b", "*.x", "a*", "?", "[ab]", "a/b", "b/*", "a/**", "**/c.x", "*", "{a,b}", "a.x ", `\#c`, "#c", "[!a]", `a\ `, "a**x", "c.x\r")
		return text + pick("", "", "", "/")
	}
	names := []string{"a", "b", "a.x", "c.x", "ax", "#c", "{a,b}", "a ", "d"}
	for range 100 {
		dir := t.TempDir()
		var described []string
		write := func(name, text string) {
			t.Helper()
			path := filepath.Join(dir, name)
			if os.MkdirAll(filepath.Dir(path), 0o755) == nil && os.WriteFile(path, []byte(text), 0o644) == nil && strings.HasSuffix(name, ignoreFile) {
				described = append(described, fmt.Sprintf("%s: %q", name, text))
			}
		}
		for range 12 {
			path := pick(names...)
			for range r.IntN(3) {
				path = filepath.Join(path, pick(names...))
			}
			write(path, "") // where a file is in the way there is one file less
		}
		for _, at := range []string{"", "a", "b"} {
			var lines []string
			for range r.IntN(4) {
				lines = append(lines, pattern())
			}
			if info, err := os.Stat(filepath.Join(dir, at)); err == nil && info.IsDir() && len(lines) > 0 {
				write(filepath.Join(at, ignoreFile), strings.Join(lines, "\n"))
			}
		}
		git := func(args ...string) string {
			cmd := exec.Command("git", append([]string{"-C", dir, "-c", "core.excludesFile=/dev/null"}, args...)...)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("git %q: %v", args, err)
			}
			return string(out)
		}
		git("init", "-q")
		want := strings.FieldsFunc(git("ls-files", "-z", "--others", "--exclude-standard"), func(r rune) bool { return r == 0 })
		slices.Sort(want)
		var got []string
		set, _, err := Load(t.Context(), []Entry{{File: agent.File{Source: ".", Target: "/x", Gitignore: true}, Path: dir}})
		if err == nil {
			for name, f := range set.files {
				if !f.empty {
					got = append(got, strings.TrimPrefix(name, "x/"))
				}
			}
			slices.Sort(got)
		} else if !strings.Contains(err.Error(), "has no files but those") {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			var all []string
			_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
				if e.IsDir() && e.Name() == ".git" {
					return fs.SkipDir
				}
				rel, _ := filepath.Rel(dir, path)
				all = append(all, rel)
				return nil
			})
			t.Fatalf("%s\nof %q\ngot  %q\nwant %q", strings.Join(described, "\n"), all, got, want)
		}
	}
}
