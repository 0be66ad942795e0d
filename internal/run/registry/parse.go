package registry

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Limits of a registry; the public one has 43 datasets and 12,833 tasks in 3.3 MB.
const (
	maxSize     = 64 << 20 // bytes
	maxDatasets = 10_000
	maxTasks    = 500_000
)

// Parse parses a registry.json. source names it in messages. Unknown keys are ignored. The error is
// a diag.List with one problem and its position.
func Parse(source string, text []byte) (*Registry, error) {
	r := &Registry{Source: untrusted.Line(source), text: bytes.TrimPrefix(text, []byte("\ufeff"))}
	err := bounded.UnmarshalStrict(r.text, &r.Datasets)
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return nil, diag.List{r.Problem(syntactic.ByteOffset, "duplicate key %q", syntactic.JSONPointer.LastToken())}
	case errors.As(err, &syntactic):
		return nil, diag.List{r.Problem(syntactic.ByteOffset, "not valid JSON: %s", plain(syntactic.Err))}
	case errors.As(err, &semantic):
		d := r.Problem(semantic.ByteOffset, "%s", typeProblem(semantic))
		if semantic.JSONPointer == "" {
			d.Hint = "a registry is a list of datasets"
		}
		return nil, diag.List{d}
	case err != nil:
		return nil, diag.List{{File: r.Source, Message: untrusted.Line(err.Error())}}
	}
	tasks := 0
	for i := range r.Datasets {
		tasks += len(r.Datasets[i].Tasks)
	}
	if len(r.Datasets) > maxDatasets || tasks > maxTasks {
		return nil, diag.List{{File: r.Source, Message: fmt.Sprintf(
			"the registry has %d datasets with %d tasks, more than the %d and %d that are allowed", len(r.Datasets), tasks, maxDatasets, maxTasks)}}
	}
	return r, nil
}

// plain returns the error's text on one line, without the library's name.
func plain(err error) string {
	return strings.TrimPrefix(untrusted.Line(err.Error()), "jsontext: ")
}

// typeProblem describes a value of the wrong type.
func typeProblem(err *json.SemanticError) string {
	what := strings.TrimPrefix(strings.ReplaceAll(string(err.JSONPointer), "/", "."), ".")
	if what == "" {
		what = "the registry"
	}
	kind := map[jsontext.Kind]string{'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "a list"}[err.JSONKind]
	if kind == "" {
		return fmt.Sprintf("%s cannot be read", untrusted.Cut(what, maxName))
	}
	return fmt.Sprintf("%s must not be %s", untrusted.Cut(what, maxName), kind)
}

// UnmarshalJSONFrom also records the offset of the dataset.
func (d *Dataset) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Dataset
	offset := dec.InputOffset()
	if err := json.UnmarshalDecode(dec, (*plain)(d)); err != nil {
		return err
	}
	d.offset = offset
	return nil
}

// UnmarshalJSONFrom also records the offset of the task.
func (t *Task) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Task
	offset := dec.InputOffset()
	if err := json.UnmarshalDecode(dec, (*plain)(t)); err != nil {
		return err
	}
	t.offset = offset
	return nil
}

// position returns the line and column, from 1, of the value at offset, after any white space and
// comma. Columns count characters.
func position(text []byte, offset int64) (line, column int) {
	at := min(max(int(offset), 0), len(text))
	for at < len(text) && strings.IndexByte(" \t\r\n,:", text[at]) >= 0 {
		at++
	}
	before := text[:at]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}
