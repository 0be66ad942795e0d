package registry

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// head is the version that is meant when none is given, if there is one of that name.
const head = "head"

// Preferred is the version that is meant when none is given: head, else the highest by PEP 440, else the last
// alphabetically. It is "" without versions.
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

// compareVersions orders by PEP 440 those versions that it knows, after all others; those by their text. Versions
// that mean the same are ordered by their text.
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

// version is a version by PEP 440.
type version struct {
	epoch   int
	release []int // without zeros at the end
	// stage orders what has the same release: kind and number of the pre-release, of the post-release, of the development
	// release, as numbers that can be compared one after the other.
	stage [4]int
	local []string
}

// pep440 is the pattern of PEP 440, appendix B.
var pep440 = regexp.MustCompile(`^v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)` +
	`(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?([0-9]*))?` +
	`(?:(-[0-9]+)|[-_.]?(post|rev|r)[-_.]?([0-9]*))?` +
	`(?:[-_.]?(dev)[-_.]?([0-9]*))?` +
	`(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$`)

// Kinds of pre-releases in their order. A development release of the final version comes before its pre-releases.
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

// number is a number of any length, cut off where it is absurd.
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

// compareLocal orders local versions: numbers are higher than words.
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
