package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	gh "github.com/google/go-github/v66/github"
)

// findBase finds the branch's side of what was evaluated.
//
// A pull request is checked out as a merge that GitHub makes of its head and of what the branch is at that time. What the
// branch was when the pull request left it is older: others' changes since are in the merge too, and must be on both
// sides. So the base is taken from the commit that was evaluated, and not from the event.
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
			// Another repository's commit, or one that GitHub has forgotten.
			q.Commit, q.Parents, s.assumed = other, nil, other
			err = s.baseOf(ctx)
		}
	}
	if err != nil {
		return s.unreadable(err, fmt.Sprintf("where %s and %s part", q.Branch, short(q.Commit)))
	}
	return nil
}

// latest takes the branch's own latest commit.
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

// believe replaces a claimed commit by the head, unless it is the head or a merge of it.
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
	// GitHub's merges have the branch first and the head second, those of "git merge main" the other way round.
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

// before finds what the branch was before the commit came onto it. A branch that was moved by force has no such commit
// among the commit's ancestors: then it is what the two have in common.
func (s *search) before(ctx context.Context) error {
	q := s.query
	s.side = LandedOn
	if q.Before != "" {
		base, err := s.common(ctx, q.Before, q.Commit)
		if err == nil {
			s.base = base
			if base == q.Commit { // the branch was moved back to it
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
		return noBaseline("%s is the first commit, and there was nothing before it", short(q.Commit))
	}
	s.base = q.Parents[0]
	return nil
}

// ofParents finds the base of a commit that was made here, so that GitHub does not know it: what its parents and the
// branch have in common. Of several such commits it is the latest, which has the others among its ancestors.
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
			return noBaseline("it cannot be told what of %s is in the commit that was checked out: its parents have %s and %s of it",
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

// maxParents is how many parents of a commit are asked for.
const maxParents = 8

// common is the latest commit that both have.
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

// parents are a commit's, as GitHub knows them.
func (s *search) parents(ctx context.Context, commit string) ([]string, error) {
	got, _, err := s.client.api.Repositories.GetCommit(ctx, s.owner, s.repo, commit, &gh.ListOptions{PerPage: 1})
	if err := s.client.explain(err); err != nil {
		return nil, err
	}
	a := ancestry{}
	a.add(got)
	return a[got.GetSHA()], nil
}

// missing reports GitHub's answers to the name of a commit that it does not know.
func missing(err error) bool {
	return isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusUnprocessableEntity)
}
