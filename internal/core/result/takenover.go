package result

import "regexp"

// commitID matches a full commit. Text that is printed as one comes from files.
var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// SameTrial reports whether two outcomes are of one trial: they have its key, and began when it
// did. It is false if that is not known.
func (o Outcome) SameTrial(p Outcome) bool {
	return o.Key == p.Key && !o.StartedAt.IsZero() && o.StartedAt.Equal(p.StartedAt)
}

// takenOver returns the tasks whose difference from a baseline is no evidence, in a job that took
// trials over: those with an attempt that is the baseline's own, and those of which both sides ran
// the same experiment. The second kind matters because errors are run again: attempts that the
// baseline lost can only get better, and would hide a drop at other tasks.
func takenOver(base, head Job) map[Key]bool {
	if head.ReusedTrials == 0 {
		return nil
	}
	out, ran := map[Key]bool{}, map[Key]Experiment{}
	differs := map[Key]bool{}
	see := func(j Job, o Outcome) {
		key := o.Unnumbered()
		e, known := j.Ran(o)
		if was, seen := ran[key]; !known || seen && was != e {
			differs[key] = true
		}
		ran[key] = e
	}
	for _, o := range base.Results.All() {
		see(base, o)
	}
	for _, o := range head.Results.All() {
		see(head, o)
	}
	for was, o := range base.Results.Common(head.Results) {
		if o.Reused && o.SameTrial(was) {
			out[o.Unnumbered()] = true
		}
	}
	for key := range ran {
		if !differs[key] {
			out[key] = true
		}
	}
	return out
}

// UnchangedSince reports whether the job took all trials over from the baseline of a comparison;
// nil: from any.
func (j *Job) UnchangedSince(d *Diff) bool {
	return j.Unchanged != "" && (d == nil || d.Base.Commit != nil && *d.Base.Commit == j.Unchanged)
}

// unchanged finds Job.Unchanged. The zero value has seen no trial.
type unchanged struct {
	commit string // of the trials so far; "" if one of them ran
	ran    bool
}

// add looks at the next trial of the plan; nil if it has no result.
func (u *unchanged) add(t *Trial) {
	if u.ran || t == nil || t.Reused == nil || !commitID.MatchString(t.Reused.Commit) || u.commit != "" && t.Reused.Commit != u.commit {
		u.commit, u.ran = "", true
		return
	}
	u.commit = t.Reused.Commit
}
