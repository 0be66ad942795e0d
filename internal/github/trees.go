package github

import (
	"context"
	"fmt"
	"net/http"

	gh "github.com/google/go-github/v66/github"
)

// TreeEntry is one entry of a git tree.
type TreeEntry struct {
	Path string // below the tree
	Mode string // "100644"
	ID   string
}

// RootTree is the id of a commit's tree.
func (c *Client) RootTree(ctx context.Context, repo, commit string) (string, error) {
	owner, name, err := split(repo)
	if err != nil {
		return "", err
	}
	got, _, err := c.api.Git.GetCommit(ctx, owner, name, commit)
	if err := c.explain(err); err != nil {
		return "", fmt.Errorf("read commit %s: %w", short(commit), needsContents(err))
	}
	return got.GetTree().GetSHA(), nil
}

// Tree lists the entries of a tree or, if deep, also those of all trees below it. !whole: GitHub left some out.
func (c *Client) Tree(ctx context.Context, repo, id string, deep bool) (entries []TreeEntry, whole bool, err error) {
	owner, name, err := split(repo)
	if err != nil {
		return nil, false, err
	}
	got, _, err := c.api.Git.GetTree(ctx, owner, name, id, deep)
	if err := c.explain(err); err != nil {
		return nil, false, fmt.Errorf("read tree %s: %w", short(id), needsContents(err))
	}
	for _, e := range got.Entries {
		entries = append(entries, TreeEntry{Path: e.GetPath(), Mode: e.GetMode(), ID: e.GetSHA()})
	}
	return entries, !got.GetTruncated(), nil
}

func needsContents(err error) error {
	if isStatus(err, http.StatusForbidden) || isStatus(err, http.StatusNotFound) {
		return fmt.Errorf("give the job the permission contents: read (%w)", err)
	}
	return err
}

// Ownership is whose a commit is.
type Ownership int

// Whose.
const (
	Unknown Ownership = iota // GitHub does not know it in this repository
	Foreign                  // GitHub knows it, as it does those of forks, but no branch of the repository has it
	Own                      // a branch or tag of the repository has it
)

// Whose tells whether a commit is one of the repository's own: the head of a branch, in the history of one of these branches,
// or a tag. GitHub also knows the commits of all forks by the repository's name.
func (c *Client) Whose(ctx context.Context, repo, commit string, branches ...string) (Ownership, error) {
	owner, name, err := split(repo)
	if err != nil {
		return Unknown, err
	}
	if _, _, err := c.api.Git.GetCommit(ctx, owner, name, commit); err != nil {
		if err := c.explain(err); !missing(err) {
			return Unknown, fmt.Errorf("read commit %s: %w", short(commit), needsContents(err))
		}
		return Unknown, nil
	}
	heads, _, err := c.api.Repositories.ListBranchesHeadCommit(ctx, owner, name, commit)
	if err := c.explain(err); err != nil && !missing(err) {
		return Unknown, fmt.Errorf("list the branches at %s: %w", short(commit), needsContents(err))
	}
	if len(heads) > 0 {
		return Own, nil
	}
	for _, branch := range branches {
		if branch == "" {
			continue
		}
		comparison, _, err := c.api.Repositories.CompareCommits(ctx, owner, name, branch, commit, &gh.ListOptions{PerPage: 1})
		if err := c.explain(err); err != nil && !missing(err) {
			return Unknown, fmt.Errorf("compare %s with %s: %w", short(commit), branch, needsContents(err))
		}
		if comparison.GetMergeBaseCommit().GetSHA() == commit {
			return Own, nil
		}
	}
	return c.tagged(ctx, owner, name, commit)
}

// tagged looks for a tag of the commit.
func (c *Client) tagged(ctx context.Context, owner, name, commit string) (Ownership, error) {
	options := &gh.ListOptions{PerPage: perPage}
	for range maxRunPages {
		tags, resp, err := c.api.Repositories.ListTags(ctx, owner, name, options)
		if err := c.explain(err); err != nil {
			return Unknown, fmt.Errorf("list the tags: %w", needsContents(err))
		}
		for _, tag := range tags {
			if tag.GetCommit().GetSHA() == commit {
				return Own, nil
			}
		}
		if options.Page = resp.NextPage; options.Page == 0 {
			break
		}
	}
	return Foreign, nil
}

// BranchHead is the latest commit of a branch.
func (c *Client) BranchHead(ctx context.Context, repo, branch string) (string, error) {
	owner, name, err := split(repo)
	if err != nil {
		return "", err
	}
	got, _, err := c.api.Repositories.ListCommits(ctx, owner, name, &gh.CommitsListOptions{SHA: branch, ListOptions: gh.ListOptions{PerPage: 1}})
	if err := c.explain(err); err != nil {
		return "", fmt.Errorf("read the branch %s: %w", branch, needsContents(err))
	}
	if len(got) == 0 {
		return "", fmt.Errorf("the branch %s has no commits", branch)
	}
	return got[0].GetSHA(), nil
}

// MergeOf is the merge that GitHub made of a pull request, and the repository that the pull request's head is in.
func (c *Client) MergeOf(ctx context.Context, repo string, number int) (merge, headRepo string, err error) {
	owner, name, err := split(repo)
	if err != nil {
		return "", "", err
	}
	got, _, err := c.api.PullRequests.Get(ctx, owner, name, number)
	if err := c.explain(err); err != nil {
		return "", "", fmt.Errorf("read pull request %d: %w", number, err)
	}
	return got.GetMergeCommitSHA(), got.GetHead().GetRepo().GetFullName(), nil
}
