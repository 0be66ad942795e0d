package merge

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

// Made holds the results of all shards of a job that decides after each round whether another one
// follows (result.Rounds.Upto).
type Made struct {
	Plan    result.Plan    // of the whole job
	Total   int            // the number of shards
	ShardOf []int          // the shard of each of the plan's trials, from 1
	Trials  []result.Trial // that have a result
	Config  []byte         // the text of config.json
	Configs []ShardConfig  // that of each shard
	// Baseline is what the looks before the last round compared with; nil: not known.
	Baseline *result.LookedAt
	// Notes are sentences for the user about directories that were left out. They are safe to
	// print.
	Notes []string
}

// ShardConfig is the configuration with which a shard was run.
type ShardConfig struct {
	Shard string // such as 1/3
	Text  []byte // of config.json
}

// Look reads the shards of a job as Run does, and writes nothing. Options.Rounds is not called. ok
// reports whether the shards make rounds with looks between them.
func Look(ctx context.Context, opts Options) (made Made, ok bool, err error) {
	defer SaveMemory()()
	m := &merge{opts: opts, parent: os.TempDir()} // for archives
	defer func() { err = errors.Join(err, m.scratch.remove()) }()
	if err := m.open(ctx); err != nil {
		return made, false, err
	}
	if m.groups, err = groupsOf(m.keys); err != nil {
		return made, false, err
	}
	if m.batched, err = m.batches(ctx, m.groups); err != nil {
		return made, false, err
	}
	out, err := m.linkTrials(ctx, "")
	if err != nil {
		return made, false, err
	}
	made, err = m.made(out)
	made.Notes = m.out.Notes
	return made, m.looks(), err
}

// looks reports whether the rounds of the job end by looks at all of its shards.
func (m *merge) looks() bool { return m.plan.Rounds != nil && m.plan.Rounds.Upto > 0 }

// made returns the results for a look.
func (m *merge) made(out *outcomes) (Made, error) {
	made := Made{Plan: m.plan, Total: m.total, ShardOf: m.shardOf}
	for i := range m.plan.Trials.Len() { // also of rounds that were taken over from another job
		if out.has(i) {
			made.Trials = append(made.Trials, *out.trials[i].Unpack())
		}
	}
	from := ""
	for _, p := range m.parts {
		if r := p.plan.Rounds; r != nil && r.Baseline != nil {
			if made.Baseline != nil && made.Baseline.Digest != r.Baseline.Digest {
				return made, job.Refuse("shards %s and %s made their rounds after looks at different baselines: run these shards again with one --baseline", from, p.name())
			}
			made.Baseline, from = r.Baseline, p.name()
		}
		text, err := result.ReadConfig(p.dir)
		if err == nil {
			err = p.checkTop(result.ConfigFile, text)
		}
		if err != nil {
			return made, job.Refuse("shard %s has no %s that can be read, so nothing is known about the gate: %v", p.name(), result.ConfigFile, err)
		}
		made.Configs = append(made.Configs, ShardConfig{p.name(), text})
		if p == m.base {
			made.Config = text
		}
	}
	return made, nil
}

// look lets Options.Rounds decide how the rounds of the job ended, and reports whether that changed
// the plan.
func (m *merge) look(ctx context.Context, out *outcomes) (bool, error) {
	if !m.looks() || m.opts.Rounds == nil {
		return false, nil
	}
	made, err := m.made(out)
	if err != nil {
		return false, err
	}
	rounds, note, err := m.opts.Rounds(ctx, made)
	if err != nil {
		return false, err
	}
	if note != "" {
		m.note("%s", note)
	}
	m.plan.Rounds, m.owned = rounds, nil
	if err := m.plan.Check(); err != nil {
		return false, job.Refuse("a %s %v", result.PlanFile, err)
	}
	return true, nil
}

// rounds returns the rounds of a job whose shards ended them by themselves, each for its own tasks,
// or made those that they were told to make; nil if there were none. Trials that an interrupted
// shard lacks are needed.
func (m *merge) rounds(trials result.Keys) *result.Rounds {
	var all *result.Rounds
	for _, p := range m.parts {
		r := p.plan.Rounds
		if r == nil {
			continue
		}
		if all == nil {
			all = &result.Rounds{Attempts: r.Attempts}
		}
		all.Upto = max(all.Upto, r.Upto)
		if r.Ended() {
			all.Made, all.Reason, all.Why = max(all.Made, r.Made), r.Reason, r.Why
		}
		for i, key := range trials.All() {
			if m.shardOf[i] == p.index && r.Leaves(key) { // nothing is believed about the trials of another shard
				all.NotNeeded = append(all.NotNeeded, key)
			}
		}
	}
	if all != nil && all.Upto > 0 { // a look decides
		return &result.Rounds{Attempts: all.Attempts, Upto: all.Upto}
	}
	if all != nil {
		slices.SortFunc(all.NotNeeded, result.Key.Compare)
	}
	return all
}
