package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// MaxResults is the maximum number of results that FindResults returns.
const MaxResults = 100

// resultsAtOnce is the maximum number of artifacts that are downloaded at the same time.
const resultsAtOnce = 4

// FindResults finds the results of the newest runs on q.Branch, at most limit, and writes each to a
// directory below dir. It returns them with the newest run first. If an artifact contains a
// verdict.json, it is written next to Path. Path, Branch, Commit, RunID and RunURL are set. Runs
// without a usable artifact are left out; if all of them are, the error is an ErrNoBaseline with
// the reason.
//
// It needs what FindBaseline needs, but no commit.
func (c *Client) FindResults(ctx context.Context, q Query, limit int, dir string) ([]Found, error) {
	owner, repo, err := split(q.Repo)
	if err != nil {
		return nil, fmt.Errorf("find results: %w", err)
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	s := &search{client: c, owner: owner, repo: repo, query: q, dir: dir}
	found, err := s.newest(ctx, min(limit, MaxResults))
	if err != nil && !errors.Is(err, ErrNoBaseline) {
		return nil, fmt.Errorf("find results: %w", err)
	}
	return found, err
}

// newest returns the results of the newest runs.
func (s *search) newest(ctx context.Context, limit int) ([]Found, error) {
	var runs []run
	for _, event := range trustedEvents {
		more, err := s.runs(ctx, runFilter{event: event})
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
	}
	if len(runs) == 0 {
		return nil, noBaseline("%s has not completed a run on %s yet", s.query.WorkflowFile, s.query.Branch)
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(b.id, a.id) })
	var found []Found
	for batch := range slices.Chunk(runs[:min(len(runs), 2*limit)], resultsAtOnce) { // some runs leave no result
		results, err := s.fetchAll(ctx, batch)
		if err != nil {
			return nil, err
		}
		if found = append(found, results...); len(found) >= limit {
			return found[:limit], nil
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case s.broken != nil:
		return nil, noBaseline("no artifact %q of %s on %s can be used: %v", s.query.Artifact, s.query.WorkflowFile, s.query.Branch, s.broken)
	case s.expired > 0:
		return nil, noBaseline("the artifacts %q of %s on %s have expired", s.query.Artifact, s.query.WorkflowFile, s.query.Branch)
	}
	return nil, noBaseline("no run of %s on %s has an artifact %q", s.query.WorkflowFile, s.query.Branch, s.query.Artifact)
}

// fetchAll downloads the results of some runs at the same time, and returns them in the order of
// the runs.
func (s *search) fetchAll(ctx context.Context, runs []run) ([]Found, error) {
	paths, searches := make([]string, len(runs)), make([]search, len(runs))
	group, ctx := errgroup.WithContext(ctx)
	for i, r := range runs {
		of := &searches[i] // each records its failures
		*of = search{client: s.client, owner: s.owner, repo: s.repo, query: s.query, dir: filepath.Join(s.dir, strconv.FormatInt(r.id, 10))}
		group.Go(func() (err error) {
			paths[i], err = of.fetch(ctx, r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []Found
	for i, r := range runs {
		s.expired += searches[i].expired
		if searches[i].broken != nil {
			s.broken = searches[i].broken
		}
		if paths[i] != "" {
			found = append(found, Found{Path: paths[i], Branch: s.query.Branch, Commit: r.sha, RunID: r.id, RunURL: r.url})
		}
	}
	return found, nil
}
