package prove

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// testers are programs whose failure is the usual way in which a test says no.
var testers = []string{
	"pytest", "py.test", "python", "python3", "node", "npm", "npx", "go", "cargo", "make", "bash", "sh", "diff", "cmp", "grep", "test", "[", "bats",
	"uvx", "uv", "curl", "mvn", "gradle", "rspec", "ruby", "perl", "php",
}

// rewardLost finds a test script that set -e ends at the first test that fails, before it has written any reward: an
// agent's failure is then an error of the trial.
func rewardLost(f file, script *syntax.File) []Finding {
	strict := false
	for _, stmt := range script.Stmts {
		call, _ := stmt.Cmd.(*syntax.CallExpr)
		words := []string(nil)
		if call != nil {
			words = command(call)
		}
		switch {
		case mentionsReward(stmt), len(words) > 0 && words[0] == "trap":
			return nil // has written one, or does so when it ends
		case len(words) > 1 && words[0] == "set":
			strict = errexit(words[1:], strict)
		case strict && !stmt.Negated && !stmt.Background && isTester(stmt.Cmd, words):
			if !slices.ContainsFunc(script.Stmts, mentionsReward) {
				return nil // something else writes it
			}
			return []Finding{{Rule: "reward-missing", Severity: Warning, File: f.name, Line: int(stmt.Pos().Line()),
				Message: fmt.Sprintf("because of set -e the script ends here when %s fails, before it has written a reward", called(words)),
				Hint:    "if COMMAND; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"}}
		}
	}
	return nil
}

// errexit is whether set -e holds after set with these arguments.
func errexit(args []string, before bool) bool {
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

// isTester tells whether a statement is a test of its own.
func isTester(cmd syntax.Command, words []string) bool {
	if _, ok := cmd.(*syntax.TestClause); ok { // [[ … ]]
		return true
	}
	return len(words) > 0 && slices.Contains(testers, words[0])
}

func called(words []string) string {
	if len(words) == 0 {
		return "the test"
	}
	return words[0]
}

// mentionsReward tells whether the reward's file is named anywhere in a statement.
func mentionsReward(stmt *syntax.Stmt) bool {
	found := false
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if w, ok := node.(*syntax.Word); ok && strings.Contains(text(w), "reward") {
			found = true
		}
		return !found
	})
	return found
}
