package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
)

// UnreachableText returns one sentence, without its full stop, about how many trials ended because
// their provider stopped answering, and with which errors; "" if none did. It does not name unknown
// error types, because a result may be forged.
func UnreachableText(trials []result.Packed) string {
	counts := map[result.ErrorType]int{}
	total := 0
	for _, packed := range trials {
		if !packed.Errored() {
			continue
		}
		if t := packed.Unpack(); t.EndedUnreachable() {
			total++
			counts[t.Error.Type]++
		}
	}
	if total == 0 {
		return ""
	}
	var types []result.ErrorType
	for _, kind := range result.ErrorTypes {
		if counts[kind] > 0 {
			types = append(types, kind)
		}
	}
	slices.SortStableFunc(types, func(a, b result.ErrorType) int { return cmp.Compare(counts[b], counts[a]) })
	var names []string
	for _, kind := range types {
		name := string(kind)
		if counts[kind] < total {
			name = fmt.Sprintf("%d %s", counts[kind], kind)
		}
		names = append(names, name)
	}
	text := "1 trial ended because the provider did not answer any more"
	if total > 1 {
		text = fmt.Sprintf("%d trials ended because the provider did not answer any more", total)
	}
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	return text
}
