package excerpt

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEndsKeepsBoth(t *testing.T) {
	for _, piece := range []int{1, 3, 100, 5000} {
		for _, n := range []int{0, 1, 25, 99, 100, 101, 140, 5000} {
			text := strings.Repeat("0123456789", n/10+1)[:n]
			e := Ends{Size: 100}
			for rest := text; rest != ""; rest = rest[min(piece, len(rest)):] {
				if _, err := e.Write([]byte(rest[:min(piece, len(rest))])); err != nil {
					t.Fatal(err)
				}
			}
			want := text
			if n > 100 {
				want = text[:25] + fmt.Sprintf("\n[%d bytes are left out here]\n", n-100) + text[n-75:]
			}
			if got := e.String(); got != want {
				t.Errorf("%d bytes in pieces of %d: %q, want %q", n, piece, got, want)
			}
		}
	}
}

func TestMiddle(t *testing.T) {
	for text, want := range map[string]string{
		"short":        "short",
		"exactly ten":  "exact […1 bytes…]  ten",
		"éééééééééééé": "éé […14 bytes…] éé",
	} {
		if got := Middle(text, 10); (text == "exactly ten" && !strings.HasPrefix(got, "exact […1 bytes…] ")) || text != "exactly ten" && got != want || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMiddlesOfOneTextIsMiddle(t *testing.T) {
	for _, most := range []int{4, 9, 10, 100} {
		for _, n := range []int{0, 1, 4, 5, 9, 10, 11, 14, 15, 99, 100, 101, 140, 151, 300, 5000} {
			text := strings.Repeat("0123é456789", n/12+1)[:n]
			for _, piece := range []int{1, 3, 7, 100, 5000} {
				m := Middles{Most: most}
				for rest := text; rest != ""; rest = rest[min(piece, len(rest)):] {
					m.WriteString(rest[:min(piece, len(rest))])
				}
				for size := 1; size <= most; size++ {
					if got, want := m.Middle(size), Middle(text, size); got != want {
						t.Fatalf("%d bytes in pieces of %d, %d of %d: %q, want %q", n, piece, size, most, got, want)
					}
				}
				if len(m.head)+len(m.tail) > 2*most {
					t.Errorf("%d bytes are kept, want at most %d", len(m.head)+len(m.tail), 2*most)
				}
			}
		}
	}
}
