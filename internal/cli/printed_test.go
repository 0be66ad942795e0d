package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/cli/command"
)

// Whatever commands Rollout prints can be pasted into a shell. The scripts hold it to that: each
// command line in the output of a command is run as it was printed, in a copy of the script's
// directory, and must be no wrong usage.

// mention is the beginning of a command line in a text.
var mention = regexp.MustCompile(`(?:^|[\s(:"` + "`" + `])rollout ([^\s][^\n]*)`)

// mentions are the texts after each "rollout", to the end of the line.
func mentions(text string) []string {
	var out []string
	for at := mention.FindStringSubmatchIndex(text); at != nil; at = mention.FindStringSubmatchIndex(text) {
		out = append(out, text[at[2]:at[3]])
		text = text[at[2]:] // there may be more in the line
	}
	return out
}

// words splits what follows "rollout" as a shell would: up to the end of the line, or of the
// parentheses around it.
func words(text string) []string {
	var out []string
	var word strings.Builder
	quoted, escaped, begun := rune(0), false, false
	end := func() {
		if begun {
			out = append(out, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quoted != '\'':
			escaped, begun = true, true
		case quoted != 0 && r == quoted:
			quoted = 0
		case quoted != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quoted, begun = r, true
		case r == ' ':
			end()
		case strings.ContainsRune(");`|&<>,", r):
			end()
			return out
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return out
}

// prose is a word of a sentence rather than an argument: nothing but letters, and no file of that
// name.
func prose(dir, word string) bool {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz:.,") != "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(dir, strings.TrimRight(word, ".:")))
	return err != nil && !strings.Contains(strings.TrimRight(word, ".:"), ".")
}

// takesValue reports whether a word is a flag of the command whose value is the next word.
func takesValue(verb, flag string) bool {
	a := command.New(context.Background(), System(), "", "")
	cmd, _, err := newRoot(a).Find([]string{verb})
	if err != nil || !strings.HasPrefix(flag, "--") {
		return false
	}
	f := cmd.Flags().Lookup(strings.TrimPrefix(flag, "--"))
	return f != nil && f.NoOptDefVal == "" && !strings.Contains(flag, "=")
}

// commandIn is the longest beginning of words that is a command line: what comes after it is the
// sentence around it. ok is false where no beginning is.
func commandIn(dir string, list []string) (args []string, ok bool) {
	for i, word := range list[min(1, len(list)):] {
		if prose(dir, word) && !takesValue(list[0], list[i]) {
			list = list[:i+1]
			break
		}
	}
	for n := len(list); n > 0; n-- {
		args := slices.Clone(list[:n])
		args[n-1] = strings.TrimRight(args[n-1], ".:")
		a := command.New(context.Background(), System(), "", "")
		root := newRoot(a)
		if prose(dir, args[0]) && runByDefault(root, dir, args)[0] != args[0] {
			continue
		}
		args = runByDefault(root, dir, args)
		cmd, rest, err := root.Find(args)
		if err != nil || cmd == root {
			continue
		}
		cmd.InitDefaultHelpFlag()
		if cmd.ParseFlags(rest) != nil {
			continue
		}
		if _, job := takesJobs[cmd.Name()]; job && cmd.Flags().NArg() == 0 {
			continue // the sentence names the verb; whether there is a newest job is not its matter
		}
		if cmd.ValidateArgs(cmd.Flags().Args()) == nil && cmd.ValidateRequiredFlags() == nil {
			return args, true
		}
	}
	return nil, false
}

// named is a command that a sentence names without its arguments ("rollout report says it again").
func named(list []string) bool {
	a := command.New(context.Background(), System(), "", "")
	cmd, _, err := newRoot(a).Find([]string{strings.TrimRight(list[0], ".:")})
	return err == nil && cmd.HasParent()
}

// judge is what runPrinted tells: a *testscript.TestScript or a *testing.T.
type judge interface {
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

var _ judge = (*testscript.TestScript)(nil)

// runPrinted runs the commands in a text and returns how many.
func runPrinted(ts judge, env Env, text string) (ran int) {
	seen := map[string]bool{}
	if strings.Contains(text, "Exit codes:") || strings.Contains(text, cobra.ShellCompRequestCmd) {
		return 0 // help, whose examples are not about the files that are here, and completions
	}
	for _, line := range mentions(text) {
		list := words(line)
		if len(list) == 0 || seen[line] {
			continue
		}
		seen[line] = true
		args, ok := commandIn(env.Dir, list)
		if !ok {
			if !named(list) && !prose(env.Dir, list[0]) {
				ts.Fatalf("printed: rollout %s: which is no command", line)
			}
			continue
		}
		if len(args) == 1 && args[0] != "clean" || slices.ContainsFunc(args, placeholder) {
			continue
		}
		err := runCopy(env, enters(text, line), args, line)
		if wrong := (*wrongCommand)(nil); errors.As(err, &wrong) && wrong.lacksDocker() {
			ts.Logf("not run, for there is no Docker engine: rollout %s", line)
			continue
		}
		if err != nil {
			ts.Fatalf("%v", err)
		}
		ran++
	}
	return ran
}

// placeholder is an argument that stands for the user's own: JOB_FILE.
func placeholder(arg string) bool {
	return regexp.MustCompile(`^[A-Z][A-Z_]+$`).MatchString(arg) || strings.Contains(arg, "…")
}

// enters returns the directory of a "cd" in front of a printed command, or "".
func enters(text, line string) string {
	before, _, ok := strings.Cut(text, " && rollout "+line)
	at := strings.LastIndex(before, "cd ")
	if !ok || at < 0 {
		return ""
	}
	return words(before[at+len("cd "):])[0]
}

// runCopy runs a command in a copy of the directory, or in a directory below it.
func runCopy(env Env, in string, args []string, line string) error {
	top, err := os.MkdirTemp("", "printed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	there := filepath.Join(top, "work")
	if err := os.CopyFS(there, os.DirFS(env.Dir)); err != nil {
		return err
	}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, env.Dir, there)
	}
	if args[0] == "clean" {
		args = append(args, "--dry-run") // the environments may be other tests'
	}
	var out bytes.Buffer
	env.Dir, env.Stdout, env.Stderr, env.Stdin = filepath.Join(there, in), &out, &out, strings.NewReader("")
	if code := Main(context.Background(), context.Background(), env, args); code == command.ExitUsage || code == command.ExitFailed {
		return &wrongCommand{line, args, code, out.String()}
	}
	return nil
}

type wrongCommand struct {
	line string
	args []string
	code int
	out  string
}

// lacksDocker reports whether the command failed only because no Docker engine answers, where none
// is required.
func (e *wrongCommand) lacksDocker() bool {
	required := slices.Contains(strings.Split(os.Getenv("ROLLOUT_TEST_REQUIRE"), ","), "docker")
	return !required && e.code == command.ExitFailed && strings.Contains(e.out, "connect to the Docker engine")
}

func (e *wrongCommand) Error() string {
	return "printed: rollout " + e.line + "\nwhich, run as " + strings.Join(e.args, " ") + ", ends with 2 or 3:\n" + e.out
}

func TestCommandsAreFoundInSentences(t *testing.T) {
	for text, want := range map[string]string{
		"resume jobs/x": "resume|jobs/x",
		"resume 'it'\\''s here' goes on with it.": "",
		"resume 'a b' goes on with it.":           "resume|a b",
		"validate a/job.yaml, then rollout run x": "validate|a/job.yaml",
		"clean removes its environment":           "clean",
		"clean --kept --env-type sandbox":         "clean|--kept|--env-type|sandbox",
		"job.yaml":                                "run|job.yaml",
		"validate --run names such tasks.":        "",
		"validate a/x --run names such tasks.":    "validate|a/x|--run",
		"frobnicate":                              "",
		"resume":                                  "",
	} {
		args, _ := commandIn(t.TempDir(), words(text))
		if got := strings.Join(args, "|"); want != "" && got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
