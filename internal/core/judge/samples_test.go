package judge

import (
	"strings"
	"testing"
)

func TestSchemasThatNothingFits(t *testing.T) {
	score := func(s map[string]any) map[string]any { return object(map[string]any{"score": s}, "score") }
	for name, tc := range map[string]struct {
		schema map[string]any
		want   string
	}{
		"a minimum above the maximum":          {score(between(3, 1)), "score, which is required: its minimum 3 is above its maximum 1"},
		"an open interval without a number":    {score(map[string]any{"type": "number", "minimum": 1, "exclusiveMaximum": 1}), "is above its maximum"},
		"no whole number between":              {score(map[string]any{"type": "integer", "minimum": 0.1, "maximum": 0.9}), "no whole number from 0.1 to 0.9"},
		"bounds in two parts":                  {score(map[string]any{"allOf": []any{between(0, 1), between(2, 3)}}), "its minimum 2 is above its maximum 1"},
		"an empty enum":                        {score(map[string]any{"enum": []any{}}), "its enum is empty"},
		"an enum of another type":              {score(map[string]any{"type": "number", "enum": []any{"a"}}), "none of its values fits"},
		"a const that is out of range":         {score(map[string]any{"const": 2, "maximum": 1}), "none of its values fits"},
		"types that exclude each other":        {score(map[string]any{"allOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}}), "its types exclude each other"},
		"a property that is false":             {object(map[string]any{"score": between(0, 1), "x": false}, "score", "x"), "x, which is required: nothing is allowed"},
		"a property that is not listed":        {map[string]any{"type": "object", "properties": map[string]any{"score": between(0, 1)}, "required": []any{"x", "score"}, "additionalProperties": false}, "x, which is required: additionalProperties forbids it"},
		"lengths of a text":                    {object(map[string]any{"score": between(0, 1), "x": map[string]any{"type": "string", "minLength": 3, "maxLength": 1}}, "score", "x"), "its minLength 3 is above its maxLength 1"},
		"lengths of a list":                    {object(map[string]any{"score": between(0, 1), "x": map[string]any{"type": "array", "minItems": 3, "maxItems": 1}}, "score", "x"), "its minItems 3 is above its maxItems 1"},
		"a list of what there is not":          {object(map[string]any{"score": between(0, 1), "x": map[string]any{"type": "array", "minItems": 1, "items": between(3, 1)}}, "score", "x"), "x, which is required: [0]: its minimum 3"},
		"a part of a part":                     {object(map[string]any{"score": between(0, 1), "x": score(between(3, 1))}, "score", "x"), "x, which is required: score, which is required: its minimum 3"},
		"a reference":                          {map[string]any{"type": "object", "$ref": "#/$defs/a", "$defs": map[string]any{"a": score(between(3, 1))}, "properties": map[string]any{"score": map[string]any{"type": "number"}}}, "its minimum 3 is above"},
		"all alternatives":                     {score(map[string]any{"type": "number", "anyOf": []any{between(3, 1), between(5, 2)}}), "is above its maximum"},
		"the schema itself alone":              {map[string]any{"type": "object", "$ref": "#"}, "it refers to itself without an end"},
		"a part that is itself alone":          {map[string]any{"type": "object", "properties": map[string]any{"score": map[string]any{"$ref": "#/$defs/a"}}, "required": []any{"score"}, "$defs": map[string]any{"a": map[string]any{"allOf": []any{map[string]any{"$ref": "#/$defs/a"}}}}}, "it refers to itself without an end: #/$defs/a"},
		"what is forbidden may be left out":    {object(map[string]any{"score": between(0, 1), "x": between(3, 1)}, "score"), ""},
		"one alternative is enough":            {score(map[string]any{"type": "number", "anyOf": []any{between(3, 1), between(0, 1)}}), ""},
		"a pattern, of which nothing is known": {object(map[string]any{"score": between(0, 1), "x": map[string]any{"type": "string", "pattern": "^[0-9]{40}$"}}, "score", "x"), ""},
		"the schema in itself":                 {object(map[string]any{"score": between(0, 1), "x": map[string]any{"$ref": "#"}}, "score", "x"), ""},
		"a condition":                          {map[string]any{"type": "object", "properties": map[string]any{"score": between(0, 1)}, "required": []any{"score"}, "if": map[string]any{"properties": map[string]any{"score": map[string]any{"const": 0}}}, "then": map[string]any{"required": []any{"why"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := Compile(Spec{Name: "q", Prompt: "x", Verdict: tc.schema})
			if tc.want == "" {
				wantProblems(t, found)
				return
			}
			if len(found) != 1 || found[0].Key.String() != "verdict" || !strings.Contains(found[0].Message, tc.want) {
				t.Errorf("%+v", found)
			}
		})
	}
}

func TestInvalidSchemasAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		schema map[string]any
		want   string
	}{
		"another type":                {map[string]any{"type": "string"}, "must describe an object (add type: object"},
		"an object or null":           {map[string]any{"type": []any{"object", "null"}}, "must describe an object"},
		"no type":                     {map[string]any{"properties": map[string]any{"score": between(0, 1)}}, "must describe an object"},
		"a type that is none":         {map[string]any{"type": "objct"}, "at '/type': value must be one of"},
		"a keyword of the wrong type": {map[string]any{"type": "object", "required": "score"}, "at '/required': got string, want array"},
		"a reference to the web":      {map[string]any{"$ref": "https://example.org/verdict.json"}, "schemas elsewhere are not loaded"},
		"a reference to a file":       {map[string]any{"$ref": "file:///etc/passwd"}, "schemas elsewhere are not loaded"},
		"one that is too large":       {map[string]any{"type": "object", "description": strings.Repeat("x", maxSchema)}, "is longer than 64 KiB"},
		"a reference to nothing":      {map[string]any{"type": "object", "$ref": "#/$defs/none"}, "is no usable JSON Schema"},
		"a draft of one's own":        {map[string]any{"type": "object", "$schema": "https://example.org/draft"}, "schemas elsewhere are not loaded"},
		"a pattern that is none":      {map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"pattern": "("}}}, "not valid regex"},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := Compile(Spec{Name: "q", Prompt: "x", Verdict: tc.schema})
			wantProblems(t, found, "verdict: ")
			wantProblems(t, found, tc.want)
		})
	}
	for _, draft := range []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"} {
		s := object(map[string]any{"score": between(0, 1)}, "score")
		s["$schema"] = draft
		compiled(t, Spec{Verdict: s})
	}
}

// The score is tried with the extremes of all values.
func TestScoresAreTriedWithExtremes(t *testing.T) {
	for name, tc := range map[string]struct {
		schema      map[string]any
		score, want string
	}{
		"numbers without bounds":     {object(map[string]any{"score": map[string]any{"type": "number"}}, "score"), "", `{"score":1000} the score is 1000`},
		"the maximum alone":          {object(map[string]any{"score": between(0, 11)}, "score"), "verdict.score / 10", `{"score":11} the score is 1.1`},
		"a value of an enum":         {object(map[string]any{"grade": map[string]any{"enum": []any{0, 0.5, 7}}}, "grade"), "verdict.grade", `{"grade":7} the score is 7`},
		"both at once":               {object(map[string]any{"a": between(0, 1), "b": between(0, 1)}, "a", "b"), "0.6 * verdict.a + 0.6 * verdict.b", `{"a":1,"b":1} the score is 1.2`},
		"a difference":               {object(map[string]any{"a": between(0, 1), "b": between(0, 1)}, "a", "b"), "verdict.a - verdict.b", `{"a":0,"b":1} the score is -1`},
		"a list that is empty":       {object(map[string]any{"a": map[string]any{"type": "array", "items": between(0, 1)}}, "a"), "mean(verdict.a)", `{"a":[]} the score cannot be computed: mean of an empty list has no value`},
		"a list that is never empty": {object(map[string]any{"a": map[string]any{"type": "array", "items": between(0, 1), "minItems": 1}}, "a"), "mean(verdict.a)", ""},
		"the length of a list":       {object(map[string]any{"a": map[string]any{"type": "array", "items": between(0, 1)}}, "a"), "len(verdict.a) / 100", "is not from 0 to 1"},
		"the length of a text":       {object(map[string]any{"a": map[string]any{"type": "string"}}, "a"), "len(verdict.a) / 100", "is not from 0 to 1"},
		"the length of a short text": {object(map[string]any{"a": map[string]any{"type": "string", "maxLength": 100}}, "a"), "len(verdict.a) / 100", ""},
		"the length of a short list": {object(map[string]any{"a": map[string]any{"type": "array", "items": between(0, 1), "maxItems": 100}}, "a"), "len(verdict.a) / 100", ""},
		"a sum of many":              {object(map[string]any{"a": map[string]any{"type": "array", "items": between(0, 1)}}, "a"), "sum(verdict.a) / 2", `is not from 0 to 1`},
		"an alternative":             {map[string]any{"type": "object", "oneOf": []any{object(map[string]any{"score": map[string]any{"const": 1}}, "score"), object(map[string]any{"score": map[string]any{"const": 2}}, "score")}}, "", `{"score":2} the score is 2`},
		"what may be missing":        {object(map[string]any{"score": between(0, 1)}), "", `{} the score has no value (null) (add the property to required`},
		"what may be null":           {object(map[string]any{"score": map[string]any{"type": []any{"number", "null"}, "minimum": 0, "maximum": 1}}, "score"), "", `{"score":null} the score has no value (null)`},
		"what may be anything":       {object(map[string]any{"score": map[string]any{}}, "score"), "", "the score is a"},
		"many values":                {object(map[string]any{"a": between(0, 1), "b": between(0, 1), "c": between(0, 1), "d": between(0, 1), "e": between(0, 1), "f": truth}, "a", "b", "c", "d", "e", "f"), "(verdict.a + verdict.b + verdict.c + verdict.d + verdict.e) / 4", "the score is 1.25"},
		"many values that fit":       {object(map[string]any{"a": between(0, 1), "b": between(0, 1), "c": between(0, 1), "d": between(0, 1), "e": between(0, 1), "f": truth}, "a", "b", "c", "d", "e", "f"), "(verdict.a + verdict.b + verdict.c + verdict.d + verdict.e) / 5", ""},
		"a property without name":    {object(map[string]any{"points": points}, "points"), "", "there is no verdict.score; verdict has: points (add score: with an expression"},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := Compile(Spec{Name: "q", Prompt: "x", Verdict: tc.schema, Score: tc.score})
			if tc.want == "" {
				wantProblems(t, found)
				return
			}
			wantProblems(t, found, tc.want)
		})
	}
}

// Samples fit their schema, and there are not too many of them, however deep and wide it is.
func TestSamplesAreBounded(t *testing.T) {
	inner := object(map[string]any{"a": points, "b": truth})
	for range 6 {
		inner = object(map[string]any{"a": inner, "b": inner, "c": inner, "d": points}, "a", "d")
	}
	for name, schema := range map[string]map[string]any{
		"deep and wide": inner,
		"in itself":     {"type": "object", "properties": map[string]any{"a": map[string]any{"$ref": "#"}, "b": map[string]any{"$ref": "#"}, "c": points}, "required": []any{"c"}},
	} {
		s, err := compileSchema([]byte(indented(schema)))
		if err != nil {
			t.Fatal(err)
		}
		values, why := sample(s)
		if why != "" || len(values) > maxSamples || name == "in itself" && len(values) == 0 {
			t.Errorf("%s: %d samples, %q", name, len(values), why)
		}
		for _, v := range values {
			if err := s.Validate(v); err != nil {
				t.Fatalf("%s: %v", inline(v), err)
			}
		}
	}
}
