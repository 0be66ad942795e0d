package diag

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Nearest returns the candidate that word is most likely a misspelling of, or "" if more than a
// third of the letters would have to change; then the only one that begins with word, or "". It
// ignores case, and treats - as _. Of two equally near candidates, the earlier one wins. It
// compares only the first few thousand candidates.
func Nearest(word string, candidates []string) string {
	if len(word) > 100 { // no misspelling; limits the cost of hostile files
		return ""
	}
	best, bestDistance := "", 0
	begins, n := "", 0 // the last of n candidates that begin with word
	w := foldSpelling(word)
	for _, c := range candidates[:min(len(candidates), maxCandidates)] {
		if folded := foldSpelling(c); len(w) > 1 && len(folded) > len(w) && slices.Equal(folded[:len(w)], w) {
			begins, n = c, n+1
		}
		if n := utf8.RuneCountInString(c); abs(n-len(w)) > max(1, n/3) {
			continue
		}
		d := distance(w, foldSpelling(c))
		if d > max(1, len([]rune(c))/3) {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best == "" && n == 1 {
		return begins
	}
	return best
}

// DidYouMean returns the hint 'did you mean "x"?', or "" if Nearest finds nothing.
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// maxCandidates limits the comparisons, as a hostile file may have any number of words.
const maxCandidates = 5000

func abs(n int) int { return max(n, -n) }

func foldSpelling(s string) []rune {
	return []rune(strings.ReplaceAll(strings.ToLower(s), "-", "_"))
}

// distance returns the number of insertions, deletions, substitutions and swaps of neighbours that
// turn a into b (optimal string alignment).
func distance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
