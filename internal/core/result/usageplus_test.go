package result

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestUsagePlus(t *testing.T) {
	a := &Usage{
		Turns: 2, Calls: 3, Failed: 1, InputTokens: new(int64(10)), OutputTokens: new(int64(5)), ModelSec: 1, FirstByteSec: 1, Requested: "m", Answered: []string{"m-1"},
	}
	b := &Usage{Turns: 1, Calls: 1, Refused: 2, Unpriced: 1, InputTokens: new(int64(7)), ModelSec: 2, WaitingSec: 3, FirstByteSec: 5, Requested: "other", Answered: []string{"m-1", "m-2"}}
	want := &Usage{
		Turns: 3, Calls: 4, Failed: 1, Refused: 2, Unpriced: 1, InputTokens: new(int64(17)), OutputTokens: new(int64(5)), ModelSec: 3, WaitingSec: 3, FirstByteSec: 2,
		Requested: "m", Answered: []string{"m-1", "m-2"},
	}
	if got := a.Plus(b); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := a.Plus(nil); got != a {
		t.Errorf("with nothing: %+v", got)
	}
	if got := (*Usage)(nil).Plus(b); got != b {
		t.Errorf("nothing with it: %+v", got)
	}
	if len(a.Answered) != 1 || *a.InputTokens != 10 {
		t.Errorf("it has changed: %+v", a)
	}
}

// A result names the models that answered only if they are not the requested one.
func TestOutcomeNamesTheModelsThatAnswered(t *testing.T) {
	for answered, want := range map[string][]string{"": nil, "m": nil, "m-2": {"m-2"}, "m m-2": {"m", "m-2"}} {
		o := OutcomeOf(Trial{Usage: &Usage{Requested: "m", Answered: strings.Fields(answered)}})
		if o.Usage.Model != "m" || !slices.Equal(o.Usage.Answered, want) {
			t.Errorf("%q answered: got %q, want %q", answered, o.Usage.Answered, want)
		}
	}
}
