package config

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/fields"
)

// alwaysSucceed lists programs whose exit code, at the end of a pipe, does not reflect the command
// before them.
var alwaysSucceed = []string{"tee", "tail", "head", "cat"}

// maxScript limits the size of scripts that are parsed, in bytes, because nesting costs the parser
// stack.
const maxScript = 64 << 10

// bash warns of scripts that bash cannot parse, and of those that hide the failure of a command by
// piping it into a program that succeeds. A syntax error is only a warning: bash runs the commands
// before it, and this parser may not know all that bash accepts.
func (c *checker) bash(a agent.Agent, p fields.Path) {
	for _, s := range []struct{ key, text string }{{"install", a.Install}, {"execute", a.Execute}} {
		if len(s.text) > maxScript {
			continue
		}
		_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s.text), "")
		if wrong, ok := errors.AsType[syntax.ParseError](err); ok {
			c.Warn(c.Root.Locate(p.Child(s.key), false), "bash -n shows the error",
				"agent %q: bash probably cannot read %s, line %d: %s", fields.Shorten(a.Name), s.key, wrong.Pos.Line(), wrong.Text)
			continue
		}
		if into := hidingPipe(s.text); into != "" {
			c.Warn(c.Root.Locate(p.Child(s.key), false), "begin the script with: set -o pipefail",
				"agent %q: %s pipes into %s, which hides that the command before it failed", fields.Shorten(a.Name), s.key, into)
		}
	}
}

// hidingPipe returns the program at the end of a pipe that hides failures; "" if there is none, or
// if the script uses pipefail or PIPESTATUS.
func hidingPipe(script string) (into string) {
	if !strings.Contains(script, "|") || strings.Contains(script, "pipefail") || strings.Contains(script, "PIPESTATUS") {
		return ""
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return "" // bash reports it
	}
	for _, stmt := range file.Stmts { // in conditions and substitutions, a hidden failure may be intended
		pipe, ok := stmt.Cmd.(*syntax.BinaryCmd)
		if !ok || pipe.Op != syntax.Pipe && pipe.Op != syntax.PipeAll {
			continue
		}
		if call, ok := pipe.Y.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 && slices.Contains(alwaysSucceed, call.Args[0].Lit()) && !prints(pipe.X) {
			return call.Args[0].Lit()
		}
	}
	return ""
}

// prints reports whether a command only prints text, which does not fail.
func prints(stmt *syntax.Stmt) bool {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && slices.Contains([]string{"echo", "printf", "cat"}, call.Args[0].Lit())
}
