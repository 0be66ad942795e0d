package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTroubleshootingQuotesMessages checks that each message in a heading of the page is one that
// Rollout prints.
func TestTroubleshootingQuotesMessages(t *testing.T) {
	const page = "docs/troubleshooting.md"
	var parts []string
	for _, h := range heading.FindAllStringSubmatch(prose(t, "../../../"+page), -1) {
		if span := codeSpan.FindStringSubmatch(h[1]); span != nil && strings.HasPrefix(h[1], "`") {
			for _, part := range strings.Split(span[1], "…") {
				parts = append(parts, strings.TrimSpace(part))
			}
		}
	}
	if len(parts) < 15 {
		t.Fatalf("%s quotes %d messages: the check does not find them", page, len(parts))
	}
	written := map[string]bool{}
	verb := regexp.MustCompile(`%(?:\[\d+\])?[+#]?[.\d]*[a-z]`)
	eachFile(t, func(_ string, _ *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					for _, part := range parts {
						written[part] = written[part] || strings.Contains(verb.ReplaceAllString(text, "…"), part)
					}
				}
			}
			return true
		})
	})
	for _, part := range parts {
		if !written[part] {
			t.Errorf("%s quotes %q, which no message has", page, part)
		}
	}
}
