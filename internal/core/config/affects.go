package config

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/fields"
)

// Affects is an entry of the key affects: the trials that a change to files can affect. A missing
// list selects all, an empty one nothing. A trial is selected if all of Tasks, Agents and Metadata
// select it.
type Affects struct {
	Paths    []string       `yaml:"paths" json:"paths" required:"true" most:"1000" doc:"Globs of files (*, ?, [a-z], {a,b}, and ** for any number of directories), from the root of the repository: skills/pdf/**."`
	Tasks    *[]string      `yaml:"tasks" json:"tasks,omitempty" most:"1000" doc:"Tasks whose name matches one of these globs (*, ?, [a-z]). [] is none: nothing runs because of these files. Default: all."`
	Agents   *[]string      `yaml:"agents" json:"agents,omitempty" most:"1000" doc:"Agents whose name matches one of these globs. Default: all."`
	Metadata map[string]any `yaml:"metadata" json:"metadata,omitempty" doc:"Only tasks with these values in [metadata] of their task.toml. Of two lists, one common element is enough."`
}

// Matches reports whether one of the paths matches the name of a file.
func (a Affects) Matches(file string) bool {
	return slices.ContainsFunc(a.Paths, func(glob string) bool { return doublestar.MatchUnvalidated(glob, file) })
}

// HasTask reports whether the entry selects tasks of this name, whatever their metadata.
func (a Affects) HasTask(name string) bool { return anyOf(a.Tasks, name) }

// HasAgent reports whether the entry selects the agent.
func (a Affects) HasAgent(name string) bool { return anyOf(a.Agents, name) }

func anyOf(globs *[]string, name string) bool {
	return globs == nil || slices.ContainsFunc(*globs, func(glob string) bool { return matchesName(glob, name) })
}

// affectsCheck checks the key affects.
type affectsCheck struct {
	*decoder
	rules []Affects
}

// check checks the globs and values.
func (c affectsCheck) check() {
	for i, a := range c.rules {
		at := fields.Path{"affects"}.Index(i)
		if len(a.Paths) == 0 && !c.BadBelow(at) {
			c.Problem(at.Child("paths"), "name files, as in skills/pdf/**", "%s.paths is empty, so the entry is about no file", at)
		}
		for k, glob := range a.Paths {
			c.pathGlob(at.Child("paths").Index(k), glob)
		}
		for _, list := range []struct {
			key   string
			globs *[]string
		}{{"tasks", a.Tasks}, {"agents", a.Agents}} {
			if list.globs == nil {
				continue
			}
			for k, glob := range *list.globs {
				c.glob(at.Child(list.key).Index(k), glob)
			}
		}
		c.metadata(a.Metadata, at.Child("metadata"))
	}
}

// pathGlob checks a glob of files in the repository. One that can match nothing is refused.
func (c affectsCheck) pathGlob(at fields.Path, glob string) {
	switch bare := strings.TrimSuffix(glob, "/"); {
	case !doublestar.ValidatePattern(glob):
		c.Problem(at, globHint+"; a { begins alternatives such as {a,b}", "%s: %q is not a valid pattern", at, fields.Shorten(glob))
	case strings.HasPrefix(glob, "!"):
		c.Problem(at, "write an entry above this one for the files that it is not about: the first that matches counts", "%s: %q: a pattern cannot exclude files", at, fields.Shorten(glob))
	case bare != glob && bare != "":
		c.Problem(at, "write "+bare+"/** for all files below it", "%s: %q matches no file, because names of files do not end with /", at, fields.Shorten(glob))
	case path.Clean(glob) != glob || path.IsAbs(glob) || glob == "." || glob == ".." || strings.HasPrefix(glob, "../"):
		c.Problem(at, "write it like skills/pdf/**, from the root of the repository", "%s: %q is not a path inside the repository", at, fields.Shorten(glob))
	}
}

// agents reports globs that match no agent of the file.
func (c affectsCheck) agents(all []agent.Agent) {
	names := []string{agent.Oracle, agent.Nop} // which --agent adds
	for _, a := range all {
		names = append(names, a.Name)
	}
	for i, a := range c.rules {
		if a.Agents == nil {
			continue
		}
		for k, glob := range *a.Agents {
			c.aboutSomething(fields.Path{"affects"}.Index(i).Child("agents").Index(k), glob, "agent", names)
		}
	}
}
