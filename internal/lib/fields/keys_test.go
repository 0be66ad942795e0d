package fields

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// plain is a dialect with the words of a format that does not exist.
func plain(closed bool) Dialect {
	return Dialect{
		Closed:  closed,
		Default: ScalarDefault,
		Words: Words{
			Name: func(p Path) string { return "<" + p.String() + ">" },
			Text: "a word", List: "a row", Mapping: "a card", ListHint: "write a row",
			MappingHint: func(*Node, Path, []Rules) string { return "write a card" },
			Example:     func(r Rules) string { return "like " + r.Key },
		},
	}
}

func card(pairs ...any) *Node {
	n := &Node{Kind: Mapping, At: Place{"f", 1, 1}}
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i+1].(*Node)
		value.At = Place{"f", 2 + i/2, 1}
		n.Add(&Field{Name: pairs[i].(string), At: value.At, Value: value})
	}
	return n
}

type own string

func (o *own) DecodeNode(d *Decoder, n *Node, p Path, r Rules) bool {
	if n.Text != "right" {
		return d.MustBe(n, p, r, "right", "")
	}
	*o = "decoded"
	return true
}

type inner struct {
	Name string   `toml:"name" required:"true" pattern:"^\\S+$" is:"a name" hint:"name it"`
	Tags []string `toml:"tags" most:"2"`
}

type outer struct {
	Wait   float64 `toml:"wait" default:"5" min:"0.5 seconds" max:"a day"`
	Room   int64   `toml:"room" unit:"bytes" min:"1Mi" mb:"room_mb" default:"2Mi"`
	CPUs   *int64  `toml:"cpus" unit:"cpus" above:"0"`
	On     bool    `toml:"on"`
	Pick   string  `toml:"pick" enum:"one,two"`
	Digit  string  `toml:"digit" enum:"1,2"`
	Own    own     `toml:"own"`
	Rate   float64 `toml:"rate" max:"1"`
	Inner  inner   `toml:"inner"`
	Inners []inner `toml:"inners"`
}

func TestDecode(t *testing.T) {
	text := func(s string) *Node { return &Node{Kind: Text, Text: s} }
	number := func(s string) *Node { return &Node{Kind: Int, Text: s} }
	for _, tc := range []struct {
		name string
		root *Node
		want []string // problems; none: valid
	}{
		{"nothing", card(), nil},
		{"valid values", card("wait", number("1_0"), "room", text("3Mi"), "cpus", text("500m"), "pick", text("two"), "own", text("right"),
			"inner", card("name", text("x"))), nil},
		{"an amount that is no quantity but a number", card("room", number("0x200000")), nil},
		{"empty text is no value", card("pick", text("")), nil},
		{"below and above bounds", card("wait", number("0")), []string{"f:2:1: <wait> must be at least 0.5 seconds, not 0"}},
		{"above a bound with a unit", card("wait", number("86401")), []string{"f:2:1: <wait> must be at most a day, not 86401"}},
		{"an amount below its bound", card("room", number("1")), []string{"f:2:1: <room> must be at least 1Mi, not 1"}},
		{"both forms of an amount", card("room", text("2Mi"), "room_mb", number("2")), []string{"f:3:1: <room> and <room_mb> are the same setting (keep one of them)"}},
		{"megabytes as text", card("room_mb", text("2")), []string{`f:2:1: <room_mb> must be a whole number of megabytes, not the word "2" (write it without quotes)`}},
		{"an exclusive bound", card("cpus", number("0")), []string{"f:2:1: <cpus> must be more than 0, not 0"}},
		{"a percentage for a share", card("rate", text("60%")), []string{`f:2:1: <rate> must be a number, not the word "60%" (write 0.6)`}},
		{"a percentage with decimals", card("rate", text("97.1%")), []string{`f:2:1: <rate> must be a number, not the word "97.1%" (write 0.971)`}},
		{"a percentage for a number that is no share", card("wait", text("60%")), []string{`f:2:1: <wait> must be a number, not the word "60%" (like wait)`}},
		{"another word", card("pick", text("onw")), []string{`f:2:1: <pick> must be one of one, two, not "onw" (did you mean "one"?)`}},
		{"a number for a word", card("pick", number("1")), []string{"f:2:1: <pick> must be one of one, two, not the number 1 (like pick)"}},
		{"a number for a name of digits", card("digit", number("2")), []string{`f:2:1: <digit> must be one of 1, 2, not the number 2 (write it in quotes: "2")`}},
		{"a row for a word", card("pick", &Node{Kind: List}), []string{"f:2:1: <pick> must be one of one, two, not a row (like pick)"}},
		{"a percentage without its sign for a share", card("rate", number("5")), []string{"f:2:1: <rate> must be at most 1, not 5 (write 0.05 for 5%)"}},
		{"more than all for a share", card("rate", number("500")), []string{"f:2:1: <rate> must be at most 1, not 500"}},
		{"a word for true", card("on", text("Yes")), []string{`f:2:1: <on> must be true or false, not the word "Yes" (write true)`}},
		{"a row for true", card("on", &Node{Kind: List}), []string{"f:2:1: <on> must be true or false, not a row (like on)"}},
		{"a type that decodes itself", card("own", text("wrong")), []string{`f:2:1: <own> must be right, not the word "wrong" (like own)`}},
		{"a missing key", card("inner", card()), []string{`f:2:1: <inner> needs "name" (name it)`}},
		{"text that does not match", card("inner", card("name", text("a b"))), []string{`f:2:1: <inner.name> must be a name, not the word "a b" (name it)`}},
		{"no card", card("inner", number("1")), []string{"f:2:1: <inner> must be a card, not the number 1 (write a card)"}},
		{"no row", card("inners", number("1")), []string{"f:2:1: <inners> must be a row, not the number 1 (write a row)"}},
		{"too many entries", card("inner", card("name", text("x"), "tags", &Node{Kind: List, Items: []*Node{text("a"), text("b"), text("c")}})),
			[]string{"f:3:1: <inner.tags> has 3 entries, and may have 2"}},
		{"an empty entry", card("inners", &Node{Kind: List, Items: []*Node{{Kind: Text, At: Place{"f", 7, 8}}}}), []string{"f:7:8: <inners[0]> is empty (remove it)"}},
		{"NUL", card("pick", text("a\x00")), []string{"f:2:1: <pick> must not contain a NUL character"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p Problems
			var got outer
			NewDecoder(plain(false), tc.root, &p).Decode(&got)
			if text := p.All("f").Error(); text != strings.Join(tc.want, "\n") {
				t.Errorf("problems:\n%s\nwant:\n%s", text, strings.Join(tc.want, "\n"))
			}
			if tc.want != nil && (got.Wait != 5 || got.Room != 2<<20 || got.CPUs != nil || got.Pick != "" || got.Own != "") {
				t.Errorf("an invalid value did not keep its default: %+v", got)
			}
		})
	}
}

func TestDecodedValues(t *testing.T) {
	root := card("wait", &Node{Kind: Float, Text: "1e1"}, "room_mb", &Node{Kind: Int, Text: "3"}, "cpus", &Node{Kind: Text, Text: "500m"},
		"own", &Node{Kind: Text, Text: "right"}, "inners", &Node{Kind: List, Items: []*Node{card("name", &Node{Kind: Text, Text: "x"})}})
	var p Problems
	var got outer
	NewDecoder(plain(true), root, &p).Decode(&got)
	cpus := int64(500)
	want := outer{Wait: 10, Room: 3 << 20, CPUs: &cpus, Own: "decoded", Inners: []inner{{Name: "x"}}}
	if len(p.List) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v; problems: %v", got, want, p.List)
	}
}

func TestUnknownKeysAndLaterChecks(t *testing.T) {
	root := card("colour", &Node{Kind: Bool, Text: "true"}, "inner", card("nam", &Node{Kind: Bool, Text: "true"}), "on", &Node{Kind: Int, Text: "1"})
	var p Problems
	d := NewDecoder(plain(false), root, &p)
	var unknown []string
	d.Unknown = func(_ *Node, p Path, fields []*Field, known []string) {
		for _, f := range fields {
			unknown = append(unknown, fmt.Sprint(p.Child(f.Name), " of ", len(known)))
		}
	}
	d.Decode(new(outer))
	if want := "[colour of 11 inner.nam of 2]"; fmt.Sprint(unknown) != want {
		t.Errorf("unknown: %v, want %s", unknown, want)
	}
	d.Problem(Path{"on"}, "", "is bad for another reason, too")
	d.Problem(Path{"wait"}, "", "is missing")
	if text := p.All("f").Error(); strings.Contains(text, "another reason") || !strings.Contains(text, "f:1:1: is missing") {
		t.Errorf("problems:\n%s", text)
	}
	if !d.Bad(Path{"inner", "name"}) || !d.BadBelow(Path{"inner"}) || d.BadBelow(Path{"inners"}) {
		t.Error("the bad values are others")
	}
}

func TestFieldsOfLargeMappings(t *testing.T) {
	n := &Node{Kind: Mapping}
	for i := range 3 * manyFields {
		name := fmt.Sprint(i)
		if n.Field(name) != nil {
			t.Fatalf("there is a field %s already", name)
		}
		n.Add(&Field{Name: name, Value: &Node{Kind: Int, Text: name}})
		if f := n.Field(name); f == nil || f.Value.Text != name {
			t.Fatalf("field %s is %v", name, f)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]string{
		"1_000": "1000", "0x10": "16", "0o17": "15", "0b11": "3", "+5": "5", "1e3": "1000", ".5": "0.5", ".inf": "+Inf", "-inf": "-Inf", "+nan": "NaN", ".NaN": "NaN",
	} {
		for _, kind := range []Kind{Int, Float} {
			f, ok := (&Node{Kind: kind, Text: text}).Number()
			if kind == Float && strings.ContainsAny(text, "xob") {
				continue // integers only
			}
			if got := fmt.Sprint(f); got != want || !ok {
				t.Errorf("%q is %s, %t; want %s", text, got, ok, want)
			}
		}
	}
	if _, ok := (&Node{Kind: Text, Text: "1"}).Number(); ok {
		t.Error("text is a number")
	}
}

func TestPathsAndLines(t *testing.T) {
	if got := (Path{"agents", "0", "env", "A"}).String() + (Path{"0"}).In(); got != "agents[0].env.A in 0" {
		t.Errorf("got %s", got)
	}
	lines := NewLines("f", []byte("é=1\nab\n"))
	for offset, want := range map[int]Place{0: {"f", 1, 1}, 2: {"f", 1, 2}, 5: {"f", 2, 1}, 6: {"f", 2, 2}, 99: {"f", 3, 1}} {
		if got := lines.At(offset); got != want {
			t.Errorf("offset %d is at %v, want %v", offset, got, want)
		}
	}
}
