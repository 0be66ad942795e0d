package prove

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
)

// applyIgnores marks the findings that task.toml ignores, and returns findings about mistakes in
// its table:
//
//	[metadata.lint.ignore]
//	verifier-network = "the task is about a public service"
//
// Every format of tasks allows any keys in metadata, so other harnesses accept it. The findings are
// modified in place.
func applyIgnores(t *task.Task, findings []Finding) []Finding {
	lint, _ := t.Config.Metadata["lint"].(map[string]any)
	list, stated := lint["ignore"]
	if !stated {
		return nil
	}
	wrong := func(message, hint string) Finding {
		return Finding{Rule: ruleLintIgnore, Severity: Warning, File: configFile, Message: message, Hint: hint}
	}
	reasons, ok := list.(map[string]any)
	if !ok {
		return []Finding{wrong("metadata.lint.ignore must be a table of rules and reasons", `write [metadata.lint.ignore], and below it: rule = "the reason"`)}
	}
	var out []Finding
	for _, id := range slices.Sorted(maps.Keys(reasons)) {
		rule, known := ruleOf(id)
		reason, _ := reasons[id].(string)
		switch reason = strings.TrimSpace(reason); {
		case !known:
			out = append(out, wrong(fmt.Sprintf("metadata.lint.ignore names the rule %q, which does not exist", id), diag.DidYouMean(id, ruleNames())))
		case rule.Always:
			out = append(out, wrong(fmt.Sprintf("metadata.lint.ignore names the rule %s, which cannot be ignored", id), "the verdict depends on it"))
		case reason == "":
			out = append(out, wrong(fmt.Sprintf("metadata.lint.ignore gives no reason for %s, so it is not ignored", id), id+` = "the reason"`))
		default:
			for i := range findings {
				if findings[i].Rule == id {
					findings[i].Ignored = reason
				}
			}
		}
	}
	return out
}

func ruleNames() []string {
	var names []string
	for _, r := range Rules {
		names = append(names, r.ID)
	}
	return names
}
