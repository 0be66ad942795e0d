package github

import (
	"context"
	"fmt"
	"net/http"

	gh "github.com/google/go-github/v66/github"
)

// MayReadContents returns an error that names the permission if the token cannot read the
// repository's commits.
func (c *Client) MayReadContents(ctx context.Context, repo string) error {
	owner, name, err := split(repo)
	if err != nil {
		return err
	}
	_, _, err = c.api.Repositories.ListCommits(ctx, owner, name, &gh.CommitsListOptions{ListOptions: gh.ListOptions{PerPage: 1}})
	if err = c.explain(err); isStatus(err, http.StatusConflict) { // it has no commits yet
		return nil
	}
	return needsContents(err)
}

// MayReadRuns returns an error that names the permission if the token cannot read the repository's
// workflow runs, whose artifacts are baselines.
func (c *Client) MayReadRuns(ctx context.Context, repo string) error {
	owner, name, err := split(repo)
	if err != nil {
		return err
	}
	_, _, err = c.api.Actions.ListRepositoryWorkflowRuns(ctx, owner, name, &gh.ListWorkflowRunsOptions{ListOptions: gh.ListOptions{PerPage: 1}})
	err = c.explain(err)
	if isStatus(err, http.StatusForbidden) || isStatus(err, http.StatusNotFound) {
		return fmt.Errorf("give the job the permission actions: read (%w)", err)
	}
	return err
}
