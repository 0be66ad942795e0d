package result

import "regexp"

// released matches a released version of Rollout. The first two numbers are in the group.
var released = regexp.MustCompile(`^(v\d+\.\d+)\.\d+$`)

// JudgeAlike reports whether two versions of Rollout judge trials by the same rules, as far as
// their names tell: equal versions do, and releases that differ only in the last number, which
// never changes how trials are judged. An unknown version ("") is like any other.
func JudgeAlike(a, b string) bool {
	if a == "" || b == "" || a == b {
		return true
	}
	one, other := released.FindStringSubmatch(a), released.FindStringSubmatch(b)
	return one != nil && other != nil && one[1] == other[1]
}
