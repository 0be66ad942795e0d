package mine

import (
	"path"
	"slices"
	"strings"
)

// MaxNear bounds the targets of tests near a change.
const MaxNear = 20

// findNear finds the test files near the change: those that it leaves alone, in directories in
// which it changes code or tests. What passes there without the change has to pass with it, too.
// names are the files of the commit before.
func (c *Candidate) findNear(names []string) {
	if c.runner == "make" { // which runs all tests
		return
	}
	changed, dirs, markers := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, change := range c.changes {
		changed[change.OldName], changed[change.Name] = true, true
		if k := kindOf(change.Name); k == code || k == test && isTarget(change.Name) {
			dirs[path.Dir(change.Name)] = true
		}
	}
	for _, name := range names {
		if slices.Contains(runners[c.runner].markers, path.Base(name)) {
			markers[path.Dir(name)] = true
		}
	}
	own := runners[c.runner].plan(c.module, c.relative(c.tests)).targets
	for _, name := range slices.Sorted(slices.Values(names)) {
		if !dirs[path.Dir(name)] || changed[name] || kindOf(name) != test || !isTarget(name) || odd(name) ||
			runnerOf(languageOf(name)) != c.runner || !c.module.owns(name, markers) {
			continue
		}
		targets := runners[c.runner].plan(c.module, c.relative([]string{name})).targets
		added := slices.DeleteFunc(targets, func(target string) bool { return slices.Contains(own, target) || slices.Contains(c.near, target) })
		if len(c.near)+len(added) > MaxNear {
			continue
		}
		c.near = append(c.near, added...)
		c.nearFiles = append(c.nearFiles, name)
	}
}

// relative returns names relative to the candidate's module.
func (c *Candidate) relative(names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, c.module.relative(name))
	}
	return out
}

// owns reports whether a file is in the module itself. markers are the directories of all modules.
func (m module) owns(name string, markers map[string]bool) bool {
	dir := path.Dir(name)
	if m.dir != "." && dir != m.dir && !strings.HasPrefix(dir, m.dir+"/") {
		return false
	}
	for ; dir != m.dir; dir = path.Dir(dir) {
		if markers[dir] {
			return false
		}
	}
	return true
}

// NearNames compares the tests near the change that passed without it and with it, one a line. It
// returns the names that the task requires, which are all that pass without it, or drops the
// candidate.
func (c *Candidate) NearNames(before, after string) []string {
	was, is := namesIn(before), namesIn(after)
	broken := without(was, is)
	switch c.Broken = append(c.Broken, broken...); {
	case c.Reason != Promising:
	case len(broken) > 0:
		c.drop(BreaksTests, "%d of %d near the change", len(broken), len(was))
	case len(was) > MaxNames:
		c.drop(TooLarge, "%d tests near the change", len(was))
	}
	return was
}
