package result

import (
	"io"

	"github.com/org/rollout-action/internal/lib/longjson"
)

// Encode writes v to w in the format of Marshal. The long lists of a job and of a plan are encoded
// element by element, so they are never in memory as text.
func Encode(w io.Writer, v any) error {
	switch v := v.(type) {
	case Job:
		results := v.Results
		lists := []longjson.List{{Name: "results", Len: results.Len(), At: func(i int) any { return results.At(i) }}, longjson.ListOf("skipped", v.Skipped)}
		if results.Len() > 0 {
			v.Results = OutcomesOf()
		}
		if len(v.Skipped) > 0 {
			v.Skipped = []Key{}
		}
		return longjson.Encode(w, v, lists)
	case Plan:
		trials, key := v.Trials, Key{}
		lists := []longjson.List{longjson.ListOf("tasks", v.Tasks), {Name: "trials", Len: trials.Len(), At: func(i int) any { key = trials.At(i); return &key }}}
		if len(v.Tasks) > 0 {
			v.Tasks = []PlannedTask{}
		}
		if trials.Len() > 0 {
			v.Trials = KeysOf()
		}
		return longjson.Encode(w, v, lists)
	}
	return longjson.NewEncoder(w, "").Encode(v)
}
