package envfile

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/diag"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want map[string]string
	}{
		"plain":                          {"A=1\nB=two words\n", map[string]string{"A": "1", "B": "two words"}},
		"empty lines and comments":       {"\n# A=1\n  # B=2\n\t\nC=3", map[string]string{"C": "3"}},
		"comments after values":          {"A=1 # one\nB=a#b\nC=#c\nD= # none\nE='x' # quoted", map[string]string{"A": "1", "B": "a#b", "C": "#c", "D": "", "E": "x"}},
		"export and blanks":              {"export A=1\nexport\t\nexport B\n  C = 3 ", map[string]string{"A": "1", "C": "3"}},
		"a name without a value":         {"HOME\nA # a\nB=", map[string]string{"B": ""}},
		"single quotes are literal":      {`A='a\n$b "c" #d'`, map[string]string{"A": `a\n$b "c" #d`}},
		"double quotes have escapes":     {`A="a\nb\t\"c\" \\ \$d \e"`, map[string]string{"A": "a\nb\t\"c\" \\ $d \\e"}},
		"values of several lines":        {"A='-----BEGIN\nxyz=\n-----END'\nB=\"1\n2\"\nC=3", map[string]string{"A": "-----BEGIN\nxyz=\n-----END", "B": "1\n2", "C": "3"}},
		"nothing is expanded":            {"A=pa$$word${HOME}\nB=\"$A\"", map[string]string{"A": "pa$$word${HOME}", "B": "$A"}},
		"quotes inside of a value":       {`A=it's "so"` + "\nB=2", map[string]string{"A": `it's "so"`, "B": "2"}},
		"the last one wins":              {"A=1\nA=2", map[string]string{"A": "2"}},
		"Windows' line ends and a mark":  {"\ufeffA=1\r\nB='2'\r\nC=\"3\r\n4\"\r\n", map[string]string{"A": "1", "B": "2", "C": "3\n4"}},
		"more = belong to the value":     {"A=b=c==", map[string]string{"A": "b=c=="}},
		"the value of the next line not": {"A=\nB='2'", map[string]string{"A": "", "B": "2"}},
		"nothing":                        {"", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(".env", strings.NewReader(test.text))
			if err != nil || !maps.Equal(got, test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestProblemsShowThePlaceAndNoValue(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		line int
		want string
	}{
		"no name":               {"A=1\n=secret", 2, "not of the form NAME=value"},
		"a bad name":            {"A=1\n\nsecret-A=secret", 3, "not of the form NAME=value"},
		"YAML":                  {"A: secret", 1, "not of the form NAME=value"},
		"open quotes":           {"A=1\nB='secret\nC=3\n", 2, "the quotes around the value of B are never closed"},
		"text after quotes":     {"A='secret\nsecret' secret\n", 2, "something after the value of A"},
		"a zero byte":           {"A=1\nB=sec\x00ret", 2, "not text in UTF-8"},
		"a quoted zero byte":    {"A=1\nB='\nsec\x00ret'", 2, "zero byte"},
		"not UTF-8":             {"A=secret\xff", 1, "not text in UTF-8"},
		"quoted, but not UTF-8": {"A='\nsecret\xff'", 1, "is not UTF-8"},
		"too large":             {strings.Repeat("A=secret\n", maxSize/9+1), 0, "larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(".env", strings.NewReader(test.text))
			list := diag.List{}
			if !errors.As(err, &list) || len(list) != 1 || list[0].Line != test.line || !strings.Contains(list[0].Message, test.want) {
				t.Errorf("got %v, want line %d: %s", err, test.line, test.want)
			}
			if got != nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("a value is shown: %q, %v", got, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("A=1\nexport B='x\ny' # c\nC=\"\\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		vars, err := Parse(".env", strings.NewReader(text))
		for name := range vars {
			if err != nil || !VariableName.MatchString(name) {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}
