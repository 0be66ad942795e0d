package result

import "testing"

func TestPatternIn(t *testing.T) {
	for name, want := range map[string]string{
		"evals": "", "gpt-5 (high)": "", "a b": "", "ü": "", "a+b": "", "c#": "", "hey!": "", "a@b": "", "x]": "", "1.5{0}": "",
		"evals [small]": "[small]", "a[": "[", "a*": "*", "a?": "?", "x+(y)": "+(y)", "x@(y": "@(y", "x!(y)z": "!(y)", "x*(y)": "*(y)",
		"!evals": "!", "#1": "#", "[!a]": "[!a]",
	} {
		if got := PatternIn(name); got != want {
			t.Errorf("PatternIn(%q) = %q, want %q", name, got, want)
		}
	}
}
