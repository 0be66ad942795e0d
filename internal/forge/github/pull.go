package github

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// ErrNoPull means that no open pull request belongs to the run; the error's text has the reason.
var ErrNoPull = errors.New("no open pull request belongs to this run")

// Pull is a pull request as the API returns it.
type Pull struct {
	Number  int
	HeadSHA string
	BaseRef string // the target branch
	Fork    bool   // the head is in another repository
}

// FindPull returns the pull request that a workflow_run's origin belongs to. The event does not
// name those of forks, and a number in an artifact could be forged; so it lists the open pull
// requests with that head and takes the one whose head is still the run's commit. If there is none,
// the error is ErrNoPull.
func (c *Client) FindPull(ctx context.Context, a Actions) (Pull, error) {
	owner, repo, err := split(a.Repository)
	if err != nil {
		return Pull{}, fmt.Errorf("find the pull request: %w", err)
	}
	headOwner, _, err := split(a.HeadRepository)
	if err != nil || a.HeadBranch == "" || a.HeadSHA == "" {
		return Pull{}, fmt.Errorf("%w: the repository or branch that it came from is gone", ErrNoPull)
	}
	var found []Pull
	options := &gh.PullRequestListOptions{
		State: "open", Head: headOwner + ":" + a.HeadBranch, ListOptions: gh.ListOptions{PerPage: perPage},
	}
	for range maxRunPages {
		page, resp, err := c.api.PullRequests.List(ctx, owner, repo, options)
		if err := c.explain(err); err != nil {
			return Pull{}, fmt.Errorf("find the pull request: %w", readOnly(err))
		}
		for _, pr := range page {
			if belongs(pr, a) {
				found = append(found, Pull{pr.GetNumber(), pr.GetHead().GetSHA(), pr.GetBase().GetRef(), a.Fork})
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			break
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Pull{}, fmt.Errorf("%w: none of %s has %s as its head (it may have moved on, or been closed)",
			ErrNoPull, untrusted.Line(headOwner+":"+a.HeadBranch), short(a.HeadSHA))
	}
	return Pull{}, fmt.Errorf("%w: #%d and #%d have the same head", ErrNoPull, found[0].Number, found[1].Number)
}

// belongs checks the pull request again, because a server may ignore the filter.
func belongs(pr *gh.PullRequest, a Actions) bool {
	return pr.GetState() == "open" && pr.GetHead().GetSHA() == a.HeadSHA && pr.GetHead().GetRef() == a.HeadBranch &&
		strings.EqualFold(pr.GetHead().GetRepo().GetFullName(), a.HeadRepository) &&
		strings.EqualFold(pr.GetBase().GetRepo().GetFullName(), a.Repository)
}

// maxPullText bounds the description of a pull request, in bytes.
const maxPullText = 16 << 10

// MergedText returns the title and the beginning of the description of a pull request that was
// merged, as its author wrote them. Neither is trusted. It is an error if it was not merged.
func (c *Client) MergedText(ctx context.Context, repo string, number int) (title, body string, err error) {
	owner, name, err := split(repo)
	if err != nil {
		return "", "", err
	}
	pr, _, err := c.api.PullRequests.Get(ctx, owner, name, number)
	if err := c.explain(err); err != nil {
		return "", "", fmt.Errorf("read pull request #%d: %w", number, readOnly(err))
	}
	if !pr.GetMerged() {
		return "", "", fmt.Errorf("pull request #%d was not merged", number)
	}
	return untrusted.Cut(untrusted.Line(pr.GetTitle()), 300), pr.GetBody()[:min(len(pr.GetBody()), maxPullText)], nil
}
