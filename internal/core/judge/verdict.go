package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

// Verdict is a judge's verdict on a trial.
type Verdict struct {
	JSON     json.RawMessage    // as the judge has given it, without white space
	Score    float64            // from 0 to 1
	Reason   string             // the property reason, or those of the criteria, shortened; "" if there is none
	Criteria map[string]float64 // from 0 to 1, by name; nil without criteria
}

// ErrMissing is the error of an empty verdict.
var ErrMissing = errors.New("there is no verdict")

// InvalidError is the error of an invalid verdict. Its text may quote the verdict.
type InvalidError struct{ Problem string }

// Error returns the problem as a sentence about the verdict.
func (e *InvalidError) Error() string { return "the verdict is not valid: " + e.Problem }

func invalid(format string, args ...any) error {
	return &InvalidError{excerpt.Line(fmt.Sprintf(format, args...), maxMessage)}
}

// The bounds of a verdict.
const (
	maxVerdict = 1 << 20 // bytes
	maxDepth   = 64      // of lists and objects in each other
	maxValues  = 10_000
	maxReason  = 4 << 10 // bytes of Verdict.Reason
	maxMessage = 1 << 10 // bytes of an InvalidError
)

// Read reads a verdict and computes its score. The error is ErrMissing or an *InvalidError.
func (j *Judge) Read(text []byte) (Verdict, error) {
	value, compact, err := j.parse(text)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{JSON: compact}
	if len(j.Criteria) > 0 {
		if err := j.weigh(value, &v); err != nil {
			return Verdict{}, err
		}
		return v, nil
	}
	if err := j.fits(value); err != nil {
		return Verdict{}, err
	}
	reason, _ := value["reason"].(string)
	v.Reason = excerpt.Middle(reason, maxReason)
	if v.Score, err = j.score.unit(map[string]any{"verdict": value}); err != nil {
		return Verdict{}, invalid("its score %v", err)
	}
	return v, nil
}

// parse returns the object in a verdict, and its text without white space.
func (j *Judge) parse(text []byte) (value map[string]any, compact []byte, err error) {
	if len(text) > maxVerdict {
		return nil, nil, invalid("it is longer than %d MiB", maxVerdict>>20)
	}
	text = bytes.TrimSpace(text)
	if j.VerdictSource() == FromReply {
		text = unfenced(text)
	}
	if len(text) == 0 {
		return nil, nil, ErrMissing
	}
	if value, err = decode(text); err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return nil, nil, invalid("%v", err)
	}
	return value, out.Bytes(), nil
}

// unfenced returns the content of a reply's only fenced block, if the reply is nothing else. Fences
// are those of Markdown, of three or more backticks or tildes. A byte order mark and a reasoning
// block before the answer, which some models write, are dropped.
func unfenced(text []byte) []byte {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	if rest, ok := bytes.CutPrefix(text, []byte("<think>")); ok {
		if _, after, ends := bytes.Cut(rest, []byte("</think>")); ends {
			text = bytes.TrimSpace(after)
		}
	}
	fence := fenceOf(text)
	if fence == nil {
		return text
	}
	inner, ends := bytes.CutSuffix(text[len(fence):], fence)
	if !ends || bytes.Contains(inner, append([]byte("\n"), fence...)) || bytes.HasSuffix(inner, fence[:1]) {
		return text
	}
	info := bytes.IndexAny(inner, "\n{[")
	if info >= 0 && slices.Contains([]string{"json", "jsonc", "json5"}, strings.ToLower(string(bytes.TrimSpace(inner[:info])))) {
		inner = inner[info:]
	}
	return bytes.TrimSpace(inner)
}

// fenceOf returns the fence that a text begins with; nil if it begins with none.
func fenceOf(text []byte) []byte {
	for _, mark := range []string{"`", "~"} {
		if n := len(text) - len(bytes.TrimLeft(text, mark)); n >= 3 {
			return bytes.Clone(text[:n])
		}
	}
	return nil
}

// decode reads one JSON object and nothing else. Numbers are float64.
func decode(text []byte) (map[string]any, error) {
	if first := text[0]; first != '{' {
		return nil, invalid("it begins with %q and not with { as a JSON object does", excerpt.Line(strings.ToValidUTF8(string(text[:min(len(text), 60)]), "\ufffd"), 60))
	}
	d := &reader{Decoder: jsontext.NewDecoder(bytes.NewReader(text))}
	value, err := d.value()
	if err != nil {
		return nil, d.explain(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, invalid("there is more after the JSON object")
	}
	return value.(map[string]any), nil
}

// reader reads a JSON document of a judge. The decoder refuses names that occur twice and text that
// is not UTF-8.
type reader struct {
	*jsontext.Decoder
	values int
}

func (r *reader) value() (any, error) {
	token, err := r.ReadToken()
	if err != nil {
		return nil, err
	}
	if r.values++; r.values > maxValues {
		return nil, invalid("it has more than %d values", maxValues)
	}
	if r.StackDepth() > maxDepth {
		return nil, invalid("its lists and objects are nested more than %d deep", maxDepth)
	}
	switch token.Kind() {
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		text := token.String()
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(number, 0) {
			return nil, invalid("the number %s is too large", excerpt.Line(text, 40))
		}
		return number, nil
	case '[':
		out := []any{}
		for r.PeekKind() != ']' {
			item, err := r.value()
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
		_, err := r.ReadToken()
		return out, err
	case '{':
		out := map[string]any{}
		for r.PeekKind() != '}' {
			name, err := r.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if out[key], err = r.value(); err != nil {
				return nil, err
			}
		}
		_, err := r.ReadToken()
		return out, err
	}
	return nil, nil
}

// explain converts an error of the decoder to an error of the verdict.
func (r *reader) explain(err error) error {
	if is := (*InvalidError)(nil); errors.As(err, &is) {
		return err
	}
	syntax := (*jsontext.SyntacticError)(nil)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return invalid("%q occurs twice", strings.TrimPrefix(string(syntax.JSONPointer), "/"))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the JSON ends too early")
	case errors.As(err, &syntax):
		return invalid("it is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
	}
	return invalid("it is not JSON: %v", err)
}

// fits checks the verdict against the schema and returns an error if it does not fit.
func (j *Judge) fits(value map[string]any) error {
	if effort(j.schema, value, maxEffort) > maxEffort {
		return invalid("it cannot be checked in a reasonable time: its schema has alternatives in alternatives, or many values are compared with many parts of it")
	}
	err := j.schema.Validate(value)
	if err == nil {
		return nil
	}
	failed := (*jsonschema.ValidationError)(nil)
	if !errors.As(err, &failed) {
		return invalid("%v", err)
	}
	return invalid("%s", violation(failed))
}

// violation returns the first reasons why a value does not fit a schema.
func violation(failed *jsonschema.ValidationError) string {
	const most = 3
	var out []string
	seen := map[string]bool{}
	var leaves func(*jsonschema.ValidationError)
	leaves = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			leaves(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		text := e.Error()
		if seen[text] {
			return
		}
		seen[text] = true
		if len(out) < most {
			out = append(out, text)
		}
	}
	leaves(failed)
	if more := len(seen) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}
