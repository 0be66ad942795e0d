package merge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
)

// write writes the merged job as a draft and then renames it to the output.
func (m *merge) write(ctx context.Context) (err error) {
	scratch, err := m.draftDir()
	if err != nil {
		return err
	}
	m.unpackSkipped = omissions{n: m.skipped.n, first: slices.Clone(m.skipped.first)}
	began, err := m.begin()
	if err != nil {
		return err
	}
	draft := filepath.Join(scratch, draftName)
	if err := os.Mkdir(draft, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil && m.opts.Move {
			err = errors.Join(err, m.undo(began, draft))
		}
	}()
	out, err := m.fill(ctx, began, draft)
	if err != nil {
		return err
	}
	m.groups, m.batched = nil, nil // the names of all trials take as much memory as their results
	if err := m.checkReplaced(out); err != nil {
		return err
	}
	if ended, err := m.look(ctx, out); err != nil {
		return err
	} else if ended {
		if err := writeLarge(filepath.Join(draft, result.PlanFile), m.plan); err != nil {
			return err
		}
	}
	m.report(out)
	shards := m.recordShards(out)
	m.out.Tree, m.out.Shards, m.out.Merged = out.tree(m.plan), m.total, len(m.parts)
	m.out.Job, m.out.Groups = m.out.Tree.Summarize()
	var work errgroup.Group // none of these needs much memory
	work.Go(func() error { return m.writeOutputs(draft) })
	work.Go(func() error {
		return errors.Join(
			writeLarge(filepath.Join(draft, result.MetadataFile), job.MetadataOf(m.plan, m.out.Job)),
			writeLarge(filepath.Join(draft, result.ResultFile), m.out.Job),
		)
	})
	if err := work.Wait(); err != nil {
		return err
	}
	if err := m.writeConfig(draft); err != nil {
		return err
	}
	if err := writeLarge(filepath.Join(draft, result.MergeFile), m.newRecord(shards)); err != nil {
		return err
	}
	return m.replace(draft)
}

// fill writes the trials, the plan and the events into the draft, and returns the trials' results.
func (m *merge) fill(ctx context.Context, began journal, draft string) (out *outcomes, err error) {
	moves := m.opts.Move
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		if out, err = m.linkTrials(workCtx, draft); err == nil && m.opts.Move && !out.whole(m.plan) {
			out, err = m.linkAgain(workCtx, began, draft)
		}
		return err
	})
	work.Go(func() error { // the longest work that can run meanwhile
		if err := writeLarge(filepath.Join(draft, result.PlanFile), m.plan); err != nil {
			return err
		}
		return m.writeEvents(workCtx, filepath.Join(draft, result.EventsFile))
	})
	if err := work.Wait(); err != nil {
		return nil, err
	}
	if moves && !m.opts.Move { // linkAgain has turned it off; until here, only the other work adds notes
		m.note("--move was ignored, and the shards are left as they are: some of their results are missing or damaged, and the next merge needs these")
	}
	return out, nil
}

// tree returns the outcomes as result.ReadPackedTree would. It reuses their memory, so they must
// not be used afterwards.
func (o *outcomes) tree(plan result.Plan) result.PackedTree {
	tree := result.PackedTree{Plan: plan}
	n := 0
	for i, t := range o.trials {
		switch {
		case t.There() && i >= plan.Trials.Len():
			if t.Confirmation() {
				tree.Confirmations = append(tree.Confirmations, *t.Unpack())
			}
		case t.There():
			o.trials[n] = t
			n++
		case o.errs[i] != nil:
			tree.Unreadable = append(tree.Unreadable, o.errs[i])
		}
	}
	clear(o.trials[n:])
	tree.Trials = o.trials[:n]
	result.Compress(tree.Trials)
	return tree
}

// writeOutputs writes outputs.jsonl from the results. It reads only the instructions from the
// shards' files.
func (m *merge) writeOutputs(draft string) error {
	prompts := job.Prompts{}
	for _, p := range m.parts {
		if err := prompts.Read(filepath.Join(p.dir, result.OutputsFile)); err != nil {
			m.note("the %[2]s of shard %[1]s cannot be read, so the merged one may lack its tasks' instructions: %[3]v", p.name(), result.OutputsFile, err)
		}
	}
	f, err := os.Create(filepath.Join(draft, result.OutputsFile))
	if err != nil {
		return err
	}
	if err := errors.Join(job.WriteOutputs(f, draft, m.plan, m.out.Tree, prompts.Of), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", result.OutputsFile, err)
	}
	return nil
}

// writeConfig copies the configuration of the base shard.
func (m *merge) writeConfig(draft string) error {
	config, err := result.ReadConfig(m.base.dir)
	if err != nil {
		m.out.Incomplete = append(m.out.Incomplete, untrusted.Line(fmt.Sprintf("the job's configuration and gate are not known, because shard %s has no %s: %v",
			m.base.name(), result.ConfigFile, err)))
		return nil
	}
	if err := m.base.checkTop(result.ConfigFile, config); err != nil {
		return job.Refuse("%v", err)
	}
	return os.WriteFile(filepath.Join(draft, result.ConfigFile), config, 0o644)
}

// newRecord returns the merge.json of this merge.
func (m *merge) newRecord(shards []recordShard) record {
	return record{PlanDigest: m.plan.Digest, Moved: m.opts.Move, Total: m.total, Shards: shards, Incomplete: append([]string{}, m.out.Incomplete...)}
}

// recordShards returns what a record has of each shard.
func (m *merge) recordShards(out *outcomes) []recordShard {
	shards := []recordShard{}
	for _, p := range m.parts {
		planned, have := m.counts(m.own(p.index), out)
		shards = append(shards, recordShard{Index: p.index, Folder: p.label, StartedAt: p.plan.StartedAt, Trials: planned, Results: have})
	}
	return shards
}

// writeLarge writes a file of the draft without holding all of its text in memory. It does not
// sync: a merge can be run again.
func writeLarge(path string, v any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = result.Encode(f, v)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// replace renames the draft to the output. An existing output is moved to the scratch directory.
func (m *merge) replace(draft string) error {
	old := filepath.Join(m.scratch.dir, oldName)
	if err := os.Rename(m.output, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the merged job's directory: %w", err)
	}
	if err := os.Rename(draft, m.output); err != nil {
		back := os.Rename(old, m.output)
		if errors.Is(back, fs.ErrNotExist) { // there was none
			back = nil
		}
		return errors.Join(fmt.Errorf("rename the merged job to its directory: %w", err), back)
	}
	return nil
}
