package judge

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// doubling returns a schema in which each of so many steps refers to the next one twice by a
// keyword.
func doubling(keyword string, steps int, last map[string]any) map[string]any {
	defs := map[string]any{fmt.Sprintf("d%d", steps): last}
	for n := range steps {
		next := map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", n+1)}
		defs[fmt.Sprintf("d%d", n)] = map[string]any{keyword: []any{next, next}}
	}
	s := object(map[string]any{"score": map[string]any{"type": "number", "$ref": "#/$defs/d0"}}, "score")
	s["$defs"] = defs
	return s
}

// Schemas whose checks would take years are refused when they are read. All of these cases are
// instant, or this test does not end.
func TestSchemasThatExplode(t *testing.T) {
	unit := between(0, 1)
	full := map[string]any{} // each refers to each other one
	for n := range 12 {
		var others []any
		for other := range 12 {
			if other != n {
				others = append(others, map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", other)})
			}
		}
		full[fmt.Sprintf("d%d", n)] = map[string]any{"anyOf": others}
	}
	everyone := object(map[string]any{"score": map[string]any{"$ref": "#/$defs/d0"}}, "score")
	everyone["$defs"] = full
	wide := unit // each property of each level has the next level
	defs := map[string]any{}
	for n := range 8 {
		properties := map[string]any{"score": unit}
		for name := range 60 {
			properties[fmt.Sprintf("p%d", name)] = wide
		}
		defs[fmt.Sprintf("w%d", n)] = object(properties, "score")
		wide = map[string]any{"$ref": fmt.Sprintf("#/$defs/w%d", n)}
	}
	deep := maps.Clone(defs["w7"].(map[string]any))
	deep["$defs"] = defs
	const doubled, endless = "it compares a single value with more than 10000 schemas, because alternatives refer to alternatives: #/$defs/d", "it refers to itself without an end: #"
	for name, tc := range map[string]struct {
		schema map[string]any
		want   string
	}{
		"anyOf":               {doubling("anyOf", 60, unit), doubled},
		"allOf":               {doubling("allOf", 60, unit), doubled},
		"oneOf":               {doubling("oneOf", 60, unit), doubled},
		"a few steps":         {doubling("allOf", 5, unit), ""},
		"each to each":        {everyone, endless},
		"not itself":          {object(map[string]any{"score": unit, "x": map[string]any{"not": map[string]any{"$ref": "#/properties/x"}}}, "score"), endless + "/properties/x"},
		"a dynamic reference": {object(map[string]any{"score": unit, "x": map[string]any{"$dynamicRef": "#"}}, "score"), "write $ref"},
		"deep and wide":       {deep, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := Compile(Spec{Name: "q", Prompt: "x", Verdict: tc.schema})
			if tc.want == "" {
				wantProblems(t, found)
				return
			}
			wantProblems(t, found, tc.want)
		})
	}
}

// A schema may refer to itself in a part of a value. Verdicts that make that expensive are invalid,
// and all others are checked.
func TestVerdictsThatExplode(t *testing.T) {
	itself := map[string]any{"$ref": "#"}
	j := compiled(t, Spec{Verdict: object(map[string]any{
		"score": between(0, 1), "x": map[string]any{"anyOf": []any{itself, itself}},
		"list": map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{"anyOf": []any{points, map[string]any{"type": "array"}}}},
	}, "score")})
	nested := func(n int, score string) string {
		return strings.Repeat(`{"score":1,"x":`, n) + `{"score":` + score + `}` + strings.Repeat("}", n)
	}
	var numbers, lists strings.Builder
	for n := range 4000 {
		fmt.Fprintf(&numbers, "%d,", 1000+n)
		fmt.Fprintf(&lists, "[%d],", n)
	}
	for name, tc := range map[string]struct{ verdict, want string }{
		"nested":                  {nested(8, "0.5"), ""},
		"nested and wrong":        {nested(8, "7"), "maximum: got 7, want 1"},
		"deeply nested":           {nested(60, "0.5"), "it cannot be checked in a reasonable time"},
		"deeply nested and wrong": {nested(60, "7"), "it cannot be checked in a reasonable time"},
		"a long list":             {`{"score": 1, "list": [` + lists.String() + `[]]}`, ""},
		"a list of wrong values":  {`{"score": 1, "list": [` + numbers.String() + `1]}`, "; and 7997 more"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := j.Read([]byte(tc.verdict))
			is := (*InvalidError)(nil)
			switch {
			case tc.want == "" && (err != nil || v.Score != 1):
				t.Errorf("%+v, %v", v, err)
			case tc.want != "" && (!errors.As(err, &is) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
