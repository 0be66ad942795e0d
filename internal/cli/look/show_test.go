package look

import (
	"bytes"
	"strings"
	"testing"
)

func TestLogsAreMadeSafeLineByLine(t *testing.T) {
	var out bytes.Buffer
	w := &lineWriter{to: &out}
	long := strings.Repeat("x", 3*maxLogLine+5)
	for _, piece := range []string{"a\x1b[31", "mb\n::error", "::c\n\n", long, "\nend"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
		if cap(w.rest) > 2*maxLogLine {
			t.Fatalf("%d bytes of memory", cap(w.rest))
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	full := strings.Repeat("x", maxLogLine) + "\n"
	if want := "ab\n: :error::c\n\n" + full + full + full + "xxxxx\nend\n"; out.String() != want {
		t.Errorf("%.100q (%d bytes), want %.100q (%d bytes)", out.String(), out.Len(), want, len(want))
	}
}
