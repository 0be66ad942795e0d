package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
)

// MergeOptions say what is merged, and where to.
type MergeOptions struct {
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
func (o MergeOptions) path(p string) string {
	if filepath.IsAbs(p) || o.Base == "" {
		return p
	}
	return filepath.Join(o.Base, p)
}

// Merged is what came of a merge.
type Merged struct {
	Dir    string // the merged job's folder, as Output or Parent name it
	Tree   result.Tree
	Job    result.Job
	Shards int // that the job was divided into
	Merged int // that were there
	// Incomplete says, a sentence each, what is missing: the job does not pass then. Notes are worth saying besides.
	Incomplete []string
	Notes      []string
}

// Refusal says why something cannot be merged: what was given is at fault, not the machine. Nothing was written.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error {
	return Refusal(untrusted.Line(fmt.Sprintf(format, args...)))
}

// Merge puts the shards of a job together: it writes the one folder that a run of the whole job would have left. The
// shards are left as they are (but see Move); files are linked where the file system can, and copied where it cannot.
//
// It refuses (with a Refusal) what are not shards of one plan split in one way. Missing shards and results do not keep it from
// merging the others: they are skipped trials in the result, and Incomplete names them. Of two folders of one
// shard, the newest complete one counts, as a whole.
//
// What is given is hostile: nothing is written outside of Output, no link is followed, and names that no run would
// have written are left out. A folder that is there already is replaced, as a whole and at the end, if merging the
// same plan made it.
func Merge(ctx context.Context, opts MergeOptions) (_ Merged, err error) {
	defer SaveMemory()()
	if opts.Output != "" {
		opts.Output = filepath.Clean(opts.Output) // of "out/" the parent would be the folder itself
		opts.Parent = filepath.Dir(opts.Output)
	}
	m := &merge{opts: opts, parent: opts.path(opts.Parent)}
	defer func() { err = errors.Join(err, m.scratch.remove()) }()
	trees, err := m.find(ctx)
	if err != nil {
		return Merged{}, err
	}
	if err := m.selectShards(trees); err != nil {
		return Merged{}, err
	}
	if m.out.Dir = opts.Output; m.out.Dir == "" {
		m.out.Dir = filepath.Join(opts.Parent, result.Slug(m.plan.JobName))
	}
	m.output = opts.path(m.out.Dir)
	m.plan.PathsFrom = m.pathsFrom()
	if m.groups, err = groupsOf(m.keys); err != nil {
		return Merged{}, err
	}
	if err := m.recoverKilled(); err != nil {
		return Merged{}, err
	}
	if err := m.checkOutput(); err != nil {
		return Merged{}, err
	}
	if err := m.checkPlace(); err != nil {
		return Merged{}, err
	}
	m.decideMove()
	if m.batched, err = m.batches(ctx, m.groups); err != nil {
		return Merged{}, err
	}
	if m.alreadyMoved() {
		err = m.reread()
	} else {
		err = m.write(ctx)
	}
	if err != nil {
		return Merged{}, err
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
	opts    MergeOptions
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

	out Merged
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

// checkOutput refuses an output that is there already, unless it is an earlier merge of the same plan, or empty.
func (m *merge) checkOutput() error {
	entries, err := os.ReadDir(m.output)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return refuse("%s: cannot be the merged job's folder: %v", m.out.Dir, err)
	}
	if made, err := m.earlier(); err == nil {
		m.onlyCopy = made.Moved
		return nil
	}
	return refuse("%s is there already, and no merge of this plan made it: choose another --output, or remove the folder", m.out.Dir)
}

// earlier is what an earlier merge of the same plan noted in the output. The error says that there was none.
func (m *merge) earlier() (made mergeRecord, err error) {
	text, err := readLimited(filepath.Join(m.output, result.MergeFile), maxMergeFile)
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err == nil && made.PlanDigest != m.plan.Digest {
		err = errors.New("it is of another plan")
	}
	return made, err
}

// checkPlace refuses an output that holds one of the shards, which would be removed with what it replaces, and one that is
// in a shard's folder, which would not be left as it is.
func (m *merge) checkPlace() error {
	if base := filepath.Base(m.out.Dir); base == "." || base == ".." {
		return refuse("%s: cannot be the merged job's folder: give the name of one that can be made, or replaced", m.out.Dir)
	}
	output, err := realPath(m.output)
	if err != nil {
		return refuse("%s: cannot be the merged job's folder: %v", m.out.Dir, err)
	}
	for _, p := range m.found {
		if within(output, p.from) {
			return refuse("%s holds %s, which would be lost when it is replaced: choose another --output", m.out.Dir, p.label)
		}
		if within(p.from, output) {
			return refuse("%s is in the folder of a shard, %s: choose another --output", m.out.Dir, p.label)
		}
	}
	return nil
}

// realPath is an absolute path without links, of something that need not be there.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if dir := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && dir != path {
		real, err = realPath(dir)
		return filepath.Join(real, filepath.Base(path)), err
	}
	return real, err
}

// within reports whether path is dir or below it. Both are real.
func within(dir, path string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// pathsFrom is result.Plan.PathsFrom of the merged folder, or "" if the job file's folder is not on this machine.
func (m *merge) pathsFrom() string {
	if m.base.from != m.base.dir || m.plan.PathsFrom == "" { // an archive's surroundings are not the job's
		return ""
	}
	dir, err := realPath(m.base.dir)
	if err != nil {
		return ""
	}
	from := filepath.Join(dir, filepath.FromSlash(m.plan.PathsFrom))
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		return ""
	}
	below, err := PathsFrom(m.output, from)
	if err != nil {
		return ""
	}
	return below
}

// decideMove turns moving off where the shards will be needed again.
func (m *merge) decideMove() {
	if !m.opts.Move {
		return
	}
	whole := 0
	for _, p := range m.parts {
		if p.state == complete {
			whole++
		}
	}
	if whole < m.total {
		m.opts.Move = false
		m.note("the shards are left as they are, in spite of --move: not all of them are there and complete, and the next merge needs these")
	}
}

// checkReplaced refuses to replace a folder that has the only results of some trials.
func (m *merge) checkReplaced(out *outcomes) error {
	if !m.onlyCopy {
		return nil
	}
	for i, key := range m.keys {
		if out.there[i] {
			continue
		}
		if _, err := os.Lstat(filepath.Join(m.output, filepath.FromSlash(key.Dir()), result.ResultFile)); err == nil {
			return refuse("%s has the result of %s, which was moved out of its shard and is not in what is merged now: choose another --output, or remove the folder",
				m.out.Dir, key)
		}
	}
	return nil
}

// mergeRecord is merge.json: what a job was put together from.
type mergeRecord struct {
	PlanDigest string        `json:"plan_digest"`
	Moved      bool          `json:"moved,omitempty"` // the trials are in no shard any more
	Total      int           `json:"total"`
	Shards     []mergedShard `json:"shards"`
	Incomplete []string      `json:"incomplete"`
}

type mergedShard struct {
	Index     int       `json:"index"`
	Folder    string    `json:"folder"`
	StartedAt time.Time `json:"started_at"`
	Trials    int       `json:"trials"`  // that it owed
	Results   int       `json:"results"` // that could be read
}

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
		return m.mergeEvents(workCtx, filepath.Join(draft, result.EventsFile))
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
	if err := writeLarge(filepath.Join(draft, result.MergeFile), m.record(out)); err != nil {
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
	prompts := Prompts{}
	for _, p := range m.parts {
		if err := prompts.Read(filepath.Join(p.dir, result.OutputsFile)); err != nil {
			m.note("shard %s has no %s that can be read, so its tasks' instructions may be missing from the merged one: %v", p.name(), result.OutputsFile, err)
		}
	}
	f, err := os.Create(filepath.Join(draft, result.OutputsFile))
	if err != nil {
		return err
	}
	if err := errors.Join(writeOutputs(f, m.plan, m.out.Tree.All(), prompts.Of), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", result.OutputsFile, err)
	}
	return nil
}

// writeConfig copies the configuration.
func (m *merge) writeConfig(draft string) error {
	config, err := readSmall(m.base.dir, result.ConfigFile)
	if err != nil {
		m.out.Incomplete = append(m.out.Incomplete, untrusted.Line(fmt.Sprintf("the job's configuration and gate are not known, for shard %s has no %s: %v",
			m.base.name(), result.ConfigFile, err)))
		return nil
	}
	if err := m.base.checkTop(result.ConfigFile, config); err != nil {
		return refuse("%v", err)
	}
	return os.WriteFile(filepath.Join(draft, result.ConfigFile), config, 0o644)
}

// record is what merge.json says.
func (m *merge) record(out *outcomes) mergeRecord {
	r := mergeRecord{PlanDigest: m.plan.Digest, Moved: m.opts.Move, Total: m.total, Shards: []mergedShard{}, Incomplete: append([]string{}, m.out.Incomplete...)}
	for _, p := range m.parts {
		owed, have := m.counts(m.own(p.index), out)
		r.Shards = append(r.Shards, mergedShard{Index: p.index, Folder: p.label, StartedAt: p.plan.StartedAt, Trials: owed, Results: have})
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
		return errors.Join(fmt.Errorf("put the merged job in its place: %w", err), ignoreMissing(os.Rename(old, m.output)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// maxSmall bounds a shard's config.json and what is read of the beginning of its other files.
const maxSmall = 16 << 20

// readSmall reads a file at the top of a shard's folder. Links are not followed.
func readSmall(dir, name string) ([]byte, error) {
	f, err := openRegular(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		err = fmt.Errorf("it is larger than %d bytes", maxSmall)
	}
	return data, err
}
