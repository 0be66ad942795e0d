package judge

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// tenPoints is a judge with a score of up to ten points.
func tenPoints(t testing.TB, source Source) *Judge {
	return compiled(t, Spec{
		Agent: "shell", Source: source, Score: "verdict.score / 10",
		Verdict: object(map[string]any{"score": points, "reason": map[string]any{"type": "string"}, "more": map[string]any{}}, "score", "reason"),
	})
}

func TestVerdictsInFilesAndReplies(t *testing.T) {
	const bare = `{"reason": "fine", "score": 7}`
	for name, tc := range map[string]struct {
		text        string
		file, reply bool // it is a verdict there
	}{
		"a bare object":                         {bare, true, true},
		"white space around it":                 {"\n\t " + bare + "\r\n", true, true},
		"a fenced block":                        {"```json\n" + bare + "\n```", false, true},
		"a fenced block without a language":     {"```\n" + bare + "\n```\n", false, true},
		"a fenced block in capitals":            {"```JSON\n" + bare + "\n```", false, true},
		"a fenced block on a single line":       {"```json " + bare + " ```", false, true},
		"a fence at the object":                 {"```" + bare + "```", false, true},
		"prose before it":                       {"The verdict: " + bare, false, false},
		"prose after it":                        {bare + " That is all.", false, false},
		"prose before a block":                  {"Here:\n```json\n" + bare + "\n```", false, false},
		"prose after a block":                   {"```json\n" + bare + "\n```\nDone.", false, false},
		"two blocks":                            {"```json\n" + bare + "\n```\n```json\n" + bare + "\n```", false, false},
		"two objects":                           {bare + bare, false, false},
		"two lines with an object each":         {bare + "\n" + bare, false, false},
		"a list":                                {"[" + bare + "]", false, false},
		"a text":                                {`"7"`, false, false},
		"a number":                              {"7", false, false},
		"null":                                  {"null", false, false},
		"an object in a text":                   {`"{\"score\": 7}"`, false, false},
		"comments":                              {"{/* fine */ \"reason\": \"fine\", \"score\": 7}", false, false},
		"a comma at the end":                    {`{"reason": "fine", "score": 7,}`, false, false},
		"single quotes":                         {`{'reason': 'fine', 'score': 7}`, false, false},
		"a byte order mark":                     {"\ufeff" + bare, false, true},
		"reasoning before it":                   {"<think>\nIs {} fine?\n</think>\n\n" + bare, false, true},
		"reasoning before a block":              {"<think>fine</think>```json\n" + bare + "\n```", false, true},
		"reasoning without an end":              {"<think>fine " + bare, false, false},
		"a block of tildes":                     {"~~~json\n" + bare + "\n~~~", false, true},
		"a block of four backticks":             {"````\n" + bare + "\n````", false, true},
		"a fence that is shorter at its end":    {"````\n" + bare + "\n```", false, false},
		"a fence that is longer at its end":     {"```\n" + bare + "\n````", false, false},
		"a block of jsonc":                      {"```jsonc\n" + bare + "\n```", false, true},
		"only the beginning":                    {`{"reason": "fine", "sco`, false, false},
		"an unfinished block":                   {"```json\n" + bare, false, false},
		"a block of another language":           {"```yaml\n" + bare + "\n```", false, false},
		"a value that is only in the reason":    {`{"reason": "{\"score\": 7}"}`, false, false},
		"other properties are the schema's own": {`{"reason": "fine", "score": 7, "confidence": 0.3}`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for source, want := range map[Source]bool{FromFile: tc.file, FromReply: tc.reply} {
				v, err := tenPoints(t, source).Read([]byte(tc.text))
				is := (*InvalidError)(nil)
				switch {
				case want && (err != nil || v.Score != 0.7 || v.Reason != "fine"):
					t.Errorf("%s: %+v, %v", source, v, err)
				case !want && (!errors.As(err, &is) || v.JSON != nil):
					t.Errorf("%s: %+v, %v", source, v, err)
				}
			}
		})
	}
}

func TestMissingVerdicts(t *testing.T) {
	for _, text := range []string{"", " \n\t", "\r\n"} {
		for _, source := range []Source{FromFile, FromReply} {
			if _, err := tenPoints(t, source).Read([]byte(text)); !errors.Is(err, ErrMissing) {
				t.Errorf("%q from %s: %v", text, source, err)
			}
		}
	}
	if _, err := tenPoints(t, FromReply).Read([]byte("```json\n```")); !errors.Is(err, ErrMissing) {
		t.Errorf("an empty block: %v", err)
	}
}

// Errors about any verdict are short and name the problem.
func TestHostileVerdicts(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct{ text, want string }{
		"a score out of range":      {`{"reason": "x", "score": 11}`, "at '/score': maximum: got 11, want 10"},
		"a negative score":          {`{"reason": "x", "score": -1}`, "minimum"},
		"a score between":           {`{"reason": "x", "score": 0.5}`, "got number, want integer"},
		"a score in words":          {`{"reason": "x", "score": "10"}`, "got string, want integer"},
		"no score":                  {`{"reason": "x"}`, "missing property 'score'"},
		"null":                      {`{"reason": "x", "score": null}`, "got null, want integer"},
		"NaN":                       {`{"reason": "x", "score": NaN}`, "not JSON"},
		"Infinity":                  {`{"reason": "x", "score": Infinity}`, "not JSON"},
		"a number beyond all":       {`{"reason": "x", "score": 1e999}`, "the number 1e999 is too large"},
		"a number of huge exponent": {`{"reason": "x", "score": 1, "more": 1e1000000000}`, "is too large"},
		"a number of many digits":   {`{"reason": "x", "score": ` + strings.Repeat("9", 100_000) + `}`, "is too large"},
		"a score that occurs twice": {`{"reason": "x", "score": 1, "score": 10}`, `"score" occurs twice`},
		"a nested twin":             {`{"reason": "x", "score": 1, "more": {"a": 1, "a": 2}}`, `"more/a" occurs twice`},
		"a twin in other spelling":  {`{"reason": "x", "score": 1, "sc\u006fre": 10}`, `"score" occurs twice`},
		"deep nesting":              {`{"reason": "x", "score": 1, "more": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "nested more than 64 deep"},
		"many values":               {`{"reason": "x", "score": 1, "more": [` + strings.Repeat("0,", 20_000) + `0]}`, "more than 10000 values"},
		"too many bytes":            {`{"reason": "` + strings.Repeat("x", 1<<20) + `", "score": 1}`, "longer than 1 MiB"},
		"other than UTF-8":          {"{\"reason\": \"\xff\xfe\", \"score\": 1}", "not JSON"},
		"half a surrogate":          {`{"reason": "\ud800", "score": 1}`, "not JSON"},
		"a NUL":                     {"{\"reason\": \"\x00\", \"score\": 1}", "not JSON"},
		"text of the agent":         {long, `it begins with "xxx`},
		"bytes":                     {"\xff\xfe\x00", "it begins with"},
		"a long name":               {`{"reason": "x", "score": 1, "` + long + `": 1, "` + long + `": 2}`, "occurs twice"},
		"a long text for a number":  {`{"reason": "x", "score": "` + long + `"}`, "want integer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tenPoints(t, FromFile).Read([]byte(tc.text))
			is := (*InvalidError)(nil)
			if !errors.As(err, &is) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "the verdict is not valid: ") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && (len(err.Error()) > maxMessage+100 || !utf8.ValidString(err.Error())) {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestFieldsThatAVerdictKeeps(t *testing.T) {
	v, err := tenPoints(t, FromFile).Read([]byte("{\n  \"score\": 1e0,\n  \"reason\": \"<a> & \\u00e9\",\n  \"more\": {\"b\": 1, \"a\": 2}\n}\n"))
	if err != nil || string(v.JSON) != `{"score":1e0,"reason":"<a> & \u00e9","more":{"b":1,"a":2}}` || v.Reason != "<a> & é" || v.Score != 0.1 || v.Criteria != nil {
		t.Errorf("%s %+v %v", v.JSON, v, err)
	}
	v, err = tenPoints(t, FromFile).Read([]byte(`{"score": 1, "reason": "` + strings.Repeat("é", 100_000) + `"}`))
	if err != nil || len(v.Reason) > maxReason+50 || !utf8.ValidString(v.Reason) {
		t.Errorf("the reason has %d bytes; %v", len(v.Reason), err)
	}
}

// A score that follows from values that the schema does not bound is checked again.
func TestAScoreOutsideOfItsRangeIsInvalid(t *testing.T) {
	form := object(map[string]any{"score": map[string]any{"type": "number", "minimum": 0, "maximum": 1000, "pattern": ""}}, "score")
	j := &Judge{Spec: Spec{Name: "q"}} // loading refuses such a judge
	var err error
	if j.schema, err = compileSchema([]byte(indented(form))); err != nil {
		t.Fatal(err)
	}
	if j.score, err = compileExpression("verdict.score / verdict.score + verdict.score", &kind{fields: map[string]*kind{"verdict": kindOf(j.schema)}}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{`{"score": 900}`: "its score is 901, which is not from 0 to 1", `{"score": 0}`: "its score is not a finite number"} {
		if _, err := j.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestVerdictsAboutCriteria(t *testing.T) {
	j := compiled(t, Spec{Agent: Call, Criteria: []Criterion{
		{Name: "minimal", Text: "Is the change minimal?", Choices: []string{"no", "partly", "yes"}, Weight: 2},
		{Name: "tested", Text: "Is it tested?", Weight: 1},
	}})
	all := func(parts ...string) string { return `{"verdicts": [` + strings.Join(parts, ", ") + `]}` }
	minimal := func(choice string) string {
		return `{"name": "minimal", "reason": "short", "choice": "` + choice + `"}`
	}
	const tested = `{"name": "tested", "reason": "it runs", "choice": "yes"}`
	for name, tc := range map[string]struct {
		text  string
		score float64
		want  string // the error
	}{
		"the best":                    {all(minimal("yes"), tested), 1, ""},
		"another order":               {all(tested, minimal("no")), 1.0 / 3, ""},
		"a choice between":            {all(minimal("partly"), tested), 2.0 / 3, ""},
		"a block":                     {"```json\n" + all(minimal("yes"), tested) + "\n```", 1, ""},
		"one that is missing":         {all(minimal("yes")), 0, "criterion tested has no verdict"},
		"one that occurs twice":       {all(minimal("yes"), minimal("no"), tested), 0, "criterion minimal has two verdicts"},
		"one more":                    {all(minimal("yes"), tested, `{"name": "nice", "reason": "x", "choice": "yes"}`), 0, `there is no criterion "nice"; there are: minimal, tested`},
		"another case":                {all(`{"name": "Minimal", "reason": "x", "choice": "yes"}`, tested), 0, `there is no criterion "Minimal"`},
		"a choice that is none":       {all(minimal("maybe"), tested), 0, `criterion minimal has the choice "maybe", which is none of "no", "partly", "yes"`},
		"a choice of another one":     {all(minimal("yes"), `{"name": "tested", "reason": "x", "choice": "partly"}`), 0, "criterion tested has the choice"},
		"no reason":                   {all(minimal("yes"), `{"name": "tested", "choice": "yes"}`), 0, `verdicts[1] has no text "reason"`},
		"a choice that is a number":   {all(minimal("yes"), `{"name": "tested", "reason": "x", "choice": 1}`), 0, `verdicts[1] has no text "choice"`},
		"a score of its own":          {all(minimal("yes"), `{"name": "tested", "reason": "x", "choice": "yes", "score": 1}`), 0, `verdicts[1] has the property "score"`},
		"a score of the whole":        {`{"score": 1, "verdicts": [` + minimal("no") + `, ` + tested + `]}`, 0, `it has the property "score"`},
		"no verdicts":                 {`{}`, 0, "it has no list verdicts"},
		"verdicts that are an object": {`{"verdicts": {}}`, 0, "it has no list verdicts"},
		"a verdict that is a text":    {`{"verdicts": ["yes", "yes"]}`, 0, "verdicts[0] is no object"},
		"none of them":                {`{"verdicts": []}`, 0, "criterion minimal has no verdict"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := j.Read([]byte(tc.text))
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || v.Criteria != nil || v.JSON != nil {
					t.Errorf("%+v, %v", v, err)
				}
				return
			}
			if err != nil || math.Abs(v.Score-tc.score) > 1e-12 || v.Reason != "minimal: short\ntested: it runs" || v.Criteria["tested"] != 1 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	if v, err := j.Read([]byte(all(minimal("partly"), tested))); err != nil || v.Criteria["minimal"] != 0.5 {
		t.Errorf("%+v, %v", v, err)
	}
}

// The form that judges are shown is a schema that their verdicts fit, and no others.
func TestTheFormOfCriteria(t *testing.T) {
	j := compiled(t, Spec{Criteria: []Criterion{{Name: "a", Text: "x"}, {Name: "b", Text: "y", Choices: []string{"bad", "good"}}}})
	for text, fits := range map[string]bool{
		`{"verdicts": [{"name": "a", "reason": "", "choice": "yes"}, {"name": "b", "reason": "", "choice": "bad"}]}`: true,
		`{"verdicts": [{"name": "a", "reason": "", "choice": "bad"}, {"name": "b", "reason": "", "choice": "bad"}]}`: false,
		`{"verdicts": [{"name": "a", "reason": "", "choice": "yes"}]}`:                                               false,
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := j.schema.Validate(value); (err == nil) != fits {
			t.Errorf("%s: %v", text, err)
		}
	}
	if reason, choice := strings.Index(j.form, `"reason":`), strings.Index(j.form, `"choice":`); reason < 0 || reason > choice {
		t.Errorf("the reason does not come before the choice:\n%s", j.form)
	}
}

// Reading any reply of a judge ends with a verdict whose score is from 0 to 1, or with an error of
// the two kinds.
func FuzzRead(f *testing.F) {
	judges := []*Judge{
		tenPoints(f, FromFile), tenPoints(f, FromReply),
		compiled(f, Spec{Agent: Call, Criteria: []Criterion{{Name: "minimal", Text: "x"}}}),
		compiled(f, Spec{Verdict: review, Score: "verdict.correct and any(verdict.findings, .fixed)"}),
	}
	for _, seed := range []string{
		"", "```", "```json```", "```json\n{}\n```", `{"reason": "x", "score": 3}`, `{"verdicts": [{"name": "minimal", "reason": "x", "choice": "yes"}]}`,
		`{"score": 5, "correct": true, "cited": true, "tone": "kind", "findings": [{"severity": "low", "fixed": true}]}`, `{"a": 1e400}`, `{"a": "\ud800"}`, "{\"a\": \"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, j := range judges {
			v, err := j.Read(text)
			is := (*InvalidError)(nil)
			switch {
			case err == nil && (!(v.Score >= 0 && v.Score <= 1) || !json.Valid(v.JSON) || !utf8.ValidString(v.Reason)):
				t.Errorf("%q: %+v", text, v)
			case err != nil && !errors.Is(err, ErrMissing) && !errors.As(err, &is):
				t.Errorf("%q: %v", text, err)
			case err != nil && (!utf8.ValidString(err.Error()) || len(err.Error()) > 2*maxMessage):
				t.Errorf("%q: %q", text, err)
			}
		}
	})
}
