package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/org/rollout-action/internal/lib/fields"
)

// Judge is a compiled Spec. It is safe for concurrent use.
type Judge struct {
	Spec
	prompt *template.Template // nil: the question made of criteria
	// metadata: the prompt uses the metadata of the task, of which each task has its own.
	metadata bool
	schema   *jsonschema.Schema
	form     string // the JSON Schema of the verdict, as the judge reads it
	score    *expression
	when     *expression // nil: always
}

// Problem is an error in a specification. Key is relative to the specification; Line is the line in
// a text of several lines, from 1, or 0.
type Problem struct {
	Key     fields.Path
	Line    int
	Message string
	Hint    string
	// Score is the name of the score that reward uses and that is not there; "" for other problems.
	Score string
}

// problems collects problems.
type problems []Problem

func (p *problems) add(key fields.Path, hint, format string, args ...any) {
	*p = append(*p, Problem{Key: key, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// Compile checks and compiles a specification. PromptFile and VerdictFile must have been read. If
// there are problems, the judge is nil.
func Compile(s Spec) (*Judge, []Problem) {
	var found problems
	j := &Judge{Spec: s}
	j.Criteria = slices.Clone(s.Criteria)
	for i := range j.Criteria {
		c := &j.Criteria[i]
		c.Weight = cmp.Or(c.Weight, 1)
		if len(c.Choices) == 0 {
			c.Choices = DefaultChoices()
		}
	}
	if j.Ranks() {
		j.checkGroup(&found)
	} else {
		j.compileForm(&found)
	}
	j.compileWhen(&found)
	j.compilePrompt(&found)
	j.combinations(&found)
	if len(found) > 0 {
		return nil, found
	}
	return j, nil
}

// Nullable reports whether a trial with the judge may have no score from it, because the judge does
// not run or its errors are ignored.
func (j *Judge) Nullable() bool { return j.When != "" || j.OnError == Ignore }

// NeedsTests reports whether the condition of the judge reads the results of the tests.
func (j *Judge) NeedsTests() bool {
	return j.when != nil && (j.when.uses("tests") || j.when.uses("rewards"))
}

// combinations checks keys that depend on each other.
func (j *Judge) combinations(found *problems) {
	if j.Orders > 0 && !j.Ranks() {
		found.add(fields.Path{"orders"}, "remove it, or set scope: group", "only a judge of a group has orders")
	}
	if j.Agent == Call {
		for _, one := range []struct {
			key string
			set bool
		}{
			{"placement", j.Placement != ""}, {"artifacts", len(j.Artifacts) > 0}, {"processes", j.Processes == KeepProcesses},
			{"source", j.Source == FromFile},
		} {
			if one.set {
				found.add(fields.Path{one.key}, "remove it, or choose another agent", "a call of a model has no environment, and so no %s", cmp.Or(map[string]string{"source": "source: file"}[one.key], one.key))
			}
		}
		return
	}
	if len(j.Artifacts) > 0 && j.Place() == InTrial {
		found.add(fields.Path{"artifacts"}, "remove them, or set placement: fresh", "a judge in the agent's own environment finds all files there and takes no artifacts")
	}
	if j.Processes == KeepProcesses && j.Place() == InFresh {
		found.add(fields.Path{"processes"}, "remove it, or set placement: trial", "a fresh environment has no processes to keep")
	}
}

// quoted returns texts in quotes, for messages.
func quoted(texts []string) string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(out, ", ")
}
