package comments

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// NoticeRoom is the number of bytes of a comment that the body leaves free for a notice above it.
const NoticeRoom = 1024

// A notice is the line above the last verdict about a run in progress, or about its end. These
// lines enclose it.
const (
	goingStart = "<!-- rollout-notice -->\n"
	overStart  = "<!-- rollout-ended -->\n"
	noticeEnd  = "<!-- rollout-last -->\n"
)

// longest is the maximum age of an announcement whose run's state is unknown. A job on GitHub's or
// on one's own machines runs for five days at most. Source: docs.github.com, "Actions limits".
const longest = 5 * 24 * time.Hour

// Absent is the Action of Announce, Begin and Withdraw when there is nothing to change.
const Absent Action = "absent"

// Announce puts the body of want, which is a line of Going, above the last verdict of the job, in
// place of an earlier notice. From then on, runs that are older than want do not write. It creates
// no comment, and changes none that would become larger than limit. As Upsert it checks again when
// settle has waited. Errors are those of the Thread.
func Announce(ctx context.Context, t Thread, want Comment, limit int, settle func(context.Context) error) (Action, error) {
	ours := want.marker().stamp
	return revise(ctx, t, want, limit, settle, func(newest posted, again bool) (string, Action) {
		switch {
		case newest.going && newest.stamp == ours && again:
			return "", Unchanged
		case newest.supersedes(ours):
			return "", Outdated
		}
		return newest.under(want.marker(), goingStart, want.Body), Updated
	})
}

// noneYet is in place of the last verdict in a comment that Begin creates.
const noneYet = "*There is none yet.*"

// Begin is Announce for a run that somebody asked for: it creates the comment if there is none. Two
// runs at the same time may leave two, of which Upsert keeps one.
func Begin(ctx context.Context, t Thread, want Comment, limit int, settle func(context.Context) error) (Action, error) {
	there, err := Has(ctx, t, want.Job)
	switch {
	case err != nil:
		return Absent, err
	case there:
		return Announce(ctx, t, want, limit, settle)
	}
	text := posted{body: noneYet}.under(want.marker(), goingStart, want.Body)
	if len(text) > limit {
		return Absent, nil
	}
	if _, err := t.Create(ctx, text); err != nil {
		return Absent, err
	}
	return Created, nil
}

// Withdraw puts the body of want, which is a line of Over, in place of the announcement of this
// run, or of an earlier attempt of it. It changes no other comment but an announcement whose run is
// over. It checks again as Announce does, because another run may have restored the announcement,
// which it had read before.
func Withdraw(ctx context.Context, t Thread, want Comment, limit int, settle func(context.Context) error) (Action, error) {
	ours := want.marker().stamp
	return revise(ctx, t, want, limit, settle, func(newest posted, again bool) (string, Action) {
		switch {
		case newest.going && newest.stamp.before(ours):
			return newest.under(marker{want.Job, newest.stamp}, overStart, want.Body), Updated
		case again:
			return "", Unchanged
		}
		return "", Outdated
	})
}

// revise replaces the text of the newest comment for the job of want with the result of check: the
// new text, or "" and the reason. It checks again after each edit. If the comment is a newer run's
// announcement, and that run is over, it ends the announcement instead.
func revise(
	ctx context.Context, t Thread, want Comment, limit int, settle func(context.Context) error, check func(newest posted, again bool) (string, Action),
) (Action, error) {
	done := Absent
	for round := range Rounds {
		if round > 0 {
			if err := settle(ctx); err != nil {
				return done, err
			}
		}
		entries, err := t.List(ctx)
		if err != nil {
			return done, err
		}
		mine := of(entries, want.Job)
		if len(mine) == 0 {
			return done, nil
		}
		newest := slices.MaxFunc(mine, func(a, b posted) int { return a.stamp.compare(b.stamp) })
		text, action := check(newest, round > 0)
		if done == Absent || action == Outdated {
			done = action
		}
		if action == Outdated && newest.over(ctx, t, want) {
			text = newest.under(marker{want.Job, newest.stamp}, overStart, lapsed(newest.notice()))
		}
		if text == "" {
			return done, nil
		}
		if len(text) > max(limit, len(newest.text)) {
			return Absent, nil
		}
		var uncertain *UncertainError
		if err := t.Edit(ctx, newest.id, text); errors.As(err, &uncertain) {
			return Absent, nil // deleted meanwhile
		} else if err != nil {
			return Absent, err
		}
	}
	return done, nil
}

// over reports whether the comment announces a run that has ended. If that is not known, it reports
// whether the announcement is too old, compared with the run of want.
func (p posted) over(ctx context.Context, t Thread, want Comment) bool {
	if !p.going {
		return false
	}
	if ended, err := t.Ended(ctx, p.stamp.runID); err == nil {
		return ended
	}
	return want.ValidAt.Sub(p.stamp.validAt) > longest
}

// under returns the text of a comment with a notice above the last verdict of p.
func (p posted) under(m marker, start, line string) string {
	return m.String() + "\n" + start + strings.TrimSpace(strings.ToValidUTF8(line, "�")) + "\n\n" + noticeEnd + p.last() + "\n"
}

// split splits the body into its notice and the last verdict.
func (p posted) split() (notice, last string) {
	for _, start := range []string{goingStart, overStart} {
		if rest, ok := strings.CutPrefix(p.body, start); ok {
			if line, below, ok := strings.Cut(rest, "\n"+noticeEnd); ok {
				return line, below
			}
			return "", rest
		}
	}
	return "", p.body
}

func (p posted) notice() string {
	notice, _ := p.split()
	return strings.TrimSpace(notice)
}

// last returns the body without its notice.
func (p posted) last() string {
	_, last := p.split()
	return strings.TrimRight(last, "\n")
}

// supersedes reports whether the comment is of a newer run than s. A run's own announcement does
// not, regardless of its machines' clocks.
func (p posted) supersedes(s stamp) bool {
	return !(p.announced && p.stamp.before(s)) && p.stamp.compare(s) > 0
}

// before reports whether s is of the same run as o, in the same attempt or an earlier one.
func (s stamp) before(o stamp) bool {
	return s.runID != 0 && s.runID == o.runID && s.attempt <= o.attempt
}
