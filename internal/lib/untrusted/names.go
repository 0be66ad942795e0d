package untrusted

import (
	"strconv"
	"strings"
)

// maxNames is the maximum number of names that Names returns.
const maxNames = 10

// Names returns the first ten names of a list and the number of others, on one line that is safe to
// print.
func Names(names []string) string {
	shown := make([]string, 0, maxNames)
	for _, n := range names[:min(len(names), maxNames)] {
		shown = append(shown, Line(n))
	}
	text := strings.Join(shown, ", ")
	if rest := len(names) - len(shown); rest > 0 {
		text += " and " + strconv.Itoa(rest) + " more"
	}
	return text
}
