package judge

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/fields"
)

// defaultSchema is the schema of verdicts for a judge that gives none.
const defaultSchema = `{
  "type": "object",
  "required": ["reason", "score"],
  "properties": {
    "reason": {"type": "string"},
    "score": {"type": "number", "minimum": 0, "maximum": 1}
  }
}`

// maxSchema is the maximum length of a schema, in bytes. Judges read it.
const maxSchema = 64 << 10

// compileForm compiles the schema of the verdict and the score.
func (j *Judge) compileForm(found *problems) {
	switch {
	case len(j.Criteria) > 0:
		j.checkCriteria(found)
		j.form = schemaOf(j.Criteria)
	case len(j.Verdict) > 0:
		j.form = indented(j.Verdict)
	default:
		j.form = defaultSchema
	}
	if len(j.form) > maxSchema {
		found.add(fields.Path{"verdict"}, "ask for less", "the JSON Schema of the verdict is longer than %d KiB", maxSchema>>10)
		return
	}
	r := ratings.of(ratingSource{form: j.form, score: j.Score, criteria: len(j.Criteria) > 0})
	j.schema, j.score = r.schema, r.score
	*found = append(*found, r.found...)
}

// ratingSource has a verdict schema and the score expression over it.
type ratingSource struct {
	form, score string
	criteria    bool // the score follows from criteria
}

// rating is a compiled verdict schema and score expression, or the problems that kept them from
// compiling. It is safe for concurrent use.
type rating struct {
	schema *jsonschema.Schema
	score  *expression // nil with criteria
	found  problems
}

// ratings caches compiled ratings: thousands of tasks may have the same judges, and trying a score
// takes milliseconds.
var ratings = memory{known: map[ratingSource]rating{}}

type memory struct {
	mu    sync.Mutex
	known map[ratingSource]rating
}

// maxRemembered is the maximum number of cached ratings.
const maxRemembered = 1000

func (m *memory) of(key ratingSource) rating {
	m.mu.Lock()
	r, ok := m.known[key]
	m.mu.Unlock()
	if ok {
		return r
	}
	r = rate(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxRemembered {
		clear(m.known)
	}
	m.known[key] = r
	return r
}

// rate compiles a schema and a score, and tries the score on verdicts that fit the schema.
func rate(key ratingSource) (r rating) {
	var err error
	if r.schema, err = compileSchema([]byte(key.form)); err != nil {
		r.found.add(fields.Path{"verdict"}, "", "it is no usable JSON Schema: %v", err)
		return r
	}
	if key.criteria {
		return r
	}
	if !describesObject(r.schema) {
		r.found.add(fields.Path{"verdict"}, "add type: object, and properties", "the schema of a verdict must describe an object")
		return r
	}
	r.compileScore(key.score)
	return r
}

// errElsewhere refuses to load schemas.
var errElsewhere = errors.New("schemas elsewhere are not loaded: write it below $defs")

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errElsewhere }

// schemaName is the URL under which the library knows the schema.
const schemaName = "verdict:schema"

// compileSchema compiles a JSON Schema that refers to no other document.
func compileSchema(text []byte) (*jsonschema.Schema, error) {
	var document any
	if err := bounded.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaName, document); err != nil {
		return nil, err
	}
	schema, err := c.Compile(schemaName)
	if wrong := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &wrong) {
		if failed := (*jsonschema.ValidationError)(nil); errors.As(wrong.Err, &failed) {
			return nil, errors.New(violation(failed))
		}
	}
	if err != nil {
		return nil, err
	}
	return schema, checkEffort(schema)
}

// describesObject reports whether only objects fit the schema.
func describesObject(s *jsonschema.Schema) bool {
	return slices.ContainsFunc(conjunction([]*jsonschema.Schema{s}), func(s *jsonschema.Schema) bool {
		return s.Types != nil && slices.Equal(s.Types.ToStrings(), []string{"object"})
	})
}

// kindOf returns the type of the values that fit a schema.
func kindOf(s *jsonschema.Schema) *kind { return (&kinds{left: maxKinds}).of(s, 0) }

// maxKinds bounds the types of a schema, whose parts may be nested in each other many times. Parts
// beyond it are of any type.
const maxKinds = 5000

// kinds converts schemas to types, at most left of them.
type kinds struct{ left int }

func (k *kinds) of(s *jsonschema.Schema, depth int) *kind {
	k.left--
	switch {
	case s == nil || depth > 8 || k.left < 0:
		return anyKind
	case s.Ref != nil && s.Types == nil && len(s.Properties) == 0:
		return k.of(s.Ref, depth+1)
	case len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 && s.Types == nil:
		return anyKind
	case s.Enum != nil && s.Types == nil, s.Const != nil && s.Types == nil:
		if one := kindOfValues(constants(s)); one != textKind {
			return one
		}
		return textOf(s)
	case s.Types == nil:
		return anyKind
	}
	names := slices.DeleteFunc(s.Types.ToStrings(), func(name string) bool { return name == "null" })
	if len(names) == 2 && slices.Contains(names, "number") && slices.Contains(names, "integer") {
		names = names[:1]
	}
	if len(names) != 1 {
		return anyKind
	}
	switch names[0] {
	case "number", "integer":
		return numberKind
	case "boolean":
		return boolKind
	case "string":
		return textOf(s)
	case "array":
		items, _ := s.Items.(*jsonschema.Schema)
		if s.Items2020 != nil {
			items = s.Items2020
		}
		if len(s.PrefixItems) > 0 {
			items = nil
		}
		return &kind{items: k.of(items, depth+1)}
	case "object":
		return k.object(s, depth)
	}
	return anyKind
}

// constants returns the values of the schema's enum or const.
func constants(s *jsonschema.Schema) []any {
	if s.Const != nil {
		return []any{*s.Const}
	}
	if s.Enum != nil {
		return s.Enum.Values
	}
	return nil
}

// textOf returns the type of a text, with its possible values.
func textOf(s *jsonschema.Schema) *kind {
	out := &kind{base: textKind.base}
	for _, value := range constants(s) {
		if word, ok := value.(string); ok {
			out.words = append(out.words, word)
		}
	}
	return out
}

// object returns the type of an object. Properties that the schema does not name are unknown,
// unless it describes them in another way.
func (k *kinds) object(s *jsonschema.Schema, depth int) *kind {
	out := &kind{fields: map[string]*kind{}}
	for name, property := range s.Properties {
		out.fields[name] = k.of(property, depth+1)
	}
	switch extra := s.AdditionalProperties.(type) {
	case *jsonschema.Schema:
		out.extra = k.of(extra, depth+1)
	case bool:
		if extra {
			out.extra = anyKind
		}
	}
	if len(s.PatternProperties)+len(s.AllOf)+len(s.AnyOf)+len(s.OneOf)+len(s.DependentSchemas) > 0 || s.Ref != nil || s.If != nil {
		out.extra = anyKind
	}
	return out
}

// kindOfValues returns the common type of all values.
func kindOfValues(values []any) *kind {
	var out *kind
	for _, value := range values {
		is := anyKind
		switch value.(type) {
		case nil:
			continue
		case float64:
			is = numberKind
		case bool:
			is = boolKind
		case string:
			is = textKind
		}
		if out != nil && out != is {
			return anyKind
		}
		out = is
	}
	if out == nil {
		return anyKind
	}
	return out
}

// compileScore compiles the expression of the score, and tries it on verdicts that fit the schema.
func (r *rating) compileScore(text string) {
	key := fields.Path{"score"}
	score, err := compileExpression(cmp.Or(text, "verdict.score"), &kind{fields: map[string]*kind{"verdict": kindOf(r.schema)}})
	if err != nil {
		way := hint(err)
		if text == "" {
			way = "add score: with an expression over verdict, or a property score to the schema"
		}
		r.found.add(key, way, "%v", err)
		return
	}
	if !score.uses("verdict") {
		r.found.add(key, "write it over verdict, such as verdict.score / 10", "the score does not depend on the verdict")
		return
	}
	verdicts, why := sample(r.schema)
	if why != "" {
		r.found.add(fields.Path{"verdict"}, "correct the schema", "no verdict fits the schema: %s", why)
		return
	}
	if shown, way, err := score.worst(verdicts); err != nil {
		r.found.add(key, way, "for the verdict %s the score %v", excerpt.Line(shown, maxShown), err)
		return
	}
	r.score = score
}

// worst returns the shortest of the verdicts that have no score, advice, and the reason; err is nil
// if all have a score.
func (e *expression) worst(verdicts []any) (shown, way string, err error) {
	names, _ := e.below("verdict")
	missing := false
	for _, v := range verdicts {
		_, failed := e.unit(map[string]any{"verdict": v})
		if text := inline(v); failed != nil && (err == nil || len(text) < len(shown)) {
			object, _ := v.(map[string]any)
			missing = slices.ContainsFunc(names, func(name string) bool { return object[name] == nil })
			shown, err = text, failed
		}
	}
	switch outside := (*rangeError)(nil); {
	case missing:
		way = "add the property to required in the schema, or write verdict.NAME ?? 0"
	case errors.As(err, &outside):
		way = "give the values in the schema a minimum and a maximum that fit the score"
	case errors.Is(err, errInfinite):
		way = "write what counts if the divisor is 0"
	}
	return shown, way, err
}

// maxShown is the maximum length of a verdict in a message, in bytes.
const maxShown = 300

// inline returns a value as JSON in one line.
func inline(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // values of JSON only
	}
	return strings.TrimSpace(b.String())
}
