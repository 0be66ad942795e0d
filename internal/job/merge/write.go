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

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
)

// write makes the merged folder: a draft first, which then takes its place.
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
	var out *outcomes
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		if out, err = m.linkTrials(workCtx, draft); err == nil && m.opts.Move && !out.whole(len(m.plan.Trials)) {
			out, err = m.linkAgain(workCtx, began, draft)
		}
		return err
	})
	work.Go(func() error { // the most that can be done meanwhile
		if err := writeLarge(filepath.Join(draft, result.PlanFile), m.plan); err != nil {
			return err
		}
		return m.writeEvents(workCtx, filepath.Join(draft, result.EventsFile))
	})
	if err := work.Wait(); err != nil {
		return err
	}
	if err := m.checkReplaced(out); err != nil {
		return err
	}
	m.report(out)
	m.out.Tree, m.out.Shards, m.out.Merged = out.tree(m.plan), m.total, len(m.parts)
	m.out.Job = result.Summarize(m.plan, m.out.Tree.All())
	// One after the other: each needs memory of its own.
	if err := m.writeOutputs(draft); err != nil {
		return err
	}
	if err := errors.Join(
		writeLarge(filepath.Join(draft, result.MetadataFile), result.MetadataOf(m.plan, m.out.Job)),
		writeLarge(filepath.Join(draft, result.ResultFile), m.out.Job),
	); err != nil {
		return err
	}
	if err := m.writeConfig(draft); err != nil {
		return err
	}
	if err := writeLarge(filepath.Join(draft, result.MergeFile), m.newRecord(out)); err != nil {
		return err
	}
	return m.replace(draft)
}

// tree is the outcomes as a tree on disk would give them. It takes their memory.
func (o *outcomes) tree(plan result.Plan) result.Tree {
	tree := result.Tree{Plan: plan}
	n := 0
	for i, there := range o.there {
		switch {
		case there && i >= len(plan.Trials):
			if o.trials[i].Confirmation {
				tree.Confirmations = append(tree.Confirmations, o.trials[i])
			}
		case there:
			o.trials[n] = o.trials[i]
			n++
		case o.errs[i] != nil:
			tree.Unreadable = append(tree.Unreadable, o.errs[i])
		}
	}
	clear(o.trials[n:])
	tree.Trials = o.trials[:n]
	return tree
}

// writeOutputs makes outputs.jsonl anew from the results. The shards' own are asked for the instructions alone.
func (m *merge) writeOutputs(draft string) error {
	prompts := job.Prompts{}
	for _, p := range m.parts {
		if err := prompts.Read(filepath.Join(p.dir, result.OutputsFile)); err != nil {
			m.note("shard %s has no %s that can be read, so its tasks' instructions may be missing from the merged one: %v", p.name(), result.OutputsFile, err)
		}
	}
	f, err := os.Create(filepath.Join(draft, result.OutputsFile))
	if err != nil {
		return err
	}
	if err := errors.Join(job.WriteOutputs(f, m.plan, m.out.Tree.All(), prompts.Of), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", result.OutputsFile, err)
	}
	return nil
}

// writeConfig copies the configuration.
func (m *merge) writeConfig(draft string) error {
	config, err := result.ReadConfig(m.base.dir)
	if err != nil {
		m.out.Incomplete = append(m.out.Incomplete, untrusted.Line(fmt.Sprintf("the job's configuration and gate are not known, for shard %s has no %s: %v",
			m.base.name(), result.ConfigFile, err)))
		return nil
	}
	if err := m.base.checkTop(result.ConfigFile, config); err != nil {
		return job.Refuse("%v", err)
	}
	return os.WriteFile(filepath.Join(draft, result.ConfigFile), config, 0o644)
}

// newRecord returns what merge.json says.
func (m *merge) newRecord(out *outcomes) record {
	r := record{PlanDigest: m.plan.Digest, Moved: m.opts.Move, Total: m.total, Shards: []recordShard{}, Incomplete: append([]string{}, m.out.Incomplete...)}
	for _, p := range m.parts {
		owed, have := m.counts(m.own(p.index), out)
		r.Shards = append(r.Shards, recordShard{Index: p.index, Folder: p.label, StartedAt: p.plan.StartedAt, Trials: owed, Results: have})
	}
	return r
}

// writeLarge writes a file of the draft, without holding all of its text. It is not synced: a merge can be made again.
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

// replace puts the draft where the output is to be.
func (m *merge) replace(draft string) error {
	old := filepath.Join(m.scratch.dir, oldName)
	if err := os.Rename(m.output, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the merged job's folder: %w", err)
	}
	if err := os.Rename(draft, m.output); err != nil {
		back := os.Rename(old, m.output)
		if errors.Is(back, fs.ErrNotExist) { // there was none
			back = nil
		}
		return errors.Join(fmt.Errorf("put the merged job in its place: %w", err), back)
	}
	return nil
}
