package reporting

import (
	"cmp"
	"context"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/forge/gitlab"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// How long a run waits for the API, and after a cancel, when its process may be killed at any
// moment.
const (
	announcePatience = 20 * time.Second
	cancelPatience   = 3 * time.Second
)

// cancelledRun is how a run ended, for comments.Over.
const cancelledRun = "was cancelled"

// Announcement is the text in the job's comment that says the run is in progress, until there is a
// verdict. nil: the run does not comment.
type Announcement struct {
	out    host.Output
	thread comments.Thread
	settle func(context.Context) error
	limit  int              // of a comment, in bytes
	as     comments.Comment // without the body
	links  report.Links
	made   bool
}

// Ahead holds what is known about a run when it is announced.
type Ahead struct {
	Commit *string // that it evaluates; nil: unknown
	// Estimate is Markdown about the run, for a comment that is made if there is none; "": only the
	// comment of an earlier run announces this one.
	Estimate string
}

// JobName holds a job's name; NamedAs is the name with placeholders, "" if it has none.
type JobName struct{ NamedAs, Name string }

// Announce writes into the comment of an earlier run, if there is one, that this run is in
// progress. began orders runs. Failures are warnings. Callers must end the returned announcement.
func Announce(ctx context.Context, h *host.Host, opts ReportOptions, job JobName, began time.Time, run Ahead) *Announcement {
	a := announcementOf(ctx, h, opts, job, began, run.Commit)
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, announcePatience)
	defer cancel()
	a.as.Body = comments.Going(a.commit(), a.run(), began)
	announce := comments.Announce
	if run.Estimate != "" {
		a.as.Body += "\n\n" + run.Estimate
		announce = comments.Begin
	}
	action, err := announce(ctx, a.thread, a.as, a.limit, a.settle)
	a.made = action == comments.Updated || action == comments.Created
	a.warn(ctx, err)
	return a
}

// announcementOf returns the comment that announce writes to, or nil if there is none. commit is
// the evaluated commit, or nil.
func announcementOf(ctx context.Context, h *host.Host, opts ReportOptions, job JobName, began time.Time, commit *string) *Announcement {
	if mode, err := comments.ParseMode(cmp.Or(opts.Comment, "off")); err != nil || mode == comments.Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, announcePatience)
	defer cancel()
	w, _ := OpenWorkflow(h, opts.GitHub)
	a := &Announcement{out: h.Output}
	if w == nil {
		run, ok := gitlab.FromEnv(h.Getenv)
		if !ok || opts.GitHub == "off" || run.MergeRequest == 0 || run.Token == "" {
			return nil
		}
		thread, err := gitlab.Open(ctx, run)
		if a.warn(ctx, err); err != nil {
			return nil
		}
		a.thread, a.settle, a.limit, a.links = thread, gitlab.Settle, gitlab.MaxNote, gitlabLinks(run)
		a.as = comments.Comment{Job: noteName(run, job), ValidAt: began, RunID: pipeline(run), Attempt: 1}
		return a
	}
	if w.Number == 0 && !w.NeedsPull() || w.Token == "" || w.ReadOnly() { // as the report also says
		return nil
	}
	client, number, err := w.pull(ctx)
	if err == nil {
		a.thread, a.settle, err = client.Thread(w.Repository, number)
	}
	if a.warn(ctx, err); err != nil {
		return nil
	}
	a.limit, a.links = github.MaxComment, w.links(commit)
	a.as = comments.Comment{Job: w.commentName(job), ValidAt: began, RunID: w.SourceRun(), Attempt: w.SourceAttempt()}
	return a
}

// End removes the announcement if the run ends without a verdict: it failed with err, or was
// cancelled.
func (a *Announcement) End(ctx context.Context, err error) {
	switch {
	case a == nil || !a.made:
	case ctx.Err() != nil:
		a.withdraw(ctx, cancelledRun)
	case err != nil:
		a.withdraw(ctx, comments.NoVerdict)
	}
}

// unannounce removes the announcement of this run, which another process may have made, because
// there is no verdict. how says why.
func unannounce(ctx context.Context, h *host.Host, opts ReportOptions, job JobName, how string) comments.Action {
	if job == (JobName{}) {
		return comments.Absent
	}
	return announcementOf(context.WithoutCancel(ctx), h, opts, job, h.Now(), nil).withdraw(ctx, how)
}

// WithdrawRequest is the request of Withdraw.
type WithdrawRequest struct {
	Name string // the job's, as in its comment
}

// Withdraw removes from the comment of a job the announcement of this workflow run, which leaves no
// verdict. Failures are warnings.
func Withdraw(ctx context.Context, h *host.Host, req WithdrawRequest) error {
	if req.Name == "" {
		return host.Usagef("the name of the job is missing, by which its comment is found")
	}
	opts := ReportOptions{Comment: string(comments.Changes)}
	if unannounce(ctx, h, opts, JobName{Name: req.Name}, comments.NoVerdict) != comments.Updated {
		host.Linef(h.Output, "No line was removed: no comment of a job named %s announces this run", host.Clean(req.Name))
	}
	return nil
}

// withdraw replaces the announcement of this run, if it is still there, even after ctx has ended.
func (a *Announcement) withdraw(ctx context.Context, how string) comments.Action {
	if a == nil {
		return comments.Absent
	}
	patience := announcePatience
	if ctx.Err() != nil {
		patience = cancelPatience
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	a.as.Body = comments.Over(a.commit(), a.run(), how)
	action, err := comments.Withdraw(ctx, a.thread, a.as, a.limit, a.settle)
	if action != comments.Updated || ctx.Err() == nil { // there was no time to look again
		a.warn(ctx, err)
	}
	return action
}

// warn reports an error as a warning, unless the command was cancelled.
func (a *Announcement) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() != context.Canceled {
		host.Warnf(a.out, "the line about this run in the comment could not be written: %v", err)
	}
}

// commit names the commit that is evaluated.
func (a *Announcement) commit() string {
	if a.links.Sha == "" {
		return "a new commit"
	}
	return untrusted.Link(untrusted.Code(untrusted.Cut(host.ShortCommit(a.links.Sha), 40)), a.links.Commit)
}

// run links to the run; "" if its page is not known.
func (a *Announcement) run() string {
	if untrusted.URL(a.links.Run) == "" {
		return ""
	}
	return untrusted.Link("run", a.links.Run)
}

// NameOf returns the name of a planned job.
func NameOf(plan result.Plan) JobName { return JobName{plan.NamedAs, plan.JobName} }

// Earliest returns the start time of a job, for the order of comments, but at most now: an
// untrusted artifact may claim a later one, and then no later run could replace its comment.
func Earliest(began, now time.Time) time.Time {
	if began.After(now) {
		return now
	}
	return began
}
