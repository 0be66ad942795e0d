package sections

import (
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
)

// environments returns notes about trials that ran on something other than the image that was asked
// for, because their numbers are not comparable with others.
func environments(in report.Input) []string {
	type other struct {
		actual, reason string
		asked          bool
	}
	bases, limits := map[other]int{}, map[string]int{}
	var order []other
	var kinds []string
	for _, packed := range in.Trials {
		if !packed.Notable() {
			continue
		}
		t := packed.Unpack()
		if t.Environment == nil {
			continue
		}
		if base := t.Environment.Base; base != nil {
			o := other{base.Actual, base.Reason, base.Asked}
			if bases[o] == 0 {
				order = append(order, o)
			}
			bases[o]++
		}
		if missing := t.Environment.Unenforced; len(missing) > 0 {
			kind := strings.Join(missing, ", ")
			if limits[kind] == 0 {
				kinds = append(kinds, kind)
			}
			limits[kind]++
		}
	}
	var notes []string
	for _, o := range order {
		instead := " did not run on the image asked for, but on "
		if o.asked { // by the job: no warning needed
			instead = " ran on "
		}
		notes = append(notes, report.Plural(bases[o], "trial")+instead+o.actual+" ("+o.reason+").")
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		notes = append(notes, report.Plural(limits[kind], "trial")+" ran without limits that were asked for: "+kind+".")
	}
	return notes
}
