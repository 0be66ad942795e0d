package prove

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/org/rollout-action/internal/core/task"
)

// testPrograms lists programs that usually fail when a test fails.
var testPrograms = []string{
	"pytest", "py.test", "python", "python3", "node", "npm", "npx", "go", "cargo", "make", "bash", "sh", "diff", "cmp", "grep", "test", "[", "bats",
	"uvx", "uv", "curl", "mvn", "gradle", "rspec", "ruby", "perl", "php",
}

// rewardLost finds a test script that set -e ends at the first test that fails, before it has
// written any reward: the agent's failure becomes an error of the trial.
func rewardLost(f file, script *syntax.File) []Finding {
	r := collectRewardNames(script)
	if !slices.ContainsFunc(script.Stmts, r.writes) {
		return nil // something else writes it
	}
	strict := false
	ends := r.failsAt(script.Stmts, &strict)
	if ends == nil {
		return nil
	}
	words := []string(nil)
	if call, ok := ends.Cmd.(*syntax.CallExpr); ok {
		words = command(call)
	}
	return []Finding{{Rule: ruleRewardMissing, Severity: Warning, File: f.name, Line: int(ends.Pos().Line()),
		Message: fmt.Sprintf("because of set -e the script ends here when %s fails, before it has written a reward", testName(words)),
		Hint:    "if COMMAND; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"}}
}

// failsAt returns the first statement at which set -e may end a script before it has written a
// reward, or nil.
func (r rewardNames) failsAt(stmts []*syntax.Stmt, strict *bool) *syntax.Stmt {
	for _, stmt := range stmts {
		call, _ := stmt.Cmd.(*syntax.CallExpr)
		words := []string(nil)
		if call != nil {
			words = command(call)
		}
		branch, isIf := stmt.Cmd.(*syntax.IfClause)
		switch {
		case len(words) > 0 && words[0] == "trap":
			return nil
		case isIf && !stmt.Negated && !slices.ContainsFunc(stmt.Redirs, func(to *syntax.Redirect) bool { return r.mentions(to.Word) }):
			for part := branch; part != nil; part = part.Else {
				if slices.ContainsFunc(part.Cond, r.writes) {
					return nil
				}
				inside := *strict
				if ends := r.failsAt(part.Then, &inside); ends != nil {
					return ends
				}
			}
			if r.writes(stmt) {
				return nil
			}
		case r.writes(stmt):
			return nil
		case len(words) > 1 && words[0] == "set":
			*strict = errexitAfter(words[1:], *strict)
		case *strict && !stmt.Negated && !stmt.Background && isTester(stmt.Cmd, words):
			return stmt
		}
	}
	return nil
}

// noReward finds tests that cannot write a reward, because no file of tests/ or environment/
// mentions one. It skips tasks with a ready-made image, which may have a program that writes it,
// tests with files that were not read to the end, and those whose output a parser reads.
func noReward(t *task.Task, files []file) []Finding {
	if t.Config.Environment.DockerImage != "" || t.Rules().Parser != "" {
		return nil
	}
	found := false
	for _, dir := range []string{"tests/", "environment/"} { // the tests first: nearly all of them name it
		for _, f := range files {
			if !strings.HasPrefix(f.name, dir) {
				continue
			}
			if dir == "tests/" && !f.whole() || containsFold(f.head, []byte("reward")) {
				return nil
			}
			found = found || f.name == testsScript
		}
	}
	if !found {
		return nil
	}
	return []Finding{{Rule: ruleRewardMissing, Severity: Warning, File: testsScript,
		Message: "no file of tests/ names a reward, so probably nothing writes one",
		Hint:    "let the script write a number to reward.txt in the verifier's logs: 1 for success, 0 for failure"}}
}

// errexitAfter reports whether set -e holds after set with these arguments.
func errexitAfter(args []string, before bool) bool {
	for i, a := range args {
		switch {
		case a == "-o" && i+1 < len(args) && args[i+1] == "errexit":
			before = true
		case a == "+o" && i+1 < len(args) && args[i+1] == "errexit":
			before = false
		case strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "e"):
			before = true
		case strings.HasPrefix(a, "+") && strings.Contains(a, "e"):
			before = false
		}
	}
	return before
}

// isTester reports whether a command is a test.
func isTester(cmd syntax.Command, words []string) bool {
	if _, ok := cmd.(*syntax.TestClause); ok { // [[ … ]]
		return true
	}
	return len(words) > 0 && slices.Contains(testPrograms, words[0])
}

func testName(words []string) string {
	if len(words) == 0 {
		return "the test"
	}
	return words[0]
}

// rewardNames holds the variables of a script that contain the path of the reward's file, and the
// functions that mention it.
type rewardNames map[string]bool

// collectRewardNames returns the reward names of a script.
func collectRewardNames(script *syntax.File) rewardNames {
	r := rewardNames{}
	syntax.Walk(script, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil && r.mentions(n.Value) {
				r[n.Name.Value] = true
			}
		case *syntax.FuncDecl:
			if n.Body != nil && r.writes(n.Body) {
				r[n.Name.Value] = true
			}
		}
		return true
	})
	return r
}

// mentions reports whether a node names the reward's file, itself or by a variable or function.
func (r rewardNames) mentions(node syntax.Node) bool {
	found := false
	syntax.Walk(node, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Lit:
			found = found || isReward(n.Value) || r[n.Value]
		case *syntax.SglQuoted:
			found = found || isReward(n.Value)
		case *syntax.ParamExp:
			found = found || n.Param != nil && (isReward(n.Param.Value) || r[n.Param.Value])
		}
		return !found
	})
	return found
}

func isReward(s string) bool { return strings.Contains(strings.ToLower(s), "reward") }

// preparing lists programs that mention a reward's file without writing a reward to it.
var preparing = []string{"mkdir", "rm", "chmod", "chown", "touch", "cd", "test", "[", "export", "unset"}

// writes reports whether a statement may have written a reward when the script continues after it.
// A definition does not, and neither does a block that ends the script.
func (r rewardNames) writes(stmt *syntax.Stmt) bool {
	if !r.mentions(stmt) {
		return false
	}
	switch c := stmt.Cmd.(type) {
	case *syntax.FuncDecl, *syntax.DeclClause, *syntax.TestClause:
		return false
	case *syntax.CallExpr:
		words := command(c)
		switch {
		case len(words) == 0:
			return len(stmt.Redirs) > 0 || slices.ContainsFunc(c.Assigns, func(a *syntax.Assign) bool { return a.Value != nil && isCommandOutput(a.Value) })
		case words[0] == "echo", words[0] == "printf":
			return slices.ContainsFunc(stmt.Redirs, func(to *syntax.Redirect) bool { return r.mentions(to.Word) })
		}
		return !slices.Contains(preparing, words[0])
	case *syntax.IfClause:
		if slices.ContainsFunc(stmt.Redirs, func(to *syntax.Redirect) bool { return r.mentions(to.Word) }) {
			return true
		}
		for part := c; part != nil; part = part.Else {
			if slices.ContainsFunc(part.Cond, r.writes) || !exits(part.Then) && slices.ContainsFunc(part.Then, r.writes) {
				return true
			}
		}
		return false
	}
	return true
}

// isCommandOutput reports whether a value is the output of a command.
func isCommandOutput(value *syntax.Word) bool {
	found := false
	syntax.Walk(value, func(node syntax.Node) bool {
		if _, ok := node.(*syntax.CmdSubst); ok {
			found = true
		}
		return !found
	})
	return found
}

// exits reports whether statements end the script.
func exits(stmts []*syntax.Stmt) bool {
	if len(stmts) == 0 {
		return false
	}
	call, ok := stmts[len(stmts)-1].Cmd.(*syntax.CallExpr)
	if !ok {
		return false
	}
	words := command(call)
	return len(words) > 0 && words[0] == "exit"
}
