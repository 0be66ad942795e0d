package reporting

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/forge/gitlab"
	"github.com/org/rollout-action/reporters"
)

// commentOnGitLab updates the note on the merge request, if this is a job of GitLab CI and a note
// is wanted. On failure it returns a sentence for the user.
func commentOnGitLab(ctx context.Context, h *host.Host, in report.Input, when string) (note string) {
	run, ok := gitlab.FromEnv(h.Getenv)
	if !ok {
		return "there is no comment, because this is neither a run of a GitHub workflow nor a job of GitLab CI"
	}
	mode, err := comments.ParseMode(cmp.Or(when, "off"))
	if err != nil || mode == comments.Off || run.MergeRequest == 0 || in.Plan.Shard != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	if err := upsertNote(ctx, h.Formats(), run, mode, in); err != nil {
		return "the merge request has no comment about this: " + inTime(ctx, err).Error()
	}
	return ""
}

func upsertNote(ctx context.Context, formats reporters.Table, run gitlab.Run, mode comments.Mode, in report.Input) error {
	if run.Token == "" {
		return errors.New("there is no token (the variable " + gitlab.TokenVariable + ": a project access token with the scope api)")
	}
	thread, err := gitlab.Open(ctx, run)
	if err != nil {
		return err
	}
	job := noteName(run, JobName{in.Plan.NamedAs, in.Job.JobName})
	wanted, err := wantsComment(mode, in, func() (bool, error) { return comments.Has(ctx, thread, job) })
	if err != nil || !wanted {
		return err
	}
	c := comments.Comment{Job: job, ValidAt: Earliest(in.Job.StartedAt, in.Now), RunID: pipeline(run), Attempt: 1}
	var body strings.Builder
	limit := gitlab.MaxNote - c.Overhead() - comments.NoticeRoom
	if err := formats.WriteJob(&body, reporters.Comment, in, reporters.Options{Limit: limit}); err != nil {
		return err
	}
	c.Body = body.String()
	_, err = comments.Upsert(ctx, thread, c, gitlab.Settle)
	return err
}

// noteName returns the key that distinguishes this job's note from those of others; see
// workflow.commentName.
func noteName(run gitlab.Run, name JobName) string {
	job := cmp.Or(name.NamedAs, name.Name)
	if newName.MatchString(job) { // a name that is new in each run
		job = cmp.Or(run.Job, job)
	}
	return job
}

// pipeline returns the number of the run that writes notes: the same in the jobs of a pipeline that
// announce it and that report on it.
func pipeline(run gitlab.Run) int64 { return cmp.Or(run.PipelineID, run.JobID) }

// gitlabLinks returns the links of a report to the run.
func gitlabLinks(run gitlab.Run) report.Links {
	return report.Links{Run: run.URL, Commit: run.CommitURL(), Sha: run.Commit, Files: run.FilesURL()}
}
