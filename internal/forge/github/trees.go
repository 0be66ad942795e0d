package github

import (
	"context"
	"fmt"
	"net/http"

	gh "github.com/google/go-github/v66/github"
)

// TreeEntry is one entry of a git tree.
type TreeEntry struct {
	Path string // relative to the tree
	Mode string // "100644"
	ID   string
}

// RootTree returns the id of a commit's tree.
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

// Tree lists the entries of a tree or, if deep, also of all trees below it. If !whole, GitHub left
// some out.
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

// Ownership classifies a commit by the repository it belongs to.
type Ownership int

// The values of Ownership.
const (
	Unknown Ownership = iota // GitHub does not find it by this repository's name
	Foreign                  // GitHub finds it, but no branch of the repository contains it: it may be a fork's
	Own                      // a branch or tag of the repository contains it
)

// Ownership returns whether a commit is the repository's own: the head of a branch, a tag, or in
// the history of one of branches. GitHub finds the commits of all forks by the repository's name.
func (c *Client) Ownership(ctx context.Context, repo, commit string, branches ...string) (Ownership, error) {
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

// tagged checks whether a tag points to the commit.
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

// BranchHead returns the latest commit of a branch.
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

// PullMerge returns the merge that GitHub made for a pull request, and the repository of the pull
// request's head.
func (c *Client) PullMerge(ctx context.Context, repo string, number int) (merge, headRepo string, err error) {
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
