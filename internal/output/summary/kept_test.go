package summary

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/termtext"
)

func TestSummaryShowsHowToUseKeptEnvironments(t *testing.T) {
	for provider, want := range map[string][]string{
		"docker":  {"docker start abc && docker exec -it abc bash", "rollout clean --kept\n"},
		"sandbox": {"env/abc/up", "rollout clean --kept --env-type sandbox\n"},
		"a; rm":   {"in a; rm: abc", "rollout clean --kept\n"},
	} {
		t.Run(provider, func(t *testing.T) {
			trial := result.Trial{Environment: &result.Environment{Provider: provider, ID: "abc", Preserved: true}}
			s := &summary{trials: result.PackAll([]result.Trial{trial}), styles: termtext.NewStyles(false), width: 80}
			text := strings.Join(s.kept(), "\n") + "\n"
			for _, part := range want {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in\n%s", part, text)
				}
			}
		})
	}
}
