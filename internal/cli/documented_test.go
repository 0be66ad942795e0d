package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/cli/command"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	codeSpan   = regexp.MustCompile("`([^`]+)`")
	flagName   = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// otherFlags are flags of other programs that pages mention.
var otherFlags = []string{"security-opt", "user", "scope", "pid", "repo", "cap-add"}

// TestDocumentedCommands parses every rollout command in the shell blocks and the code spans of
// README.md and docs, and looks up every flag that pages for users mention.
func TestDocumentedCommands(t *testing.T) {
	flags := map[string]bool{}
	for _, c := range userCommands() {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	}
	for _, name := range otherFlags {
		flags[name] = true
	}
	commands := 0
	check := func(path string) error {
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
			for line := range strings.Lines(block[1]) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), " # ")
				if command, ok := strings.CutPrefix(line, "rollout "); ok {
					commands++
					if err := documentedCommand(command, true); err != nil {
						t.Errorf("%s: %s: %v", path, line, err)
					}
				}
			}
		}
		text := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(page), "")
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			line := strings.ReplaceAll(strings.ReplaceAll(span[1], `\|`, "|"), "\n", " ")
			for _, m := range flagName.FindAllStringSubmatch(line, -1) {
				if !flags[m[1]] && !strings.Contains(filepath.ToSlash(path), "docs/internals/") { // those name flags of many programs
					t.Errorf("%s: no command has the flag --%s", path, m[1])
				}
			}
			if command, ok := strings.CutPrefix(line, "rollout "); ok {
				commands++
				if err := documentedCommand(command, false); err != nil {
					t.Errorf("%s: %s: %v", path, line, err)
				}
			}
		}
		return nil
	}
	top := filepath.Join("..", "..")
	if err := check(filepath.Join(top, "README.md")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		return check(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	if commands < 40 {
		t.Errorf("found only %d commands: this test looks in the wrong place", commands)
	}
}

// documentedCommand parses what follows "rollout". A command in a sentence may lack its arguments.
func documentedCommand(line string, whole bool) error {
	list := words(strings.NewReplacer(" N", " 1", "[", "", "]", "").Replace(line))
	root := newRoot(command.New(context.Background(), System(), "", ""))
	root.InitDefaultCompletionCmd()
	args := runByDefault(root, "", list)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("there is no such command")
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if whole {
		return cmd.ValidateArgs(cmd.Flags().Args())
	}
	return nil
}

// inPipeline matches a rollout command in a file of another CI system, up to what its shell adds.
var inPipeline = regexp.MustCompile(`(?:^|[\s"])rollout (run|merge) ([^#|"\n]*(?:"[^"\n]*"[^#|"\n]*)*)`)

// TestPipelineCommands parses every rollout command in the pipelines of examples/pipelines, and in
// the component that one includes.
func TestPipelineCommands(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "pipelines", "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("pipelines: %q, %v", files, err)
	}
	component := filepath.Join("..", "..", "templates", "rollout.yml")
	for i, file := range files {
		if filepath.Base(file) == "gitlab-ci.yml" { // it includes the component
			files[i] = component
		}
	}
	if !slices.Contains(files, component) {
		t.Errorf("no pipeline includes %s", component)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, m := range inPipeline.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
			if err := documentedCommand(m[1]+" "+strings.TrimSpace(m[2]), true); err != nil {
				t.Errorf("%s: rollout %s %s: %v", file, m[1], m[2], err)
			}
		}
		if !found["run"] || !found["merge"] {
			t.Errorf("%s: found only %v", file, found)
		}
	}
}
