package failure

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/redact"
)

func TestLastLines(t *testing.T) {
	const secret = "sk-live-ABCdef0123456789"
	secrets := redact.New([]string{secret})
	for _, tc := range []struct{ name, output, want string }{
		{"nothing", " \n\n", ""},
		{"a line", "E: no such package\n", ", after it printed: E: no such package"},
		{"the last three lines that are not blank, the very last one first", "1\n2\n\n3\t x\n4\n", ", after it printed: 4 (before that: 2 | 3 x)"},
		{"long lines before it", strings.Repeat("a", 3000) + "\nwhy", ", after it printed: why (before that: " + strings.Repeat("a", 97) + "…)"},
		{"a secret", "token " + secret, ", after it printed: token ***"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := lastLines(tc.output, secrets)
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	for _, before := range []int{140, 150, 160} { // the secret is where the beginning of the line ends
		long := lastLines("noise\n"+strings.Repeat("x", before)+secret+strings.Repeat("y", 995), secrets)
		if strings.Contains(long, "sk-") || strings.Contains(long, "789") || !strings.Contains(long, ": xxx") || !strings.HasSuffix(long, "yyy (before that: noise)") || len(long) > 400 {
			t.Errorf("a secret where the text is cut: %q", long)
		}
	}
}
