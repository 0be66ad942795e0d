package merge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
)

// Options say what is merged, and where to.
type Options struct {
	// Paths are shards' folders, folders that hold some (up to three levels down), or archives of such folders.
	Paths []string
	// Output is the merged job's folder; "" is the job's name below Parent.
	Output string
	Parent string
	// Move moves the folders of trials out of the shards, which is faster and uses the shards up. A merge that fails
	// moves them back. Where a shard is missing or did not finish they are linked all the same: whoever merges again
	// when it is there needs the others.
	Move bool
	// Base is where relative paths begin; "" is the process's folder.
	Base string
}

// path is a path that was given, from Base.
func (o Options) path(p string) string {
	if filepath.IsAbs(p) || o.Base == "" {
		return p
	}
	return filepath.Join(o.Base, p)
}

// Result is what came of a merge.
type Result struct {
	Dir    string // the merged job's folder, as Output or Parent name it
	Tree   result.Tree
	Job    result.Job
	Shards int // that the job was divided into
	Merged int // that were there
	// Incomplete says, a sentence each, what is missing: the job does not pass then. Notes are worth saying besides.
	Incomplete []string
	Notes      []string
}

// Run puts the shards of a job together: it writes the one folder that a run of the whole job would have left. The
// shards are left as they are (but see Move); files are linked where the file system can, and copied where it cannot.
//
// It refuses (with a job.Refusal) what are not shards of one plan split in one way. Missing shards and results do not keep it from
// merging the others: they are skipped trials in the result, and Incomplete names them. Of two folders of one
// shard, the newest complete one counts, as a whole.
//
// What is given is hostile: nothing is written outside of Output, no link is followed, and names that no run would
// have written are left out. A folder that is there already is replaced, as a whole and at the end, if merging the
// same plan made it.
func Run(ctx context.Context, opts Options) (_ Result, err error) {
	defer SaveMemory()()
	if opts.Output != "" {
		opts.Output = filepath.Clean(opts.Output) // of "out/" the parent would be the folder itself
		opts.Parent = filepath.Dir(opts.Output)
	}
	m := &merge{opts: opts, parent: opts.path(opts.Parent)}
	defer func() { err = errors.Join(err, m.scratch.remove()) }()
	trees, err := m.find(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := m.selectShards(trees); err != nil {
		return Result{}, err
	}
	if m.out.Dir = opts.Output; m.out.Dir == "" {
		m.out.Dir = filepath.Join(opts.Parent, result.Slug(m.plan.JobName))
	}
	m.output = opts.path(m.out.Dir)
	m.plan.PathsFrom = m.pathsFrom()
	if m.groups, err = groupsOf(m.keys); err != nil {
		return Result{}, err
	}
	if err := m.recoverKilled(); err != nil {
		return Result{}, err
	}
	if err := m.checkOutput(); err != nil {
		return Result{}, err
	}
	if err := m.checkPlace(); err != nil {
		return Result{}, err
	}
	m.decideMove()
	if m.batched, err = m.batches(ctx, m.groups); err != nil {
		return Result{}, err
	}
	if m.alreadyMoved() {
		err = m.reread()
	} else {
		err = m.write(ctx)
	}
	if err != nil {
		return Result{}, err
	}
	return m.out, nil
}

// SaveMemory has garbage collected more often until the function that it returns is called: whoever holds the results of a large job
// would need twice their memory. Collecting takes a quarter more processor time.
func SaveMemory() (restore func()) {
	const percent = 50
	before := debug.SetGCPercent(percent)
	if before >= 0 && before < percent {
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}

// merge is one run of Merge.
type merge struct {
	opts    Options
	parent  string   // where drafts are made
	output  string   // the merged job's folder
	scratch *scratch // for drafts and what was unpacked, beside the output; nil until it is needed
	unpacks int
	limits  unpackLimits
	visited int
	skipped omissions
	// unpackSkipped are those of skipped that were found before trials were placed.
	unpackSkipped omissions
	notes         int // also those above maxNotes
	damaged       []string

	plan    result.Plan  // of the whole job, as it will be written
	keys    []result.Key // the plan's trials, and then the confirmation attempts that there may be
	shardOf []int        // the shard of each of keys
	owned   [][]int      // see own
	total   int
	found   []*shardDir // all that are no merges
	parts   []*shardDir // one for each shard that is there, by index
	base    *shardDir   // the one that began first: names and configuration are its

	groups   map[string]*group
	batched  []batch // the folders of trials that the shards have
	onlyCopy bool    // the folder that is replaced has the only copy of its trials

	out Result
}

// maxNotes is how many sentences for people there are: what is given may have any number of folders to tell of.
const maxNotes = 100

// note adds a sentence for people.
func (m *merge) note(format string, args ...any) {
	if m.notes++; m.notes > maxNotes {
		return
	}
	m.out.Notes = append(m.out.Notes, untrusted.Line(fmt.Sprintf(format, args...)))
}

// draftDir is a folder for drafts on the output's file system, so that they can be renamed.
func (m *merge) draftDir() (string, error) {
	if m.scratch == nil {
		made, err := makeScratch(m.parent)
		if err != nil {
			return "", err
		}
		m.scratch = made
	}
	return m.scratch.dir, nil
}
