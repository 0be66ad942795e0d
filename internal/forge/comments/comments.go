// Package comments keeps one comment for a job on a pull request or a merge request, independent of
// the forge: overlapping runs, in any order, leave the comment of the newest one.
package comments

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// Rounds is the maximum number of checks of Upsert after writing.
const Rounds = 6

// Comment is a run's comment on a job.
type Comment struct {
	Job string // its name: each job has one comment
	// RunID orders runs, then Attempt: an older one never replaces a newer one. Within an attempt,
	// or if a run has no number (0), ValidAt does, which is when the run began.
	RunID   int64
	Attempt int
	ValidAt time.Time
	Body    string // safe Markdown
}

// Overhead returns the size of the marker in bytes; the body may use the rest of a comment.
func (w Comment) Overhead() int { return len(w.marker().String()) + len("\n\n") }

// Text returns the comment with its marker.
func (w Comment) Text() string {
	return w.marker().String() + "\n" + strings.TrimRight(strings.ToValidUTF8(w.Body, "�"), "\n") + "\n"
}

func (w Comment) marker() marker {
	return marker{job: w.Job, stamp: stamp{w.ValidAt.Round(0).UTC(), w.RunID, w.Attempt}}
}

// Thread holds the comments on one request.
type Thread interface {
	// List returns all comments of this token's user, in any order.
	List(ctx context.Context) ([]Entry, error)
	// Create writes a comment. The error is an UncertainError if it may exist.
	Create(ctx context.Context, text string) (Entry, error)
	// Edit replaces the text of a comment. The error is an UncertainError if it no longer exists.
	Edit(ctx context.Context, id int64, text string) error
	// Remove removes a comment. It is no error if it no longer exists.
	Remove(ctx context.Context, id int64) error
	// Ended reports whether a run has ended: no job of it can write any more. The error means that
	// this is not known.
	Ended(ctx context.Context, run int64) (bool, error)
}

// Entry is a comment in a Thread.
type Entry struct {
	ID        int64 // a later comment has a higher one
	URL, Text string
}

// UncertainError means that the effect of a write is unknown until the Thread is listed again.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *UncertainError) Unwrap() error { return e.Err }

// Action is the effect of Upsert.
type Action string

// The actions of Upsert.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged" // the comment was up to date
	Outdated  Action = "outdated"  // a newer run has commented
)

// Result is the outcome of Upsert.
type Result struct {
	Action  Action
	ID      int64
	URL     string
	Removed int // duplicates
}

// Has reports whether an earlier run left a comment for the job.
func Has(ctx context.Context, t Thread, job string) (bool, error) {
	entries, err := t.List(ctx)
	return len(of(entries, job)) > 0, err
}

// Upsert ensures that the thread has exactly one comment of ours for the job, that of the newest
// run: it creates, updates or keeps it. It never touches comments of other authors. Two runs at the
// same time may leave duplicates; Upsert keeps the oldest. As the APIs have no compare-and-swap, it
// checks again after writing, when settle has waited for the concurrent requests of other runs to
// arrive, until there is nothing to fix.
//
// It does not change a comment, nor its marker, if the body is unchanged. Errors are those of the
// Thread.
func Upsert(ctx context.Context, t Thread, want Comment, settle func(context.Context) error) (Result, error) {
	u := upsert{thread: t, settle: settle, want: want}
	err := u.run(ctx)
	return u.result, err
}

// posted is one of our comments for this job.
type posted struct {
	id    int64
	url   string
	stamp stamp
	text  string // with the marker
	body  string // without the marker
	// announced: the body begins with a notice of the run with the stamp. going: the run is in
	// progress.
	announced, going bool
}

// upsert is one call of Upsert.
type upsert struct {
	thread  Thread
	settle  func(context.Context) error
	want    Comment
	created *posted // listings may not have it yet
	pending error   // a write that may not have happened
	result  Result
}

func (u *upsert) run(ctx context.Context) error {
	for round := range Rounds {
		if round > 0 {
			if err := u.settle(ctx); err != nil {
				return err
			}
		}
		mine, err := u.list(ctx)
		if err != nil {
			return err
		}
		move := decide(mine, u.want, round > 0)
		u.note(move, round)
		if move.nothing() {
			return u.lapse(ctx, move)
		}
		u.pending = nil
		if err := u.do(ctx, move); err != nil {
			return err
		}
	}
	return u.pending // nil: other runs keep writing, and their comments are as good
}

// lapse marks the announcement of a newer run as ended, if that run has ended without a report.
// This run did not write its own comment because of that announcement.
func (u *upsert) lapse(ctx context.Context, m move) error {
	if !m.outdated || !m.newest.going {
		return nil
	}
	_, err := revise(ctx, u.thread, u.want, math.MaxInt, u.settle, func(posted, bool) (string, Action) { return "", Outdated })
	return err
}

// move is the next change to the comments.
type move struct {
	create   bool
	keep     posted
	edit     string // the new text of keep; "" for no change
	remove   []posted
	outdated bool // a newer run has commented
	newest   posted
}

func (m move) nothing() bool { return !m.create && m.edit == "" && len(m.remove) == 0 }

// decide returns the next move, given our comments, oldest first. written: this run has written
// already; then the marker alone decides whether the comment is there, because servers may return
// slightly different text.
func decide(mine []posted, want Comment, written bool) move {
	if len(mine) == 0 {
		return move{create: true}
	}
	m := move{keep: mine[0], remove: mine[1:]}
	ours := posted{stamp: want.marker().stamp, text: want.Text(), body: want.Body}
	target := ours
	for _, p := range mine {
		if p.supersedes(ours.stamp) && (!m.outdated || p.stamp.compare(target.stamp) > 0) {
			m.outdated, target = true, p
		}
	}
	m.newest = target
	older := m.keep.stamp.compare(target.stamp) < 0 || !m.outdated && m.keep.announced
	differs := !same(m.keep.body, target.body)
	switch {
	case written && !older:
		differs = false
	case older && len(m.remove) > 0:
		differs = true // only the removed comment may have the newer stamp
	}
	if differs {
		m.edit = target.text
	}
	return m
}

// same compares bodies, ignoring changes that servers make.
func same(a, b string) bool {
	plain := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return plain(a) == plain(b)
}

// note updates the result: the first round determines the action, later ones only fix up.
func (u *upsert) note(m move, round int) {
	if !m.create {
		u.result.ID, u.result.URL = m.keep.id, m.keep.url
	}
	switch {
	case m.outdated:
		u.result.Action = Outdated
	case round > 0:
	case m.create:
		u.result.Action = Created
	case m.edit != "":
		u.result.Action = Updated
	default:
		u.result.Action = Unchanged
	}
}

// do carries out the move.
func (u *upsert) do(ctx context.Context, m move) error {
	if m.create {
		return u.create(ctx)
	}
	if m.edit != "" {
		if err := u.edit(ctx, m.keep.id, m.edit); err != nil {
			return err
		}
	}
	for _, p := range m.remove {
		if err := u.thread.Remove(ctx, p.id); err != nil {
			return err
		}
		if u.created != nil && u.created.id == p.id {
			u.created = nil
		}
		u.result.Removed++
	}
	return nil
}

func (u *upsert) create(ctx context.Context) error {
	made, err := u.thread.Create(ctx, u.want.Text())
	var uncertain *UncertainError
	if errors.As(err, &uncertain) {
		u.pending = uncertain.Err
		return nil // the next round checks whether it exists
	}
	if err != nil {
		return err
	}
	u.created = &posted{id: made.ID, url: made.URL, stamp: u.want.marker().stamp, text: u.want.Text(), body: u.want.Body}
	u.result.ID, u.result.URL = made.ID, made.URL
	return nil
}

func (u *upsert) edit(ctx context.Context, id int64, text string) error {
	err := u.thread.Edit(ctx, id, text)
	var uncertain *UncertainError
	if errors.As(err, &uncertain) {
		u.pending = uncertain.Err
		return nil // deleted meanwhile: the next round creates a new one
	}
	return err
}

// list returns our comments for the job, oldest first.
func (u *upsert) list(ctx context.Context) ([]posted, error) {
	entries, err := u.thread.List(ctx)
	if err != nil {
		return nil, err
	}
	mine := u.withCreated(of(entries, u.want.Job))
	slices.SortFunc(mine, func(a, b posted) int { return cmp.Compare(a.id, b.id) })
	return slices.CompactFunc(mine, func(a, b posted) bool { return a.id == b.id }), nil
}

// of returns the comments for a job.
func of(entries []Entry, job string) (mine []posted) {
	for _, e := range entries {
		if m, body, ok := parseMarker(e.Text); ok && m.job == job {
			going := strings.HasPrefix(body, goingStart)
			mine = append(mine, posted{
				id: e.ID, url: e.URL, stamp: m.stamp, text: e.Text, body: body, announced: going || strings.HasPrefix(body, overStart), going: going,
			})
		}
	}
	return mine
}

// withCreated adds the comment that this call created if the listing does not have it yet.
// Otherwise it would be created again.
func (u *upsert) withCreated(mine []posted) []posted {
	if u.created == nil || slices.ContainsFunc(mine, func(p posted) bool { return p.id == u.created.id }) {
		return mine
	}
	return append(mine, *u.created)
}
