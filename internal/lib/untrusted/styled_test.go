package untrusted

import (
	"reflect"
	"testing"
)

func TestStyled(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want [][]Span
	}{
		"plain":                        {"a\nb", [][]Span{{{"", "a"}}, {{"", "b"}}}},
		"a colour over two lines":      {"\x1b[31ma\nb\x1b[0m c", [][]Span{{{"c1", "a"}}, {{"c1", "b"}, {"", " c"}}}},
		"bold and bright":              {"\x1b[1;92mok\x1b[22m.\x1b[39m.", [][]Span{{{"bold c10", "ok"}, {"c10", "."}, {"", "."}}}},
		"256 colours are left out":     {"\x1b[38;5;1mx", [][]Span{{{"", "x"}}}},
		"other sequences are removed":  {"\x1b]8;;https://evil.example\x07a\x1b[2J", [][]Span{{{"", "a"}}}},
		"invisible text and a command": {"\u202ea\n::error::b", [][]Span{{{"", "a"}}, {{"", ": :error::b"}}}},
		"absurd numbers":               {"\x1b[99999999999999999999ma\x1b[;31mb", [][]Span{{{"", "a"}, {"c1", "b"}}}},
	} {
		if got := Styled(c.text); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
