package aliases

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestAliasesAreWrittenOut(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a: &x0 [1, 2]\n")
	for i := range 40 {
		fmt.Fprintf(&laughs, "b%d: &x%d [*x%d, *x%d]\n", i, i+1, i, i)
	}
	for name, tc := range map[string]struct {
		text, want string // the document without aliases; "": it is not written out
		line       int    // of the node that is too much
	}{
		"without any":               {"a: [1, {b: c}]\n", "a: [1, {b: c}]\n", 0},
		"a value twice":             {"a: &x {b: c}\nd: [*x, *x]\n", "a: {b: c}\nd: [{b: c}, {b: c}]\n", 0},
		"an alias of an alias":      {"a: &x 1\nb: &y [*x]\nc: *y\n", "a: 1\nb: [1]\nc: [1]\n", 0},
		"a key":                     {"a: &x b\n*x : c\n", "a: b\nb: c\n", 0},
		"one that contains itself":  {"a: &x\n  b: *x\n", "", 2},
		"aliases of many":           {laughs.String(), "", 1},
		"one document nested alone": {strings.Repeat("[", 30) + strings.Repeat("]", 30), "", 1},
		"one document large alone":  {strings.Repeat("- 1\n", 2000), "", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			var doc yaml.Node
			if err := yaml.Unmarshal([]byte(tc.text), &doc); err != nil {
				t.Fatal(err)
			}
			if bad, _ := Inline(&doc, 20, 1000); bad != nil || tc.want == "" {
				if bad == nil || tc.want != "" || bad.Line != tc.line {
					t.Errorf("it is too much: %+v", bad)
				}
				return
			}
			var got, want any
			if err := doc.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
