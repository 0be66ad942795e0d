package github

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// FindEarlier looks for the results of further runs of the commit of a baseline, and of the commits
// before it, and calls take with each, the nearest first, until take returns false. A result is in
// a directory below dir, which is removed after take. It reads no more runs than FindBaseline does.
//
// It needs what FindBaseline needs. q is the query that found the baseline.
func (c *Client) FindEarlier(ctx context.Context, q Query, baseline Found, dir string, take func(Found) (more bool)) error {
	owner, repo, err := split(q.Repo)
	if err != nil {
		return fmt.Errorf("find earlier results: %w", err)
	}
	s := search{
		client: c, owner: owner, repo: repo, query: q, base: baseline.Base, side: baseline.Side,
		tried: map[int64]bool{baseline.RunID: true, baseline.Newer: true},
	}
	var runs []run
	for _, event := range trustedEvents {
		more, err := s.runs(ctx, runFilter{event: event})
		if err != nil {
			return err
		}
		runs = append(runs, more...)
	}
	_, err = s.walk(ctx, runs, func(of []run, depth int) (bool, error) {
		for _, r := range of {
			if s.tried[r.id] || depth < baseline.Behind || depth == baseline.Behind && r.id > baseline.RunID {
				continue
			}
			if len(s.tried) >= maxCandidates {
				return true, nil
			}
			s.tried[r.id] = true
			if more, err := s.takeEarlier(ctx, r, depth, filepath.Join(dir, strconv.FormatInt(r.id, 10)), take); !more || err != nil {
				return true, err
			}
		}
		return false, nil
	})
	return err
}

// takeEarlier calls take with the result of a run, if it has one.
func (s *search) takeEarlier(ctx context.Context, r run, depth int, dir string, take func(Found) bool) (more bool, err error) {
	defer os.RemoveAll(dir)
	s.dir = dir
	path, err := s.fetch(ctx, r)
	if path == "" || err != nil {
		return true, err
	}
	return take(Found{Path: path, Branch: s.query.Branch, Commit: r.sha, RunID: r.id, RunURL: r.url, Base: s.base, Side: s.side, Behind: depth}), nil
}
