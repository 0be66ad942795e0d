package merge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/linktree"
)

// batchSize is the number of trials that a worker links at a time.
const batchSize = 64

// outcomes holds the result of each planned trial, by index in the plan, or an error if its result
// cannot be used.
type outcomes struct {
	trials []result.Packed // without a result where there is none
	mu     sync.Mutex      // of errs
	errs   map[int]error
}

// has reports whether a planned trial has a result, by the rule of result.Summarize: that of a
// confirmation attempt is none. No run leaves it there, but shards are hostile.
func (o *outcomes) has(i int) bool { return o.trials[i].There() && !o.trials[i].Confirmation() }

// group is the directory with an agent's trials on a dataset.
type group struct {
	agent, dataset string // names of directories
	// tasks has the trials whose attempts 1, 2, … follow each other in the plan, by the name of
	// their directories without the attempt. others has the other trials, by directory. A large job
	// has hundreds of thousands of tasks, and several attempts at each.
	tasks  map[string]span
	others map[string]int32
}

// span is a part of the plan: the index of its first trial, and how many they are.
type span struct{ first, n int32 }

// find returns the index in the plan of the trial with a directory.
func (g *group) find(name string) (i int, ok bool) {
	if at := strings.LastIndex(name, "__"); at >= 0 {
		number := name[at+2:]
		s := g.tasks[name[:at]]
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= int(s.n) && strconv.Itoa(n) == number {
			return int(s.first) + n - 1, true
		}
	}
	other, ok := g.others[name]
	return int(other), ok
}

// add adds a trial. It returns false if another one has its directory.
func (g *group) add(i int, task string, attempt int) bool {
	name := task + "__" + strconv.Itoa(attempt)
	if _, taken := g.find(name); taken {
		return false
	}
	s, known := g.tasks[task]
	switch {
	case attempt == 1 && !known:
		g.tasks[task] = span{int32(i), 1}
		return true
	case attempt == int(s.n)+1 && i == int(s.first+s.n):
		s.n++
		g.tasks[task] = s
		return true
	}
	if g.others == nil {
		g.others = map[string]int32{}
	}
	g.others[name] = int32(i)
	return true
}

// batch is a set of trials of one group in one shard, by index in the plan.
type batch struct {
	part   *shardDir
	group  *group
	trials []int32
}

// linkTrials links all trials' directories into the draft, or moves them, and reads their results.
// Without a draft ("") it only reads.
func (m *merge) linkTrials(ctx context.Context, draft string) (*outcomes, error) {
	batches := m.batched
	sums, err := m.readTrialSums(m.groups)
	if err != nil {
		return nil, err
	}
	made := map[*group]bool{}
	for _, b := range batches {
		if draft != "" && !made[b.group] {
			made[b.group] = true
			if err := os.MkdirAll(filepath.Join(draft, b.group.agent, b.group.dataset), 0o755); err != nil {
				return nil, err
			}
		}
	}
	n := m.keys.Len()
	out := &outcomes{trials: make([]result.Packed, n), errs: map[int]error{}}
	var next atomic.Int64
	trials := 0
	for _, b := range batches {
		trials += len(b.trials)
	}
	work := event.Begin(ctx, "Merging trials", trials)
	defer work.End()
	var mu sync.Mutex // of m.skipped
	workers, ctx := errgroup.WithContext(ctx)
	for range min(len(batches), 2*runtime.GOMAXPROCS(0)) { // some wait for the disk
		workers.Go(func() error {
			p := placer{move: m.opts.Move, sums: sums, work: work}
			p.linker.Skipped, p.reader.Brief = p.skipped.add, m.opts.Brief
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				m.skipped.n += p.skipped.n
				m.skipped.first = append(m.skipped.first, p.skipped.first...)
				slices.Sort(m.skipped.first)
				m.skipped.first = m.skipped.first[:min(3, len(m.skipped.first))]
			}()
			for i := int(next.Add(1)) - 1; i < len(batches); i = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := p.batch(batches[i], draft, m.keys, out); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return out, workers.Wait()
}

// groupsOf returns the plan's trials by directory. It refuses two trials in one directory.
func groupsOf(keys result.Keys) (map[string]*group, error) {
	slugs := map[string]string{} // making a slug takes longer than everything else here
	slug := func(name string) string {
		s, ok := slugs[name]
		if !ok {
			s = result.Slug(name)
			slugs[name] = s
		}
		return s
	}
	groups := map[string]*group{}
	for i, key := range keys.All() {
		agent, dataset := slug(key.Agent), slug(key.Dataset)
		g := groups[path.Join(agent, dataset)]
		if g == nil {
			if slices.Contains(result.ReservedNames, agent) {
				return nil, job.Refuse("the plan is no job's: an agent's directory would be the file %s", agent)
			}
			g = &group{agent: agent, dataset: dataset, tasks: map[string]span{}}
			groups[path.Join(agent, dataset)] = g
		}
		if task := slug(key.Task); !g.add(i, task, key.Attempt) {
			other, _ := g.find(task + "__" + strconv.Itoa(key.Attempt))
			return nil, job.Refuse("the plan is no job's: %s and %s would have the same directory", keys.At(other), key)
		}
	}
	return groups, nil
}

// batches returns the directories of all trials in the shards. Groups take turns, because the file
// system creates only one directory at a time in another one.
func (m *merge) batches(ctx context.Context, groups map[string]*group) ([]batch, error) {
	var rounds [][]batch
	for _, p := range m.parts {
		found, err := m.ownDirs(ctx, p, groups)
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			for round := 0; len(b.trials) > 0; round++ {
				if round == len(rounds) {
					rounds = append(rounds, nil)
				}
				n := min(batchSize, len(b.trials))
				rounds[round] = append(rounds[round], batch{part: b.part, group: b.group, trials: b.trials[:n]})
				b.trials = b.trials[n:]
			}
		}
	}
	return slices.Concat(rounds...), nil
}

// ownDirs returns the directories of a shard's own trials, a batch for each group. It refuses
// results of other trials: a run leaves none.
func (m *merge) ownDirs(ctx context.Context, p *shardDir, groups map[string]*group) ([]batch, error) {
	root, err := nofollow.OpenDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("read shard %s: %w", p.label, err)
	}
	defer root.Close()
	var out []batch
	err = nofollow.EachDir(root, func(agentName string, agent *os.File) error {
		if agentName == result.SupersededDir {
			return nil // these trials no longer count
		}
		return nofollow.EachDir(agent, func(datasetName string, dataset *os.File) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b := batch{part: p, group: groups[path.Join(agentName, datasetName)]}
			entries, err := dataset.ReadDir(-1)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if !e.IsDir() {
					continue
				}
				if b.group != nil {
					if i, ok := b.group.find(e.Name()); ok && m.shardOf[i] == p.index {
						b.trials = append(b.trials, int32(i))
						continue
					}
				}
				if err := m.refuseForeign(p, dataset, path.Join(agentName, datasetName), e.Name(), b.group); err != nil {
					return err
				}
			}
			if len(b.trials) > 0 {
				slices.Sort(b.trials)
				out = append(out, b)
			}
			return nil
		})
	})
	var refusal job.Refusal
	if err != nil && !errors.As(err, &refusal) {
		err = fmt.Errorf("read shard %s: %w", p.label, err)
	}
	return out, err
}

// refuseForeign refuses a directory with a result that is not the shard's. A directory without a
// result is left out of the merge.
func (m *merge) refuseForeign(p *shardDir, dataset *os.File, below, name string, g *group) error {
	where := path.Join(below, name)
	if !nofollow.Exists(dataset, name+"/"+result.ResultFile) {
		m.skipped.add(where)
		return nil
	}
	if g != nil {
		if i, ok := g.find(name); ok {
			owner := result.Shard{Index: m.shardOf[i], Total: m.total}
			return job.Refuse("%s (shard %s) has a result of %s, which is shard %s's: one run of that shard does not leave this; if the shard was damaged on its way, download it again",
				p.label, p.name(), m.keys.At(i), owner)
		}
	}
	return job.Refuse("%s (shard %s) has a result in %s, which is no trial of the plan: one run of that shard does not leave this; if the shard was damaged on its way, download it again", p.label, p.name(), where)
}

// placer puts trials' directories into the draft. Each worker has its own.
type placer struct {
	move    bool // move directories instead of linking their files
	linker  linktree.Linker
	reader  result.TrialReader
	packer  result.Packer
	trial   result.Trial // that is being read
	skipped omissions
	sums    *trialSums // nil: results are not compared with digests
	work    *event.Work
}

// batch places the trials of a batch and reads their results into out.
func (p *placer) batch(b batch, draft string, keys result.Keys, out *outcomes) error {
	p.linker.Restart()
	source, err := nofollow.OpenDirBelow(b.part.dir, b.group.agent, b.group.dataset)
	if err != nil {
		return err
	}
	defer source.Close()
	var target *os.File
	if draft != "" {
		if target, err = nofollow.OpenDir(filepath.Join(draft, b.group.agent, b.group.dataset)); err != nil {
			return err
		}
		defer target.Close()
	}
	for _, i := range b.trials {
		i, key := int(i), keys.At(int(i))
		name := path.Base(key.Dir())
		opened, err := nofollow.OpenDirAt(source, name)
		if err != nil {
			return err
		}
		switch {
		case draft == "":
		case p.move:
			err = p.linker.Move(opened, source, target, name)
		default:
			err = p.linker.Link(opened, target, name)
		}
		if err == nil {
			p.trial = result.Trial{}
			there := false
			var unusable error
			there, unusable = p.reader.Read(opened, filepath.Join(b.part.label, b.group.agent, b.group.dataset, name), key, &p.trial,
				func(text []byte, file string) error { return p.sums.check(i, b.part.index, text, file) })
			if there {
				out.trials[i] = p.packer.Pack(&p.trial)
			}
			if unusable != nil {
				out.mu.Lock()
				out.errs[i] = unusable
				out.mu.Unlock()
			}
		}
		if err := errors.Join(err, opened.Close()); err != nil {
			return err
		}
		p.work.Step()
	}
	return nil
}
