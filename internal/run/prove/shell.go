package prove

import (
	"bytes"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/org/rollout-action/internal/core/task"
)

// maxScript limits the size of scripts that are parsed, in bytes, because nesting costs the parser
// stack.
const maxScript = 64 << 10

// parseShell returns a script as bash parses it; nil if it is too long.
func parseShell(script []byte) (*syntax.File, error) {
	if len(script) > maxScript {
		return nil, nil
	}
	script = bytes.TrimPrefix(script, byteOrderMark) // rule bom
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(script), "")
}

// shellScript checks a shell script of tests/ or solution/.
func shellScript(t *task.Task, f file, image installed) []Finding {
	ofTests := strings.HasPrefix(f.name, "tests/")
	if !ofTests && !strings.HasPrefix(f.name, "solution/") || !f.whole() {
		return nil
	}
	parsed, err := parseShell(f.head)
	switch {
	case err != nil:
		return bashSyntax(t, f, err)
	case parsed == nil || !ofTests:
		return nil
	}
	out := networkUse(f, parsed, image)
	if f.name == testsScript {
		out = append(out, rewardLost(f, parsed)...)
	}
	return out
}

// text returns a word without its quotes, with "$" for expansions, whose values are known only when
// the script runs.
func text(w *syntax.Word) string {
	var b strings.Builder
	writeParts(&b, w.Parts)
	return b.String()
}

func writeParts(b *strings.Builder, parts []syntax.WordPart) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, "\\", ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			writeParts(b, p.Parts)
		default:
			b.WriteByte('$')
		}
	}
}

// wrappers run the command that follows them.
var wrappers = map[string]bool{
	"command": true, "env": true, "exec": true, "nice": true, "nohup": true, "sudo": true, "time": true, "timeout": true, "stdbuf": true, "setsid": true,
}

// command returns the program and arguments that a simple command runs, without wrappers: "timeout
// 20 env A=b curl x" is "curl x".
func command(call *syntax.CallExpr) []string {
	var words []string
	for _, w := range call.Args {
		words = append(words, text(w))
	}
	for len(words) > 1 && wrappers[words[0]] {
		limited := words[0] == "timeout"
		words = words[1:]
		for len(words) > 1 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") || limited && isDuration(words[0])) {
			words = words[1:]
		}
	}
	return words
}

func isDuration(word string) bool {
	return word != "" && strings.Trim(word, "0123456789.$smhd") == ""
}
