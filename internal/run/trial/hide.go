package trial

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/lib/redact"
)

// hide returns text that may come from an environment without escape sequences and invisible
// characters, and then without secrets. The order matters: printing strips the text, too, and that
// must not join the parts of a secret that was written with invisible characters in between.
func hide(r *redact.Redactor, text string) string {
	visible := strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) || unicode.IsControl(c) && !unicode.IsSpace(c) {
			return -1
		}
		return c
	}, ansi.Strip(text))
	return r.String(visible)
}
