package mine

import (
	"slices"
	"strings"
)

// MaxNames bounds the names of tests that a task requires.
const MaxNames = 5000

// Names compares the tests that passed without the change and with it, one a line. It returns the
// names that the task requires, which are all that pass with the change, or drops the candidate.
func (c *Candidate) Names(before, after string) []string {
	was, is := namesIn(before), namesIn(after)
	broken, added := without(was, is), without(is, was)
	switch c.Broken = broken; {
	case len(is) == 0:
		c.drop(FailsAfter, "no test passes after the change")
	case len(broken) > 0:
		c.drop(BreaksTests, "%d of %d", len(broken), len(was))
	case len(added) == 0 && len(is) == 1:
		c.drop(NoNewTest, "the only test passes without the change")
	case len(added) == 0:
		c.drop(NoNewTest, "all %d pass without the change", len(is))
	case len(is) > MaxNames:
		c.drop(TooLarge, "%d tests", len(is))
	default:
		return is
	}
	return nil
}

// without returns the names of a sorted list that another one lacks.
func without(names, other []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return in(other, name) })
}

// in reports whether a name is in a sorted list.
func in(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// namesIn returns the lines of a list, sorted. Lines that are no name, because they are too long or
// have control characters, are left out: a container wrote them.
func namesIn(text string) []string {
	names := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	return unique(slices.DeleteFunc(names, odd))
}
