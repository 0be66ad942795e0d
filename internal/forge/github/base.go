package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	gh "github.com/google/go-github/v66/github"
)

// findBase finds the base of the evaluated commit.
//
// For a pull request, GitHub checks out a merge of its head and the current branch. The commit at
// which the pull request left the branch is older: later changes of others are in the merge, too,
// and must be on both sides of the comparison. So the base comes from the evaluated commit, not
// from the event.
func (s *search) findBase(ctx context.Context) error {
	q := &s.query
	if q.Commit == "" && q.Event != "" {
		q.Commit, q.Parents, s.assumed = q.Event, nil, q.Event
	}
	if q.Commit == "" {
		return s.latest(ctx)
	}
	if q.Claimed {
		if err := s.believe(ctx); err != nil {
			return err
		}
	}
	err := s.baseOf(ctx)
	for _, other := range []string{q.Event, q.Head} {
		if missing(err) && other != "" && other != q.Commit {
			// The commit is from another repository, or no longer exists on GitHub.
			q.Commit, q.Parents, s.assumed = other, nil, other
			err = s.baseOf(ctx)
		}
	}
	if err != nil {
		return s.unreadable(err, fmt.Sprintf("the merge base of %s and %s", q.Branch, short(q.Commit)))
	}
	return nil
}

// latest uses the latest commit of the branch.
func (s *search) latest(ctx context.Context) error {
	commits, _, err := s.client.api.Repositories.ListCommits(ctx, s.owner, s.repo,
		&gh.CommitsListOptions{SHA: s.query.Branch, ListOptions: gh.ListOptions{PerPage: 1}})
	if err := s.client.explain(err); err != nil {
		return s.unreadable(err, "the commits of "+s.query.Branch)
	}
	if len(commits) == 0 {
		return noBaseline("%s has no commits", s.query.Branch)
	}
	s.base, s.side = commits[0].GetSHA(), Itself
	return nil
}

// believe replaces a claimed commit with the head, unless it is the head or a merge of it.
func (s *search) believe(ctx context.Context) error {
	q := &s.query
	claimed := q.Commit
	q.Parents = nil
	if claimed != q.Head {
		parents, err := s.parents(ctx, claimed)
		if err != nil && !missing(err) {
			return s.unreadable(err, "commit "+short(claimed))
		}
		if len(parents) > 1 && slices.Contains(parents, q.Head) {
			q.Parents = parents
			return nil
		}
		q.Commit, s.assumed = q.Head, q.Head
	}
	return nil
}

// baseOf finds the base of the query's commit. The error is GitHub's.
func (s *search) baseOf(ctx context.Context) error {
	q := s.query
	if q.Landed {
		return s.before(ctx)
	}
	if q.Head != "" && q.Commit != q.Head && q.Parents == nil {
		parents, err := s.parents(ctx, q.Commit)
		if err != nil && !missing(err) {
			return err
		}
		q.Parents = parents
	}
	// In GitHub's merges, the branch is the first parent; in those of "git merge main", the second.
	if at := slices.Index(q.Parents, q.Head); at >= 0 && len(q.Parents) == 2 {
		s.base, s.side = q.Parents[1-at], MergedWith
		return nil
	}
	base, err := s.common(ctx, q.Branch, q.Commit)
	switch {
	case missing(err) && len(q.Parents) > 0:
		return s.ofParents(ctx, q.Parents)
	case err != nil:
		return err
	}
	s.base, s.side = base, MergeBase
	if base == q.Commit {
		s.side = Itself
	}
	return nil
}

// before finds the branch's commit before the query's commit landed on it. After a force push it
// may not be an ancestor: then before takes the merge base of both.
func (s *search) before(ctx context.Context) error {
	q := s.query
	s.side = LandedOn
	if q.Before != "" {
		base, err := s.common(ctx, q.Before, q.Commit)
		if err == nil {
			s.base = base
			if base == q.Commit { // the branch was reset to it
				s.side = Itself
			}
			return nil
		}
		if !missing(err) && !errors.Is(err, ErrNoBaseline) {
			return err
		}
	}
	if q.Parents == nil {
		parents, err := s.parents(ctx, q.Commit)
		if err != nil {
			return err
		}
		q.Parents = parents
	}
	if len(q.Parents) == 0 {
		return noBaseline("%s is the first commit; nothing came before it", short(q.Commit))
	}
	s.base = q.Parents[0]
	return nil
}

// ofParents finds the base of a commit that was made locally, so GitHub does not know it: the merge
// base of the branch and its parents. If there are several, it takes the latest, which has the
// others as ancestors.
func (s *search) ofParents(ctx context.Context, parents []string) error {
	best := ""
	var unknown error
	for _, parent := range parents[:min(len(parents), maxParents)] {
		base, err := s.common(ctx, s.query.Branch, parent)
		if missing(err) || errors.Is(err, ErrNoBaseline) {
			unknown = err
			continue
		}
		if err != nil {
			return err
		}
		if best == "" || best == base {
			best = base
			continue
		}
		older, err := s.common(ctx, best, base)
		switch {
		case err != nil:
			return err
		case older == best:
			best = base
		case older != base:
			return noBaseline("the commit of %s in the checked-out merge is ambiguous: its parents have %s and %s",
				s.query.Branch, short(best), short(base))
		}
	}
	if best == "" {
		return unknown
	}
	s.base, s.side = best, MergedWith
	if len(parents) == 1 {
		s.side = MergeBase
	}
	return nil
}

// maxParents is the maximum number of parents of a commit that are queried.
const maxParents = 8

// common returns the merge base of two commits.
func (s *search) common(ctx context.Context, one, other string) (string, error) {
	comparison, _, err := s.client.api.Repositories.CompareCommits(ctx, s.owner, s.repo, one, other, &gh.ListOptions{PerPage: 1})
	if err := s.client.explain(err); err != nil {
		return "", err
	}
	if base := comparison.GetMergeBaseCommit().GetSHA(); base != "" {
		return base, nil
	}
	return "", noBaseline("%s and %s have no commit in common", one, short(other))
}

// parents returns a commit's parents from the API.
func (s *search) parents(ctx context.Context, commit string) ([]string, error) {
	got, _, err := s.client.api.Repositories.GetCommit(ctx, s.owner, s.repo, commit, &gh.ListOptions{PerPage: 1})
	if err := s.client.explain(err); err != nil {
		return nil, err
	}
	a := ancestry{}
	a.add(got)
	return a[got.GetSHA()], nil
}

// missing reports whether GitHub answered that it does not know a commit.
func missing(err error) bool {
	return isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusUnprocessableEntity)
}
