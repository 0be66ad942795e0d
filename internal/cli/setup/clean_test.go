package setup

import (
	"testing"
	"time"
)

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "0d": 0, "7d": 168 * time.Hour, "2w": 336 * time.Hour,
	} {
		if got, err := parseAge(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "7", "d", "-1d", "1.5d", "7 d", "-1h", "99999999w", "1y"} {
		if got, err := parseAge(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
