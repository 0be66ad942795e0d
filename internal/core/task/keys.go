package task

import (
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// leaveOut is the hint for tasks that cannot be run.
const leaveOut = "leave the task out: exclude_tasks in the job"

// unsupported are keys of Harbor's task.toml that change the meaning of a trial and that Rollout
// does not support: a task that sets one is invalid. The text is the reason. Source: Harbor 0.22,
// src/harbor/models/task/config.py.
var unsupported = map[string]string{
	"environment.os":  "environments run Linux",
	"environment.tpu": "environments have no TPU",
}

// maxUnknown is the number of unknown keys that are reported for a table.
const maxUnknown = 10

// unknownKeys reports keys that are not supported, and warns of keys that are unknown.
func (r *reader) unknownKeys(n *fields.Node, p fields.Path, unknown []*fields.Field, known []string) {
	count, next := 0, (*fields.Field)(nil) // the first that is not reported
	for _, f := range unknown {
		at := p.Child(f.Name)
		key := at.String()
		if _, below, ok := strings.Cut(key, "verifier.environment."); ok { // it has the keys of [environment]
			key = "environment." + below
		}
		why, refused := unsupported[key]
		switch {
		case p[:min(len(p), 1)].String() == "judges": // a misspelt key of a judge would change its scores
			r.Add(f.At, diag.DidYouMean(f.Name, known), "unknown key %q", at)
		case refused && asksForNothing(f, key):
		case refused:
			r.Add(f.At, leaveOut, "%q is not supported: %s", at, why)
		default:
			if count++; count <= maxUnknown {
				r.Warn(f.At, diag.DidYouMean(f.Name, known), "unknown key %q has no effect", at)
			} else if next == nil {
				next = f
			}
		}
	}
	if next != nil {
		r.Warn(next.At, "", "%d more unknown keys have no effect", count-maxUnknown)
	}
}

// asksForNothing reports whether the value of a field has no effect: a neutral value, or an
// empty one (0, false, "", [] and tables of such).
func asksForNothing(f *fields.Field, name string) bool {
	switch value := f.Value; name {
	case "environment.os":
		return strings.EqualFold(value.Text, "linux")
	default:
		return isEmpty(value)
	}
}

func isEmpty(n *fields.Node) bool {
	number, _ := n.Number()
	switch n.Kind {
	case fields.Text:
		return n.Text == ""
	case fields.Bool:
		return n.Text == "false"
	case fields.Int, fields.Float:
		return number == 0
	case fields.List:
		return len(n.Items) == 0
	case fields.Mapping:
		return !slices.ContainsFunc(n.Fields, func(f *fields.Field) bool { return !isEmpty(f.Value) })
	}
	return false
}
