package diag

import "slices"

// Nearest is the candidate that name is most likely a slip of: at most a third of its letters differ
// (one in short names). It is "" when none is that near; among equals the first wins.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is Levenshtein's, in bytes: the least number of insertions, deletions and replacements.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			replace := previous[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, previous[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
