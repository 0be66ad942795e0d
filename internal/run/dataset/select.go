package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/registry"
)

// Selection selects tasks of a dataset. The zero value selects all.
type Selection struct {
	Include, Exclude []string // globs on names; no Include: all
	// Metadata are the values that [metadata] of task.toml must have, as text. For a list, here or
	// there, one common element is enough.
	Metadata map[string]any
	// N is the size of a sample of the selected tasks; 0: all. The sample depends only on their
	// names and Seed, and a larger sample contains the smaller ones.
	N, Seed int
}

func registryName(t *registry.Task) string { return t.Name }

func taskName(t *task.Task) string { return t.Name }

func sortTasks(tasks []*registry.Task) {
	slices.SortFunc(tasks, func(a, b *registry.Task) int { return cmp.Compare(a.Name, b.Name) })
}

// byName returns the tasks whose names are selected.
func (s *Source) byName(tasks []*registry.Task, sel Selection) []*registry.Task {
	return slices.DeleteFunc(tasks, func(t *registry.Task) bool { return !s.wanted(t.Name, sel) })
}

func (s *Source) wanted(name string, sel Selection) bool {
	return chosen(name, sel.Include, sel.Exclude) && chosen(name, s.Include, s.Exclude)
}

func chosen(name string, include, exclude []string) bool {
	return (len(include) == 0 || matches(include, name)) && !matches(exclude, name)
}

// sample returns n of the things, or all if n is 0, in their order.
func sample[T any](things []T, name func(T) string, n, seed int) []T {
	if n <= 0 || n >= len(things) {
		return things
	}
	ranks := make(map[string][sha256.Size]byte, len(things))
	for _, t := range things {
		ranks[name(t)] = sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, uint64(seed)), name(t)...))
	}
	ranked := slices.SortedFunc(slices.Values(things), func(a, b T) int {
		x, y := ranks[name(a)], ranks[name(b)]
		return cmp.Or(slices.Compare(x[:], y[:]), cmp.Compare(name(a), name(b)))
	})
	in := make(map[string]bool, n)
	for _, t := range ranked[:n] {
		in[name(t)] = true
	}
	return slices.DeleteFunc(slices.Clone(things), func(t T) bool { return !in[name(t)] })
}

// choose returns the set with the selected tasks. It returns a problem if the dataset's own keys
// select nothing; whether the job's globs leave anything is checked for the job as a whole.
func (s *Source) choose(set *Set, ref Ref) (*Set, *diag.Diagnostic) {
	sel := ref.Select
	out := *set
	if len(out.All) == 0 {
		for _, t := range set.Tasks {
			out.All = append(out.All, t.Name)
		}
	}
	out.All = slices.Sorted(slices.Values(out.All))
	nothing := func(format string, args ...any) (*Set, *diag.Diagnostic) {
		d := ref.Place
		d.Message = untrusted.Line(fmt.Sprintf(format, args...))
		return nil, &d
	}
	if !slices.ContainsFunc(out.All, func(name string) bool { return chosen(name, sel.Include, sel.Exclude) }) {
		return nothing("tasks and exclude_tasks leave nothing of dataset %q, which has %s: %s", out.Name, plural.Count(len(out.All), "task"), some(out.All))
	}
	out.Tasks = nil
	for _, t := range set.Tasks {
		out.Directories = append(out.Directories, t.Dir)
		if s.wanted(t.Name, sel) {
			out.Tasks = append(out.Tasks, t)
		}
	}
	if before := out.Tasks; len(sel.Metadata) > 0 && len(before) > 0 {
		out.Tasks = slices.DeleteFunc(slices.Clone(before), func(t *task.Task) bool { return !HasMetadata(t, sel.Metadata) })
		if len(out.Tasks) == 0 {
			return nothing("metadata leaves nothing of dataset %q (%s): %s", out.Name, plural.Count(len(before), "task"), there(before, sel.Metadata))
		}
	}
	out.Tasks = sample(out.Tasks, taskName, sel.N, sel.Seed)
	return &out, nil
}

// some returns a shortened list of names, for messages.
func some(names []string) string {
	const most = 20
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += ", …"
	}
	return text
}

// HasMetadata reports whether a task has one of the wanted values for each key.
func HasMetadata(t *task.Task, wanted map[string]any) bool {
	for key, want := range wanted {
		values := texts(t.Config.Metadata[key])
		if !slices.ContainsFunc(texts(want), func(v string) bool { return slices.Contains(values, v) }) {
			return false
		}
	}
	return true
}

// texts returns the elements of a list, or the single value, as text. Tables have none.
func texts(v any) []string {
	switch v := v.(type) {
	case nil, map[string]any:
		return nil
	case []any:
		var out []string
		for _, item := range v {
			if _, isList := item.([]any); !isList {
				out = append(out, texts(item)...)
			}
		}
		return out
	case string:
		return []string{v}
	default:
		return []string{fmt.Sprint(v)}
	}
}

// there describes the tasks' values of the keys.
func there(tasks []*task.Task, wanted map[string]any) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		values := map[string]bool{}
		for _, t := range tasks {
			for _, v := range texts(t.Config.Metadata[key]) {
				values[v] = true
			}
		}
		if len(values) == 0 {
			out = append(out, fmt.Sprintf("no task has %s", key))
			continue
		}
		out = append(out, fmt.Sprintf("%s is one of %s", key, some(slices.Sorted(maps.Keys(values)))))
	}
	return strings.Join(out, "; ")
}
