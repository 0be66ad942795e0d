package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/fields"
)

// checkCriteria checks the criteria for what tags cannot express.
func (j *Judge) checkCriteria(found *problems) {
	seen := map[string]int{}
	for i, c := range j.Criteria {
		p := fields.Path{"criteria"}.Index(i)
		if before, twice := seen[strings.ToLower(c.Name)]; twice {
			found.add(p.Child("name"), "rename one of them", "criteria[%d] and criteria[%d] have the same name: %q", before, i, c.Name)
		}
		seen[strings.ToLower(c.Name)] = i
		if len(c.Choices) < 2 {
			found.add(p.Child("choices"), "write at least two, from the worst to the best", "criterion %q has only one choice", c.Name)
		}
		for k, choice := range c.Choices {
			if slices.Contains(c.Choices[:k], choice) {
				found.add(p.Child("choices").Index(k), "remove one of them", "criterion %q has the choice %q twice", c.Name, fields.Shorten(choice))
			}
		}
	}
	for _, one := range []struct {
		key string
		set bool
	}{{"verdict", len(j.Verdict) > 0}, {"score", j.Score != ""}} {
		if one.set {
			found.add(fields.Path{one.key}, "remove it, or remove criteria", "the %s follows from criteria, so a judge with criteria cannot set it", one.key)
		}
	}
}

// The verdict of a judge with criteria, as a JSON Schema. They are structs for the order of the
// keys: a judge writes the reason first.
type (
	criteriaSchema struct {
		Type       string   `json:"type"`
		Closed     bool     `json:"additionalProperties"`
		Required   []string `json:"required"`
		Properties struct {
			Verdicts entriesSchema `json:"verdicts"`
		} `json:"properties"`
	}
	entriesSchema struct {
		Type     string `json:"type"`
		MinItems int    `json:"minItems"`
		MaxItems int    `json:"maxItems"`
		Items    struct {
			AnyOf []entrySchema `json:"anyOf"`
		} `json:"items"`
	}
	entrySchema struct {
		Type       string   `json:"type"`
		Closed     bool     `json:"additionalProperties"`
		Required   []string `json:"required"`
		Properties struct {
			Name   constSchema  `json:"name"`
			Reason typeSchema   `json:"reason"`
			Choice choiceSchema `json:"choice"`
		} `json:"properties"`
	}
	constSchema struct {
		Const string `json:"const"`
	}
	typeSchema struct {
		Type string `json:"type"`
	}
	choiceSchema struct {
		Enum []string `json:"enum"`
	}
)

// schemaOf returns the JSON Schema of a verdict about criteria.
func schemaOf(criteria []Criterion) string {
	s := criteriaSchema{Type: "object", Required: []string{"verdicts"}}
	s.Properties.Verdicts = entriesSchema{Type: "array", MinItems: len(criteria), MaxItems: len(criteria)}
	for _, c := range criteria {
		e := entrySchema{Type: "object", Required: []string{"name", "reason", "choice"}}
		e.Properties.Name.Const, e.Properties.Reason.Type, e.Properties.Choice.Enum = c.Name, "string", c.Choices
		s.Properties.Verdicts.Items.AnyOf = append(s.Properties.Verdicts.Items.AnyOf, e)
	}
	return indented(s)
}

func indented(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic(err) // values of JSON only
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// question returns the prompt of a judge with criteria.
func question(criteria []Criterion) string {
	var b strings.Builder
	b.WriteString("Judge what the agent has done by these criteria, each for itself:\n")
	for _, c := range criteria {
		fmt.Fprintf(&b, "\n- %s: %s\n  Choices, from the worst to the best: %s\n", c.Name, strings.ReplaceAll(strings.TrimSpace(c.Text), "\n", "\n  "), quoted(c.Choices))
	}
	return b.String()
}

// entry is the entry for one criterion in a verdict.
type entry struct{ name, reason, choice string }

// weigh checks a verdict about criteria and sets its score, reason and criteria.
func (j *Judge) weigh(value map[string]any, v *Verdict) error {
	given, err := entries(value)
	if err != nil {
		return err
	}
	v.Criteria = make(map[string]float64, len(j.Criteria))
	for _, e := range given {
		i := slices.IndexFunc(j.Criteria, func(c Criterion) bool { return c.Name == e.name })
		if i < 0 {
			return invalid("there is no criterion %q; there are: %s", excerpt.Line(e.name, 60), strings.Join(j.criterionNames(), ", "))
		}
		c := j.Criteria[i]
		if _, twice := v.Criteria[c.Name]; twice {
			return invalid("criterion %s has two verdicts", c.Name)
		}
		rank := slices.Index(c.Choices, e.choice)
		if rank < 0 {
			return invalid("criterion %s has the choice %q, which is none of %s", c.Name, excerpt.Line(e.choice, 60), quoted(c.Choices))
		}
		v.Criteria[c.Name] = float64(rank) / float64(len(c.Choices)-1)
	}
	var reasons []string
	total, weights := 0.0, 0.0
	for _, c := range j.Criteria {
		value, has := v.Criteria[c.Name]
		if !has {
			return invalid("criterion %s has no verdict", c.Name)
		}
		total, weights = total+c.Weight*value, weights+c.Weight
		e := given[slices.IndexFunc(given, func(e entry) bool { return e.name == c.Name })]
		reasons = append(reasons, c.Name+": "+excerpt.Middle(strings.TrimSpace(e.reason), maxReason/len(j.Criteria)))
	}
	v.Score, v.Reason = min(total/weights, 1), strings.Join(reasons, "\n")
	return nil
}

func (j *Judge) criterionNames() []string {
	var out []string
	for _, c := range j.Criteria {
		out = append(out, c.Name)
	}
	return out
}

// entries returns the entries of a verdict about criteria.
func entries(value map[string]any) ([]entry, error) {
	for name := range value {
		if name != "verdicts" {
			return nil, invalid("it has the property %q; there is only verdicts", excerpt.Line(name, 60))
		}
	}
	list, ok := value["verdicts"].([]any)
	if !ok {
		return nil, invalid("it has no list verdicts")
	}
	out := make([]entry, len(list))
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, invalid("verdicts[%d] is no object", i)
		}
		for name, to := range map[string]*string{"name": &out[i].name, "reason": &out[i].reason, "choice": &out[i].choice} {
			if *to, ok = object[name].(string); !ok {
				return nil, invalid("verdicts[%d] has no text %q", i, name)
			}
		}
		for name := range object {
			if name != "name" && name != "reason" && name != "choice" {
				return nil, invalid("verdicts[%d] has the property %q; there are: name, reason, choice", i, excerpt.Line(name, 60))
			}
		}
	}
	return out, nil
}

// Entry is the entry for one criterion in a verdict.
type Entry struct{ Criterion, Reason, Choice string }

// Entries returns the entries of a verdict about criteria; nil if it is another verdict.
func Entries(verdict []byte) (out []Entry) {
	var value map[string]any
	if bounded.Unmarshal(verdict, &value) != nil {
		return nil
	}
	given, err := entries(value)
	if err != nil {
		return nil
	}
	for _, e := range given {
		out = append(out, Entry{Criterion: e.name, Reason: e.reason, Choice: e.choice})
	}
	return out
}
