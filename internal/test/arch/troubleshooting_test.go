package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// minQuoted is how many words of a message a heading quotes at least: fewer are found in some
// string whatever happens to the message.
const minQuoted = 3

var (
	verb      = regexp.MustCompile(`%(?:\[\d+\])?[+#]?[.\d]*[a-z]`)
	errorType = regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`)
	word      = regexp.MustCompile(`[\pL\d_./:-]*\pL[\pL\d_./:-]*`)
)

// quotedMessages returns the messages in the headings of a page.
func quotedMessages(text string) []string {
	var quotes []string
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		if span := codeSpan.FindStringSubmatch(h[1]); span != nil && strings.HasPrefix(h[1], "`") {
			quotes = append(quotes, span[1])
		}
	}
	return quotes
}

// enough reports whether a quote has so much of a message that a change of the message shows. The
// name of an error type is whole.
func enough(quote string) bool {
	return errorType.MatchString(quote) || len(word.FindAllString(quote, -1)) >= minQuoted
}

// quotes reports whether a string has the quote, which is the whole string if it names an error
// type.
func quotes(text, quote string) bool {
	if errorType.MatchString(quote) {
		return text == quote
	}
	return strings.Contains(text, quote)
}

// literal returns the text of an expression of string literals, with "…" for its verbs and for
// operands that are not literals.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return verb.ReplaceAllString(text, "…")
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return literal(e.X) + literal(e.Y)
		}
	}
	return "…"
}

// TestTroubleshootingQuotesMessages checks that each message in a heading of the page is one that
// Rollout prints: the quote is part of one string of the program's source.
func TestTroubleshootingQuotesMessages(t *testing.T) {
	const page = "docs/troubleshooting.md"
	found := map[string]bool{}
	for _, quote := range quotedMessages(prose(t, "../../../"+page)) {
		if !enough(quote) {
			t.Errorf("%s quotes %q: quote at least %d words of the message", page, quote, minQuoted)
		}
		found[quote] = false
	}
	if len(found) < 15 {
		t.Fatalf("%s quotes %d messages: the check does not find them", page, len(found))
	}
	eachFile(t, func(dir string, _ *token.FileSet, f *ast.File) {
		if strings.HasPrefix(dir, "internal/test") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if text := literal(e); text != "…" {
				for quote := range found {
					found[quote] = found[quote] || quotes(text, quote)
				}
			}
			return true
		})
	})
	for quote, ok := range found {
		if !ok {
			t.Errorf("%s quotes %q, which no message has", page, quote)
		}
	}
}

func TestTroubleshootingQuotesEnoughMessages(t *testing.T) {
	for quote, want := range map[string]bool{
		"another rollout": false, "is for …": false, "the image needs bash": true, "verifier_reward_missing": true, "verifier": false,
		"… %d --": false, "has … left, …": false, "look like pointers of git-lfs": true,
	} {
		if enough(quote) != want {
			t.Errorf("%q is enough: %v", quote, !want)
		}
	}
	sum := &ast.BinaryExpr{
		Op: token.ADD, X: &ast.BasicLit{Kind: token.STRING, Value: `"the disk with %[1]s "`},
		Y: &ast.BinaryExpr{Op: token.ADD, X: ast.NewIdent("name"), Y: &ast.BasicLit{Kind: token.STRING, Value: `" is full"`}},
	}
	if got := literal(sum); got != "the disk with … … is full" {
		t.Errorf("the literal is %q", got)
	}
	if quotes("no verifier_reward_missing here", "verifier_reward_missing") || !quotes("verifier_reward_missing", "verifier_reward_missing") {
		t.Error("the name of an error type is a whole string")
	}
}
