package comments

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// NoticeRoom is how many bytes of a comment the body leaves free for a notice above it.
const NoticeRoom = 1024

// A notice is the line above the last verdict: the run that goes on, or how it ended. These lines
// enclose it.
const (
	noticeStart = "<!-- rollout-notice -->\n"
	noticeEnd   = "<!-- rollout-last -->\n"
)

// Absent is the Action of Announce and Withdraw when there is nothing to change.
const Absent Action = "absent"

// Announce puts the body of want, which is one line, above the last verdict of the job, in place of
// an earlier notice. From then on, runs that are older than want do not write. It creates no
// comment, and changes none that would become larger than limit. As Upsert it checks again when
// settle has waited. Errors are those of the Thread.
func Announce(ctx context.Context, t Thread, want Comment, limit int, settle func(context.Context) error) (Action, error) {
	done := Absent
	for round := range Rounds {
		if round > 0 {
			if err := settle(ctx); err != nil {
				return done, err
			}
		}
		action, err := notice(ctx, t, want, limit, false, func(newest posted) Action {
			switch ours := want.marker().stamp; {
			case newest.announced && newest.stamp == ours && round > 0:
				return Unchanged
			case newest.supersedes(ours):
				return Outdated
			}
			return Updated
		})
		if err != nil || action != Updated {
			if done == Absent || action == Outdated {
				done = action
			}
			return done, err
		}
		done = Updated
	}
	return done, nil
}

// Withdraw puts the body of want in place of what this run, or an earlier attempt of it, has
// announced. It changes no other comment.
func Withdraw(ctx context.Context, t Thread, want Comment, limit int) (Action, error) {
	return notice(ctx, t, want, limit, true, func(newest posted) Action {
		if newest.announced && newest.stamp.before(want.marker().stamp) {
			return Updated
		}
		return Outdated
	})
}

// notice writes a notice if check, which gets the newest comment for the job, returns Updated.
func notice(ctx context.Context, t Thread, want Comment, limit int, keep bool, check func(posted) Action) (Action, error) {
	entries, err := t.List(ctx)
	if err != nil {
		return Absent, err
	}
	mine := of(entries, want.Job)
	if len(mine) == 0 {
		return Absent, nil
	}
	newest := slices.MaxFunc(mine, func(a, b posted) int { return a.stamp.compare(b.stamp) })
	if action := check(newest); action != Updated {
		return action, nil
	}
	m := want.marker()
	if keep {
		m.stamp = newest.stamp
	}
	text := m.String() + "\n" + noticeStart + strings.TrimSpace(strings.ToValidUTF8(want.Body, "�")) + "\n\n" + noticeEnd + newest.last() + "\n"
	if len(text) > limit {
		return Absent, nil
	}
	err = t.Edit(ctx, newest.id, text)
	var uncertain *UncertainError
	if errors.As(err, &uncertain) {
		return Absent, nil // deleted meanwhile
	}
	return Updated, err
}

// last returns the body without its notice.
func (p posted) last() string {
	rest, ok := strings.CutPrefix(p.body, noticeStart)
	if !ok {
		return strings.TrimRight(p.body, "\n")
	}
	if _, below, ok := strings.Cut(rest, "\n"+noticeEnd); ok {
		rest = below
	}
	return strings.TrimRight(rest, "\n")
}

// supersedes reports whether the comment is of a newer run than s. A run's own announcement is not,
// whatever the clocks of its machines say. An announcement of a later run is, even if the trials of
// the first one began after it, because their machines were busy: as it was never run again, its
// number tells that it is older. For the same reason, the announcement of an earlier run never
// supersedes a later one.
func (p posted) supersedes(s stamp) bool {
	if p.announced {
		if p.stamp.before(s) {
			return false
		}
		if s.runID != 0 && s.runID < p.stamp.runID && s.attempt <= 1 {
			return true
		}
		if p.stamp.runID != 0 && p.stamp.runID < s.runID && p.stamp.attempt <= 1 {
			return false
		}
	}
	return p.stamp.compare(s) > 0
}

// before reports whether s is of the same run as o, in the same attempt or an earlier one.
func (s stamp) before(o stamp) bool {
	return s.runID != 0 && s.runID == o.runID && s.attempt <= o.attempt
}
