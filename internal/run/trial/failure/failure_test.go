package failure

import (
	"testing"

	"github.com/org/rollout-action/internal/lib/redact"
)

func TestHideFindsSecretsSplitByInvisibleCharacters(t *testing.T) {
	r := redact.New([]string{"S3cr3tVALUE12345abc"})
	for _, text := range []string{
		"S3cr3tVALUE12345abc",
		"S3cr3tVAL\x1b[mUE12345abc",
		"S3cr3t\x1b]0;title\x07VALUE12345abc",
		"S3cr3tVAL\u200bUE123\u202e45abc",
		"S3cr3tVAL\x00UE12345\x08abc",
	} {
		if got := Hide(r, "it is: "+text+"\nand more"); got != "it is: ***\nand more" {
			t.Errorf("%q became %q", text, got)
		}
	}
}
