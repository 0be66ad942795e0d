package prove

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

// datasetFile is a dataset's file about rules, next to its tasks:
//
//	select = ["secret", "verifier-network"]
//	[ignore]
//	shebang = "bash runs the scripts"
//
// Rules that it does not select, and those that it ignores with a reason, do not count.
const datasetFile = "lint.toml"

// maxDatasetFile is the size up to which a datasetFile is read, in bytes.
const maxDatasetFile = 64 << 10

// applyIgnores marks the findings that task.toml or the dataset's file ignores, and returns
// findings about mistakes there. In task.toml it is a table of metadata:
//
//	[metadata.lint.ignore]
//	verifier-network = "the task is about a public service"
//
// Every format of tasks allows any keys in metadata, so other harnesses accept it. The findings are
// modified in place.
func applyIgnores(t *task.Task, findings []Finding) []Finding {
	lint, _ := t.Config.Metadata["lint"].(map[string]any)
	own := ignores{file: configFile, table: "metadata.lint.ignore", findings: findings}
	if list, stated := lint["ignore"]; stated {
		if reasons, ok := list.(map[string]any); ok {
			own.ignore(reasons)
		} else {
			own.wrong("metadata.lint.ignore must be a table of rules and reasons", `write [metadata.lint.ignore], and below it: rule = "the reason"`)
		}
	}
	all := ignores{file: "../" + datasetFile, table: "ignore", findings: findings}
	all.dataset(t)
	return slices.Concat(own.out, all.out)
}

// ignores applies one file's choice of rules to findings.
type ignores struct {
	file, table string
	findings    []Finding
	out         []Finding // about mistakes
}

func (i *ignores) wrong(message, hint string) {
	i.out = append(i.out, Finding{Rule: ruleLintIgnore, Severity: Warning, File: i.file, Message: message, Hint: hint})
}

// rule returns the rule that a table names. If there is none, it reports the mistake.
func (i *ignores) rule(id, table string) (Rule, bool) {
	rule, known := ruleOf(id)
	if !known {
		i.wrong(fmt.Sprintf("%s names the rule %q, which does not exist", table, id), diag.DidYouMean(id, ruleNames()))
	}
	return rule, known
}

// ignore marks findings of rules that have a reason.
func (i *ignores) ignore(reasons map[string]any) {
	for _, id := range slices.Sorted(maps.Keys(reasons)) {
		rule, known := i.rule(id, i.table)
		reason, _ := reasons[id].(string)
		switch reason = strings.TrimSpace(reason); {
		case !known:
		case rule.Always:
			i.wrong(fmt.Sprintf("%s names the rule %s, which cannot be ignored", i.table, id), "the verdict depends on it")
		case reason == "":
			i.wrong(fmt.Sprintf("%s gives no reason for %s, so it is not ignored", i.table, id), id+` = "the reason"`)
		default:
			i.mark(reason, func(rule string) bool { return rule == id })
		}
	}
}

// mark gives a reason to the findings that are not ignored yet and whose rule matches.
func (i *ignores) mark(reason string, matches func(rule string) bool) {
	for at := range i.findings {
		if f := &i.findings[at]; f.Ignored == "" && matches(f.Rule) {
			f.Ignored = reason
		}
	}
}

// dataset applies the dataset's file. Tasks of a commit have none.
func (i *ignores) dataset(t *task.Task) {
	if t.Origin != nil || t.Dir == "" {
		return
	}
	text, err := nofollow.ReadFile(filepath.Join(filepath.Dir(t.Dir), datasetFile), maxDatasetFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		i.wrong("the file cannot be read: "+err.Error(), fmt.Sprintf("it is to be a regular file of at most %d KiB", maxDatasetFile>>10))
		return
	}
	var chosen struct {
		Select []string       `toml:"select"`
		Ignore map[string]any `toml:"ignore"`
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&chosen); err != nil {
		line, what := mistake(err)
		i.wrong(what, "it may have select, a list of rules, and the table [ignore] of rules and reasons")
		i.out[len(i.out)-1].Line = line
		return
	}
	i.ignore(chosen.Ignore)
	if chosen.Select == nil {
		return
	}
	for _, id := range chosen.Select {
		i.rule(id, "select")
	}
	i.mark(datasetFile+" does not select it", func(id string) bool {
		rule, _ := ruleOf(id)
		return !rule.Always && id != ruleLintIgnore && !slices.Contains(chosen.Select, id)
	})
}

// mistake returns the line of an error of the TOML library, 0 if it has none, and what is wrong.
func mistake(err error) (line int, what string) {
	if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(unknown.Errors) > 0 {
		line, _ = unknown.Errors[0].Position()
		return line, fmt.Sprintf("unknown key %q", strings.Join(unknown.Errors[0].Key(), "."))
	}
	if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ = wrong.Position()
	}
	return line, strings.TrimPrefix(err.Error(), "toml: ")
}

func ruleNames() []string {
	var names []string
	for _, r := range Rules {
		names = append(names, r.ID)
	}
	return names
}
