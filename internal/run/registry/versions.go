package registry

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// head is the version that Preferred prefers to all others.
const head = "head"

// Preferred returns the version to use if none is given: head, else the highest by PEP 440, else
// the last alphabetically. It returns "" if there are no versions.
func Preferred(versions []string) string {
	if slices.Contains(versions, head) {
		return head
	}
	best, known := "", false
	for _, v := range versions {
		_, ok := parseVersion(v)
		switch {
		case best == "" && !known, ok && !known:
			best, known = v, ok
		case ok == known && compareVersions(v, best) > 0:
			best = v
		}
	}
	return best
}

// compareVersions orders versions by PEP 440, after those that are not valid by it, which it orders
// by their text. Versions that PEP 440 treats as equal are ordered by their text, too.
func compareVersions(a, b string) int {
	x, okX := parseVersion(a)
	y, okY := parseVersion(b)
	if !okX || !okY {
		return cmp.Or(compareBool(okX, okY), cmp.Compare(a, b))
	}
	return cmp.Or(
		cmp.Compare(x.epoch, y.epoch), slices.Compare(x.release, y.release),
		slices.Compare(x.stage[:], y.stage[:]), compareLocal(x.local, y.local), cmp.Compare(a, b),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// version is a parsed PEP 440 version.
type version struct {
	epoch   int
	release []int // without trailing zeros
	// stage orders versions of the same release: kind and number of the pre-release, the
	// post-release and the development release, to be compared in this order.
	stage [4]int
	local []string
}

// pep440 is the pattern of PEP 440, appendix B.
var pep440 = regexp.MustCompile(`^v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)` +
	`(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?([0-9]*))?` +
	`(?:(-[0-9]+)|[-_.]?(post|rev|r)[-_.]?([0-9]*))?` +
	`(?:[-_.]?(dev)[-_.]?([0-9]*))?` +
	`(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$`)

// Kinds of pre-releases in their order. A development release of a final version comes before its
// pre-releases.
const (
	onlyDev = -1
	final   = 3
)

var preKinds = map[string]int{"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}

func parseVersion(text string) (version, bool) {
	m := pep440.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return version{}, false
	}
	v := version{epoch: number(m[1])}
	for _, part := range strings.Split(m[2], ".") {
		v.release = append(v.release, number(part))
	}
	for len(v.release) > 0 && v.release[len(v.release)-1] == 0 {
		v.release = v.release[:len(v.release)-1]
	}
	isPre, isPost, isDev := m[3] != "", m[5] != "" || m[6] != "", m[8] != ""
	pre, preNumber, post, dev := final, 0, -1, 1<<31
	if isPre {
		pre, preNumber = preKinds[m[3]], number(m[4])
	}
	if isPost {
		post = number(strings.TrimPrefix(m[5], "-") + m[7])
	}
	if isDev {
		dev = number(m[9])
		if !isPre && !isPost {
			pre = onlyDev
		}
	}
	v.stage = [4]int{pre, preNumber, post, dev}
	if m[10] != "" {
		v.local = strings.FieldsFunc(m[10], func(r rune) bool { return strings.ContainsRune("-_.", r) })
	}
	return v, true
}

// number returns the number in digits, capped if it is huge.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if digits == "" {
		return 0
	}
	if err != nil || n > 1<<30 {
		return 1 << 30
	}
	return n
}

// compareLocal compares local versions: numbers are higher than words.
func compareLocal(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		n, errN := strconv.Atoi(x)
		m, errM := strconv.Atoi(y)
		switch {
		case errN == nil && errM == nil:
			return cmp.Compare(n, m)
		case errN == nil:
			return 1
		case errM == nil:
			return -1
		}
		return cmp.Compare(x, y)
	})
}
