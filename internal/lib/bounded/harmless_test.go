package bounded

import (
	"errors"
	"strings"
	"testing"
)

// typed has no value of any type, so that the memory of its texts is known.
type typed struct {
	Name  string            `json:"name"`
	Texts [5]string         `json:"texts"`
	Each  []typed           `json:"each"`
	ByKey map[string]*typed `json:"by_key"`
}

func TestOnlyTextsThatCannotTakeTooMuchAreNotCounted(t *testing.T) {
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	usual := `{"name":"` + strings.Repeat("a name with commas, and [ and {", 10) + `"}`
	for name, c := range map[string]struct {
		text string
		into any
		want bool
	}{
		"a short text":           {`{"name":"a","each":[{"name":"b"}]}`, new(typed), true},
		"a text of long names":   {`{"each":[` + many(usual, 2) + `]}`, new(typed), true},
		"many objects":           {`{"each":[` + many("{}", 10_000) + `]}`, new(typed), false},
		"many members":           {`{"by_key":{` + many(`"":{}`, 10_000) + `}}`, new(typed), false},
		"values of any type":     {`{}`, new(member), false},
		"what cannot be decoded": {`{}`, typed{}, false},
		"nothing to decode into": {`{}`, nil, false},
	} {
		if got := harmless([]byte(c.text), c.into); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
		if err := Unmarshal([]byte(c.text), c.into); strings.HasPrefix(name, "many ") && errors.Is(err, ErrAmplified) == c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
