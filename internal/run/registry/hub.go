package registry

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// The files of a repository that say which datasets it has. Source: Harbor's
// src/harbor/models/dataset/paths.py.
const (
	ManifestFile = "dataset.toml"
	taskFile     = "task.toml"
)

// MaxManifest and MaxTaskFile bound a dataset.toml, and a task.toml that is read for its name, in
// bytes. A dataset of 1,299 tasks has 190,000.
const (
	MaxManifest = 2 << 20
	MaxTaskFile = 256 << 10
)

// IsManifest reports whether a file of a repository is needed to know its datasets.
func IsManifest(name string) bool {
	base := path.Base(name)
	return base == ManifestFile || base == taskFile
}

// manifest is a dataset.toml. Source: Harbor's src/harbor/models/dataset/manifest.py. Path is no
// key of Harbor's; some repositories have it instead of a name.
type manifest struct {
	Dataset struct {
		Name        string         `toml:"name"`
		Version     string         `toml:"version"`
		Description string         `toml:"description"`
		Tasks       []manifestTask `toml:"tasks"` // below [dataset], where some write it
	} `toml:"dataset"`
	Tasks []manifestTask `toml:"tasks"`
}

type manifestTask struct {
	Name   string `toml:"name"`
	Path   string `toml:"path"`
	Digest string `toml:"digest"`
}

// Repository is a repository with dataset.toml files, at a commit.
type Repository struct {
	Shown  string // its address and commit, for users
	URL    string // for the git_url of tasks
	Commit string
	Dir    string            // Registry.Dir
	Files  map[string]string // the text of the files that IsManifest selects, by path
}

// Registry returns the datasets of the repository. A task that a dataset.toml lists and that the
// repository does not have gets Absent: only Harbor's servers have it. The error is a diag.List.
func (r Repository) Registry() (*Registry, error) {
	out := &Registry{Source: untrusted.Line(r.Shown), Dir: r.Dir}
	tasks := r.tasks()
	for _, file := range r.sorted(ManifestFile) {
		problem := func(format string, args ...any) error {
			return diag.List{{File: out.Source + ": " + untrusted.Line(file), Message: untrusted.Line(fmt.Sprintf(format, args...))}}
		}
		var m manifest
		if text := r.Files[file]; len(text) > MaxManifest {
			return nil, problem("is larger than %d bytes", MaxManifest)
		} else if loose(text) > maxLoose {
			return nil, problem("has more than %d keys outside of its lists", maxLoose)
		} else if err := toml.Unmarshal([]byte(text), &m); err != nil {
			return nil, problem("cannot be read: %v", err)
		}
		if m.Dataset.Name == "" {
			continue // dataset.toml of another tool
		}
		listed := slices.Concat(m.Tasks, m.Dataset.Tasks)
		if len(listed) > maxTasks {
			return nil, problem("has more than %d tasks", maxTasks)
		}
		d := Dataset{Name: m.Dataset.Name, Version: m.Dataset.Version, Description: m.Dataset.Description}
		seen := map[string]string{} // the digest
		for _, t := range listed {
			found := r.find(t, path.Dir(file), tasks)
			id := found.Name + "\x00" + found.Path
			if other, again := seen[id]; again && other != found.Digest {
				return nil, problem("lists the task %q with the digests %q and %q", found.Name, other, found.Digest)
			} else if again {
				continue // Harbor counts it once, too
			}
			seen[id] = found.Digest
			d.Tasks = append(d.Tasks, found)
		}
		shorten(d.Tasks)
		out.Datasets = append(out.Datasets, d)
	}
	if len(out.Datasets) == 0 {
		return nil, diag.List{{File: out.Source, Message: "has no " + ManifestFile + " of a dataset", Hint: "if its tasks are directories, clone it and name the directory as path:"}}
	}
	return out, nil
}

// maxLoose limits the keys of a file that are no entries of a list, because the library compares
// each key with all before it in its table.
const maxLoose = 2000

// loose returns how many keys of a text may be in one table.
func loose(text string) (n int) {
	for line := range strings.Lines(text) {
		keys, line := strings.Count(line, "="), strings.TrimSpace(line)
		key, _, _ := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); {
		case keys == 1 && (key == "name" || key == "digest" || key == "path"): // a table has one of each
		case keys <= 3 && strings.HasPrefix(line, "{"): // a table in itself
		default:
			n += keys
		}
	}
	return n
}

// sorted returns the paths of files with this name: those closest to the top first.
func (r Repository) sorted(base string) []string {
	var out []string
	for name := range r.Files {
		if path.Base(name) == base {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	return out
}

// tasks returns the directories of tasks by the name in [task] of their task.toml, and by the name
// of the directory.
func (r Repository) tasks() map[string][]string {
	out := map[string][]string{}
	for _, file := range r.sorted(taskFile) {
		dir, text := path.Dir(file), r.Files[file]
		var said struct {
			Task struct {
				Name string `toml:"name"`
			} `toml:"task"`
		}
		if len(text) <= MaxTaskFile && loose(text) <= maxLoose && toml.Unmarshal([]byte(text), &said) == nil && said.Task.Name != "" {
			out[said.Task.Name] = append(out[said.Task.Name], dir)
			continue
		}
		out["/"+path.Base(dir)] = append(out["/"+path.Base(dir)], dir) // no name begins with a slash
	}
	return out
}

// find returns the task that an entry of a dataset.toml in directory dir means. As Harbor does, it
// goes by the names in task.toml; of several tasks, one below dir counts.
func (r Repository) find(t manifestTask, dir string, tasks map[string][]string) Task {
	out := Task{Name: t.Name, GitURL: r.URL, GitCommitID: r.Commit, Digest: t.Digest}
	if t.Path != "" {
		out.Path = path.Join(dir, t.Path)
		out.Name = cmp.Or(t.Name, path.Base(out.Path))
		return out
	}
	_, short, _ := strings.Cut(t.Name, "/")
	found := tasks[t.Name]
	if len(found) == 0 {
		found = tasks["/"+short]
	}
	for _, at := range found {
		if dir == "." || strings.HasPrefix(at, dir+"/") {
			out.Path = at
			return out
		}
	}
	if len(found) > 0 {
		out.Path = found[0]
		return out
	}
	out.Absent = "it is not in the repository, so only Harbor's servers have it: leave it out with exclude_tasks, or get it with `harbor download " +
		untrusted.ShellPath(untrusted.Line(t.Name)) + "` and name its directory under tasks:"
	return out
}

// shorten removes ORG/ from the names of tasks, so that globs of a job match them. Names that would
// then be equal stay.
func shorten(tasks []Task) {
	count := map[string]int{}
	for _, t := range tasks {
		count[path.Base(t.Name)]++
	}
	for i := range tasks {
		if short := path.Base(tasks[i].Name); count[short] == 1 {
			tasks[i].Name = short
		}
	}
}
