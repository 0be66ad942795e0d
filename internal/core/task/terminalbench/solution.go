package terminalbench

import (
	"fmt"
	"io/fs"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/lib/diag"
)

// maxSolution limits solution.sh.
const maxSolution = 16 << 20

// HasSolution reports whether the task has a solution in either form.
func HasSolution(fsys fs.FS) bool { return isFile(fsys, SolutionFile) || isFile(fsys, CommandsFile) }

// Solution returns a bash script that solves the task: solution.sh, or one that types the commands
// of solution.yaml. The problems are in solution.yaml; the error is of reading solution.sh.
func Solution(fsys fs.FS) ([]byte, diag.List, error) {
	if isFile(fsys, SolutionFile) || !isFile(fsys, CommandsFile) {
		script, err := readFile(fsys, SolutionFile, maxSolution)
		return script, nil, err
	}
	f := &file{name: CommandsFile}
	commands := f.commands(fsys)
	return []byte(typed(commands)), f.problems, nil
}

// Command is an entry of solution.yaml. Source: terminal-bench 0.2.18, terminal/models.py.
type command struct {
	text           string
	minSec, maxSec float64
	block, enter   bool
}

const (
	defaultMaxSec = 180
	maxCommands   = 10_000
)

func (f *file) commands(fsys fs.FS) []command {
	root := f.read(fsys, "it solves the task")
	if root == nil {
		return nil
	}
	if root.Kind != yaml.SequenceNode || len(root.Content) > maxCommands {
		f.add(root, "", "must be a list of at most %d commands, not %s", maxCommands, shown(root))
		return nil
	}
	var all []command
	for _, item := range root.Content {
		c := command{maxSec: defaultMaxSec, enter: true}
		given := false
		for key, value := range f.fields(item) {
			switch key.Value {
			case "command":
				c.text, given = f.text(value, key.Value), true
			case "min_timeout_sec":
				if value.Value != "0" && value.Value != "0.0" {
					f.seconds(value, key.Value, &c.minSec)
				}
			case "max_timeout_sec":
				f.seconds(value, key.Value, &c.maxSec)
			case "block":
				c.block = f.truth(value, key.Value)
			case "append_enter":
				c.enter = f.truth(value, key.Value)
			}
		}
		if !given {
			f.add(item, "", `"command" is missing`)
		}
		all = append(all, c)
	}
	return all
}

// typed returns a script that types commands into a terminal of tmux, as terminal-bench does: some
// are keys for a program that runs there. The images of such tasks have tmux.
// Source: terminal-bench 0.2.18, terminal/tmux_session.py.
func typed(commands []command) string {
	const (
		session = "rollout-solution"
		done    = "; tmux wait -S " + session
	)
	var b strings.Builder
	fmt.Fprintf(&b, "tmux -V || { echo 'solution.yaml needs tmux in the image' >&2; exit 1; }\n")
	fmt.Fprintf(&b, "tmux new-session -x 160 -y 40 -d -s %s || exit 1\n", session)
	for _, c := range commands {
		keys := []string{c.text}
		enters := c.enter || strings.HasSuffix(c.text, "\n") || strings.HasSuffix(c.text, "\r")
		switch {
		case c.block && enters:
			keys = []string{strings.TrimRight(c.text, "\r\n"), done, "Enter"}
		case c.enter:
			keys = append(keys, "Enter")
		}
		fmt.Fprintf(&b, "tmux send-keys -t %s", session)
		for _, key := range keys {
			b.WriteString(" " + quoted(key))
		}
		b.WriteString("\n")
		switch {
		case c.block && enters:
			fmt.Fprintf(&b, "timeout %gs tmux wait %s || { tmux capture-pane -p -t %s; echo 'a command of solution.yaml took longer than its max_timeout_sec' >&2; exit 1; }\n", c.maxSec, session, session)
		case c.minSec > 0:
			fmt.Fprintf(&b, "sleep %g\n", c.minSec)
		}
	}
	fmt.Fprintf(&b, "tmux capture-pane -p -S - -t %s\n", session)
	return b.String()
}

// quoted returns a word for bash.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
