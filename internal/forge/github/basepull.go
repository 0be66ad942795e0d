package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gh "github.com/google/go-github/v66/github"
)

// HidesBase reports whether the run may be about a pull request whose base the event does not name:
// a comment, or a manual start of the workflow for a branch. See Client.BasePull.
func (a Actions) HidesBase() bool {
	event := a.Event
	if a.Origin != nil {
		event = a.Origin.Event
	}
	return a.BaseRef == "" && slices.Contains([]string{"issue_comment", "workflow_dispatch", "repository_dispatch"}, event)
}

// Evaluating returns the facts of a run that evaluates a commit; "" if it is unknown. With
// HidesBase, users see that commit instead of the event's, which is the head of the default branch.
func (a Actions) Evaluating(commit string) Actions {
	if commit = hash(commit); a.HidesBase() && (commit != "" || a.Event != "workflow_dispatch") {
		a.HeadSHA = commit
	}
	return a
}

// BasePull returns the pull request that a run with HidesBase is about: that of the comment, or the
// open one whose head is the evaluated commit, or is merged in it. commit is "" if it is unknown;
// parents are its parents in the checkout, or nil. If there is none, or if several go to different
// branches, the error is ErrNoPull.
func (c *Client) BasePull(ctx context.Context, a Actions, commit string, parents []string) (Pull, error) {
	owner, repo, err := split(a.Repository)
	if err != nil {
		return Pull{}, fmt.Errorf("find the pull request: %w", err)
	}
	if a.Number != 0 {
		pr, _, err := c.api.PullRequests.Get(ctx, owner, repo, a.Number)
		if err := c.explain(err); err != nil {
			return Pull{}, fmt.Errorf("read the pull request #%d (the job needs the permission pull-requests: read): %w", a.Number, err)
		}
		return pullOfAPI(pr, a.Repository), nil
	}
	if a.Origin == nil {
		if commit == "" {
			commit = a.SHA
		}
		if commit == a.SHA && a.Ref == "refs/heads/"+a.DefaultBranch { // may be the head of a pull request to another branch
			return Pull{}, fmt.Errorf("%w: it is of %s", ErrNoPull, a.DefaultBranch)
		}
	}
	var found []Pull
	for _, sha := range slices.Concat([]string{commit}, parents[:min(len(parents), maxParents)]) {
		if sha == "" {
			continue
		}
		pulls, _, err := c.api.PullRequests.ListPullRequestsWithCommit(ctx, owner, repo, sha, &gh.ListOptions{PerPage: perPage})
		err = c.explain(err)
		if missing(err) {
			continue
		}
		if err != nil {
			return Pull{}, fmt.Errorf("find the pull request of %s: %w", short(sha), err)
		}
		for _, pr := range pulls {
			if pr.GetState() == "open" && pr.GetHead().GetSHA() == sha && strings.EqualFold(pr.GetBase().GetRepo().GetFullName(), a.Repository) {
				found = append(found, pullOfAPI(pr, a.Repository))
			}
		}
	}
	if len(found) == 0 {
		return Pull{}, fmt.Errorf("%w: none of them has %s as its head", ErrNoPull, short(commit))
	}
	for _, p := range found {
		if p.BaseRef != found[0].BaseRef {
			return Pull{}, fmt.Errorf("%w: #%d and #%d go to different branches", ErrNoPull, found[0].Number, p.Number)
		}
	}
	return found[0], nil
}

// BaselineOf returns the branch to compare with in this run, and the pull request that names it if
// the event does not; nil: none does. The error is a NoBaseline if the comment's pull request
// cannot be read: another branch would be a wrong one.
func (c *Client) BaselineOf(ctx context.Context, a Actions, commit string, parents []string) (branch string, asked *Pull, err error) {
	if !a.HidesBase() {
		return a.BaselineBranch(), nil, nil
	}
	pull, err := c.BasePull(ctx, a, commit, parents)
	var answer *APIError
	switch {
	case err == nil:
		return pull.BaseRef, &pull, nil
	case errors.As(err, &answer) && a.Number != 0:
		return "", nil, noBaseline("the branch that the pull request goes to is unknown: %v", err)
	case errors.As(err, &answer), errors.Is(err, ErrNoPull):
		return a.BaselineBranch(), nil, nil
	}
	return "", nil, err
}

func pullOfAPI(pr *gh.PullRequest, repo string) Pull {
	return Pull{pr.GetNumber(), pr.GetHead().GetSHA(), pr.GetBase().GetRef(), !strings.EqualFold(pr.GetHead().GetRepo().GetFullName(), repo)}
}
