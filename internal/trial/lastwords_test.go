package trial

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/redact"
)

func TestLastWords(t *testing.T) {
	const secret = "sk-live-ABCdef0123456789"
	secrets := redact.New([]string{secret})
	for _, tc := range []struct{ name, output, want string }{
		{"nothing", " \n\n", ""},
		{"a line", "E: no such package\n", ", after it printed: E: no such package"},
		{"the last three lines that are not blank", "1\n2\n\n3\t x\n4\n", ", after it printed: 2 | 3 x | 4"},
		{"a secret", "token " + secret, ", after it printed: token ***"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := lastWords(tc.output, secrets)
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	long := lastWords(strings.Repeat("x", 10)+secret+strings.Repeat("y", 395), secrets)
	if strings.Contains(long, "789") || !strings.HasSuffix(long, strings.Repeat("y", 395)) || len(long) > 450 {
		t.Errorf("a secret where the text is cut: %q", long)
	}
}
