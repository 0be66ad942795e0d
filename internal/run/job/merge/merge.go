package merge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Options configure a merge.
type Options struct {
	// Paths has shards' directories, directories with shards up to three levels down, or archives
	// of such directories.
	Paths []string
	// Output is the merged job's directory. "": the job's name, below Parent.
	Output string
	Parent string
	// Move moves trials' directories out of the shards instead of linking their files. That is
	// faster and uses the shards up. A merge that fails moves them back. If a shard is missing or
	// did not finish, nothing is moved: the next merge needs the other shards.
	Move bool
	// Baseline merges the shards of the baseline that was run with the job (result.Plan.Beside)
	// instead of the job's, if both are there.
	Baseline bool
	// Name is the job's name, which may have the placeholders of a job file. Directories of other
	// jobs are left out, and at least one of this job must be there. "": all directories are
	// merged.
	Name string
	// Rounds returns how the rounds of a job ended whose shards made those that they were told to
	// make (result.Rounds.Upto), and a note if there is something to say. nil: such a job keeps the
	// rounds of its shards.
	Rounds func(context.Context, Made) (*result.Rounds, string, error)
	// Brief reads the results as result.TrialReader.Brief does.
	Brief bool
	// Base is the directory that relative paths are relative to. "": the current directory.
	Base string
}

// path returns a given path, relative to Base.
func (o Options) path(p string) string {
	if filepath.IsAbs(p) || o.Base == "" {
		return p
	}
	return filepath.Join(o.Base, p)
}

// Result is the outcome of a merge.
type Result struct {
	Dir    string // the merged job's directory, as Output or Parent name it
	Tree   result.PackedTree
	Job    result.Job
	Groups []result.Group // of the job's trials
	Shards int            // the number of shards of the job
	Merged int            // the number of shards that were found
	// Incomplete has a sentence for each missing shard or result. If there is any, the job does not
	// pass. Notes has other sentences that users should read.
	Incomplete []string
	Notes      []string
}

// Run puts the shards of a job together: it writes the directory that one run of the whole job
// would have left. The shards stay as they are (but see Options.Move). Files are linked if the file
// system allows it, and copied if not.
//
// It refuses (with a job.Refusal) directories that are not shards of one plan and one split. If
// shards or results are missing, it merges the others: the missing trials are skipped trials in the
// result, and Incomplete names them. Of two directories of the same shard it takes the newest
// complete one, as a whole.
//
// The input is hostile: Run writes nothing outside of Output, follows no link, and leaves out names
// that no run would have written. If Output exists and a merge of the same plan made it, Run
// replaces it, as a whole and at the end.
func Run(ctx context.Context, opts Options) (_ Result, err error) {
	defer SaveMemory()()
	if opts.Output != "" {
		opts.Output = filepath.Clean(opts.Output) // the parent of "out/" would be the directory itself
		opts.Parent = filepath.Dir(opts.Output)
	}
	m := &merge{opts: opts, parent: opts.path(opts.Parent)}
	defer func() { err = errors.Join(err, m.scratch.remove()) }()
	if err := m.open(ctx); err != nil {
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

// open selects the shards of one job.
func (m *merge) open(ctx context.Context) error {
	trees, err := m.find(ctx)
	if err != nil {
		return err
	}
	if trees, err = m.named(trees); err != nil {
		return err
	}
	if trees, err = m.side(trees); err != nil {
		return err
	}
	return m.selectShards(trees)
}

// merge is the state of one call of Run.
type merge struct {
	opts    Options
	parent  string   // drafts are created in it
	output  string   // the merged job's directory
	scratch *scratch // for drafts and unpacked archives; nil until the first use
	unpacks int
	limits  unpackLimits
	visited int
	skipped omissions
	// unpackSkipped is the value of skipped before trials were linked.
	unpackSkipped omissions
	notes         int // also those above maxNotes
	damaged       []string

	plan    result.Plan // of the whole job, as it will be written
	keys    result.Keys // the plan's trials, then the possible confirmation attempts
	shardOf []int       // the shard of each of keys
	owned   [][]int32   // see own
	total   int
	found   []*shardDir // all directories of shards
	others  []*shardDir // those of the other job that was run with this one
	parts   []*shardDir // the directory of each shard, sorted by index
	base    *shardDir   // the shard that began first; its plan and configuration are used

	groups   map[string]*group // see groupsOf
	batched  []batch           // the trials' directories in the shards
	onlyCopy bool              // the replaced output holds the only copy of its trials

	out Result
}

// maxNotes limits the notes: the given paths may have any number of directories to report.
const maxNotes = 100

// note adds a note to the result.
func (m *merge) note(format string, args ...any) {
	if m.notes++; m.notes > maxNotes {
		return
	}
	m.out.Notes = append(m.out.Notes, untrusted.Line(fmt.Sprintf(format, args...)))
}

// draftDir returns a directory for drafts on the output's file system, from which they can be
// renamed. It creates it when it is first called.
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
