package layer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/redact"
)

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestScanFindsSecretsInGzip(t *testing.T) {
	const secret = "a-secret-of-the-host"
	far := strings.Repeat("words of no meaning\n", 50_000) + secret
	cut := zip(t, far+strings.Repeat("more words", 10))
	for name, test := range map[string]struct {
		content string
		found   bool
	}{
		"plain":                               {far, true},
		"compressed":                          {zip(t, far), true},
		"in the second of two gzip members":   {zip(t, "nothing") + zip(t, far), true},
		"after a gzip member":                 {zip(t, "nothing") + secret, true},
		"in a file that only begins like one": {"\x1f\x8b" + secret, true},
		"in a truncated gzip file":            {cut[:len(cut)-4], true},
		"nothing":                             {zip(t, "nothing"), false},
		"nothing, truncated":                  {zip(t, "nothing")[:15], false},
		"nothing in two bytes":                {"\x1f\x8b", false},
		"nothing, followed by other bytes":    {zip(t, "nothing") + strings.Repeat("x", 1<<20), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := Scan{secrets: redact.New([]string{secret})}
			err := s.Inspect(&tar.Header{Name: "/opt/file", Size: int64(len(test.content))}, strings.NewReader(test.content))
			var found *secretError
			if errors.As(err, &found) != test.found || !test.found && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestScanRefusesGzipBombs(t *testing.T) {
	s := Scan{secrets: redact.New([]string{"a-secret-of-the-host"}), bytes: maxBytes - 1<<20}
	bomb := zip(t, strings.Repeat("\x00", 2<<20))
	if err := s.Inspect(&tar.Header{Name: "/opt/file", Size: int64(len(bomb))}, strings.NewReader(bomb)); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
}
