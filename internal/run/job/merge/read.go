package merge

import (
	"context"
	"path"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
)

// Shards holds the directories of the shards of one job that are read together. It is not safe for
// concurrent use.
type Shards struct {
	m *merge
	// Dirs holds the directory of each shard that was found, as it was given, in the order of the
	// shards' numbers.
	Dirs []string
	// First is the directory of the shard that began first, from which the job's configuration is
	// taken.
	First string
}

// Open selects the shards of one job among directories as Run does, and writes nothing. Each path
// is a shard's own directory; opts has no Output and does not Move. It refuses what Run refuses
// before it writes.
func Open(opts Options) (*Shards, error) {
	m := &merge{opts: opts}
	f := finder{merge: m, seen: map[string]bool{}}
	for _, dir := range opts.Paths {
		if err := f.tree(opts.path(dir), dir); err != nil {
			return nil, err
		}
	}
	if len(f.found) == 0 {
		return nil, job.Refuse("no shard was found: %s", untrusted.Names(m.damaged))
	}
	if err := m.selectShards(f.found); err != nil {
		return nil, err
	}
	var err error
	if m.groups, err = groupsOf(m.keys); err != nil {
		return nil, err
	}
	s := &Shards{m: m, First: m.base.label}
	for _, p := range m.parts {
		s.Dirs = append(s.Dirs, p.label)
	}
	return s, nil
}

// Of returns the index in Dirs of the shard with a trial, by the trial's directory below the job's;
// -1 if the plan has no such trial, or if its shard was not found.
func (s *Shards) Of(dir string) int {
	below, name := path.Split(dir)
	g := s.m.groups[path.Clean(below)]
	if g == nil {
		return -1
	}
	i, ok := g.find(name)
	if !ok {
		return -1
	}
	for n, p := range s.m.parts {
		if p.index == s.m.shardOf[i] {
			return n
		}
	}
	return -1
}

// Read reads the results of all shards. It may be called once. Result.Dir is "".
func (s *Shards) Read(ctx context.Context) (Result, error) {
	m := s.m
	var err error
	if m.batched, err = m.batches(ctx, m.groups); err != nil {
		return Result{}, err
	}
	out, err := m.linkTrials(ctx, "")
	if err != nil {
		return Result{}, err
	}
	m.batched = nil // of the names of all trials, Of needs the groups alone
	m.report(out)
	m.out.Tree, m.out.Shards, m.out.Merged = out.tree(m.plan), m.total, len(m.parts)
	m.out.Job, m.out.Groups = m.out.Tree.Summarize()
	if text, err := result.ReadConfig(m.base.dir); err == nil { // callers that need the gate report a missing configuration
		if err := m.base.checkTop(result.ConfigFile, text); err != nil {
			return Result{}, job.Refuse("%v", err)
		}
	}
	return m.out, nil
}
