package resume

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Change is a difference between the job's original and its current state that keeps it from being
// resumed.
type Change struct {
	// Key is the key of the job file, with names of agents and datasets instead of indexes:
	// agents.cpe.execute. It is "" if tasks changed.
	Key string
	// Message describes the change. It may have text from the job's directory and the job file, but
	// no value of an agent's variable.
	Message string
}

// drift compares a job's original configuration and plan with the current ones: first the
// configuration, then the tasks.
func drift(was config.Job, before result.Plan, is config.Job, now result.Plan) ([]Change, error) {
	a, err := asTree(was)
	if err != nil {
		return nil, err
	}
	b, err := asTree(is)
	if err != nil {
		return nil, err
	}
	var c comparison
	c.compare(nil, a, b)
	c.attempts(before, is.NAttempts)
	c.agents(before.Agents, now.Agents)
	c.tasks(before.Tasks, now.Tasks)
	if len(c.changes) == 0 {
		c.trials(before.Trials, now.Trials)
	}
	return c.changes, nil
}

// asTree returns the part of a configuration that must not change as a JSON object. Agents and
// datasets have their names as keys: their order only decides which trials start first. The number
// of attempts is left out; see attempts.
func asTree(cfg config.Job) (map[string]any, error) {
	formats, tasksFormat := make([]config.Format, len(cfg.Datasets)), cfg.TasksFormat
	for i, d := range cfg.Datasets {
		formats[i] = d.Format
	}
	if len(cfg.Tasks) == 0 {
		tasksFormat = ""
	}
	cfg = config.Experiment(cfg, config.ForResume)
	cfg.NAttempts = 0
	cfg.TasksFormat = tasksFormat // if it changed, tasks differ, too, because of it
	for i := range cfg.Datasets {
		cfg.Datasets[i].Format = formats[i]
	}
	tree, err := asObject(cfg)
	if err != nil {
		return nil, err
	}
	for _, key := range namedLists {
		named := map[string]any{}
		list, _ := tree[key].([]any)
		for _, item := range list {
			entry, _ := item.(map[string]any)
			name, _ := entry["name"].(string)
			delete(entry, "name")
			named[name] = entry
		}
		tree[key] = named
	}
	return tree, nil
}

// asObject returns a part of a configuration as a JSON object.
func asObject(v any) (tree map[string]any, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(&tree)
	}
	if err != nil {
		return nil, fmt.Errorf("compare the configurations: %w", err)
	}
	return tree, nil
}

// namedLists holds the keys of lists whose entries have names.
var namedLists = []string{"agents", "datasets", "judges", "judge_agents"}

type comparison struct{ changes []Change }

func (c *comparison) add(key []string, format string, args ...any) {
	c.changes = append(c.changes, Change{Key: strings.Join(key, "."), Message: fmt.Sprintf(format, args...)})
}

// compare adds the differences between two values of a key. null, "" and a missing value are equal.
func (c *comparison) compare(key []string, was, is any) {
	entry := len(key) == 2 && slices.Contains(namedLists, key[0]) // an entry may be empty: oracle has only a name
	if reflect.DeepEqual(was, is) || empty(was) && empty(is) && !entry {
		return
	}
	a, isMap := was.(map[string]any)
	b, isMapToo := is.(map[string]any)
	switch {
	case entry && was == nil:
		c.add(key, "is new")
	case entry && is == nil:
		c.add(key, "is gone")
	case (isMap || was == nil) && (isMapToo || is == nil):
		for _, k := range allKeys(a, b) {
			c.compare(append(slices.Clone(key), k), a[k], b[k])
		}
	case len(key) > 2 && (key[0] == "agents" || key[0] == "judge_agents") && key[2] == "env":
		c.add(key, "was %s, is %s", hidden(was), hidden(is))
	default:
		c.value(key, was, is)
	}
}

// allKeys returns the keys of two maps, sorted.
func allKeys[V any](a, b map[string]V) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, m := range []map[string]V{a, b} {
			for k := range m {
				if !yield(k) {
					return
				}
			}
		}
	}))
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// value adds the difference between two values that are not mappings.
func (c *comparison) value(key []string, was, is any) {
	a, aText := was.(string)
	b, bText := is.(string)
	if long(a) || long(b) {
		if aText && bText {
			c.add(key, "differs from line %d on", firstDifference(a, b))
			return
		}
		c.add(key, "was %s, is %s", lengthOf(was), lengthOf(is))
		return
	}
	c.add(key, "was %s, is %s", shown(was), shown(is))
}

// maxShown limits the shown part of a value, in characters.
const maxShown = 80

func long(s string) bool { return len(s) > maxShown || strings.Contains(s, "\n") }

func lengthOf(v any) string {
	if s, ok := v.(string); ok && s != "" {
		return fmt.Sprintf("a text of %d lines", strings.Count(strings.TrimSuffix(s, "\n"), "\n")+1)
	}
	return shown(v)
}

// firstDifference returns the number of the first line in which two texts differ.
func firstDifference(a, b string) int {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1
		}
	}
	return min(len(x), len(y)) + 1
}

// shown returns a shortened value, in the syntax of a job file.
func shown(v any) string {
	if empty(v) {
		return "not set"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "something else"
	}
	if s := string(text); utf8.RuneCountInString(s) <= maxShown {
		return s
	}
	return string([]rune(string(text))[:maxShown]) + "…"
}

// onlyVariable matches a value that is only a reference to a variable of the host.
var onlyVariable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

// hidden returns text for the value of an agent's variable, which may be a secret.
func hidden(v any) string {
	s, _ := v.(string)
	switch {
	case s == "":
		return "not set"
	case onlyVariable.MatchString(s):
		return s
	}
	return "a value that is not shown"
}

// attempts compares n_attempts with the plan, not with config.json: the plan lists the trials that
// were run.
func (c *comparison) attempts(before result.Plan, now int) {
	was := 0
	for _, key := range before.Trials.All() {
		was = max(was, key.Attempt)
	}
	switch {
	case now < was:
		c.add([]string{"n_attempts"}, "was %d, is %d: it may grow, not shrink", was, now)
	case now > was && before.Shard != nil:
		c.add([]string{"n_attempts"}, "was %d, is %d: it may not grow in a shard, as that would move trials between shards", was, now)
	}
}

// tasks adds the tasks whose files changed, and those that are new or gone.
// agents adds the agents with other files. Where these come from does not matter.
func (c *comparison) agents(before, now []result.PlannedAgent) {
	was, is := map[string]result.PlannedAgent{}, map[string]result.PlannedAgent{}
	for _, a := range before {
		was[a.Agent] = a
	}
	for _, a := range now {
		is[a.Agent] = a
	}
	for _, name := range allKeys(was, is) {
		if a, b := was[name], is[name]; a.Files != b.Files {
			c.add([]string{"agents", name, "files"}, "has other files%s: the digest was %s, is %s", changedFiles(a.Sums, b.Sums), filesDigest(a.Files), filesDigest(b.Files))
		}
	}
}

// maxChangedFiles limits the files of an agent that a message names.
const maxChangedFiles = 5

// changedFiles returns the files that differ, in parentheses after a space; "" if they are not
// known. An empty directory may differ, too.
func changedFiles(was, is map[string]string) string {
	if len(was) == 0 || len(is) == 0 {
		return "" // a plan of an earlier version, or there are too many
	}
	var names []string
	for _, name := range allKeys(was, is) {
		switch a, b := was[name], is[name]; {
		case a == b:
		case a == "":
			names = append(names, name+" is new")
		case b == "":
			names = append(names, name+" is gone")
		default:
			names = append(names, name+" changed")
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - maxChangedFiles; n > 0 {
		names, more = names[:maxChangedFiles], fmt.Sprintf(" and %d more", n)
	}
	return " (" + strings.Join(names, ", ") + more + ")"
}

func (c *comparison) tasks(before, now []result.PlannedTask) {
	name := func(t result.PlannedTask) taskName { return taskName{t.Dataset, t.Task} }
	digests := map[taskName]string{}
	for _, t := range before {
		digests[name(t)] = t.Digest
	}
	for _, t := range now {
		was, there := digests[name(t)]
		delete(digests, name(t))
		switch {
		case !there:
			c.add(nil, "task %s/%s is new", t.Dataset, t.Task)
		case t.Digest == "" && was != "":
			c.add(nil, "task %s/%s cannot be read any more", t.Dataset, t.Task)
		case t.Digest != was:
			c.add(nil, "task %s/%s has other files: the digest was %s, is %s", t.Dataset, t.Task, shortDigest(was), shortDigest(t.Digest))
		}
	}
	for _, t := range before {
		if _, gone := digests[name(t)]; gone {
			c.add(nil, "task %s/%s is gone", t.Dataset, t.Task)
		}
	}
}

// filesDigest returns the beginning of the digest of an agent's files.
func filesDigest(digest string) string {
	if digest == "" {
		return "none"
	}
	return shortDigest(digest)
}

// shortDigest returns the beginning of a digest.
func shortDigest(digest string) string {
	if digest == "" {
		return "unreadable"
	}
	return digest[:min(len(digest), len("sha256:")+12)]
}

// trials adds trials that are missing in the new plan although nothing else changed: the plan was
// edited, or another version wrote it.
func (c *comparison) trials(before, now result.Keys) {
	planned := map[result.Key]bool{}
	for _, key := range now.All() {
		planned[key] = true
	}
	var gone []string
	for _, key := range before.All() {
		if !planned[key] {
			gone = append(gone, strconv.Quote(key.String()))
		}
	}
	if len(gone) > 0 {
		c.add(nil, "the plan has trials that the job file does not: %s", untrusted.Names(gone))
	}
}
