package registry

import (
	"fmt"
	"strings"
	"testing"
)

func TestTOMLThatTakesLongIsRefused(t *testing.T) {
	var many strings.Builder // the library would take a minute
	for n := range 100_000 {
		fmt.Fprintf(&many, "k%d = 1\n", n)
	}
	for _, text := range []string{
		"x = " + strings.Repeat("[", MaxManifest-10), strings.Repeat("a.", MaxManifest/2-10) + "a = 1", "x = " + strings.Repeat("{a=", MaxManifest/3-10), many.String(),
	} {
		r := Repository{Shown: "r", Files: map[string]string{ManifestFile: text}}
		if _, err := r.Registry(); err == nil {
			t.Errorf("%s…: read", text[:10])
		}
	}
}
