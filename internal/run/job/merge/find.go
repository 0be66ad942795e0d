package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
)

const (
	maxLevels   = 3       // below a given directory; each artifact is downloaded into a separate directory
	maxVisited  = 200_000 // entries of directories that are searched for shards
	maxArchives = 2       // within each other: an artifact is a zip that may have a tar in it
)

// shardDir is a shard's directory. plan has only the fields that result.ReadPlanHead reads.
type shardDir struct {
	dir   string
	label string // for messages: the path as it was given, and the path in an archive
	from  string // its directory, or the archive that it was in
	plan  result.Plan
	index int // from 1
	total int // 1 for a job that was run whole
	state state
}

// name returns the shard for messages, such as "2/4".
func (p *shardDir) name() string { return result.Shard{Index: p.index, Total: p.total}.String() }

// state is how a shard's run ended, according to its result.json.
type state int

const (
	unfinished state = iota // no result.json can be read: the run was killed or is still running
	cancelled
	complete
)

// find returns the shards in all given paths. It refuses paths without any.
func (m *merge) find(ctx context.Context) ([]*shardDir, error) {
	f := finder{merge: m, seen: map[string]bool{}}
	for _, path := range m.opts.Paths {
		if err := f.path(ctx, path); err != nil {
			return nil, err
		}
	}
	if len(f.found) == 0 {
		if len(m.damaged) > 0 {
			return nil, job.Refuse("no shard was found: %s", untrusted.Names(m.damaged))
		}
		return nil, job.Refuse("no shard was found in %s (a shard's directory has a %s; directories are searched %d levels down)",
			strings.Join(m.opts.Paths, ", "), result.PlanFile, maxLevels)
	}
	return f.found, nil
}

type finder struct {
	*merge
	seen  map[string]bool // directories and archives that were searched, in case one is given twice
	found []*shardDir
	in    string // the outermost archive that is being searched; "" for none
}

// path searches a given path, which may be a link.
func (f *finder) path(ctx context.Context, path string) error {
	real, err := filepath.EvalSymlinks(f.opts.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return job.Refuse("%s: there is no such directory or archive", path)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return f.searchDir(ctx, real, path, 0, 0)
	case archiveKind(real) == "":
		return job.Refuse("%s: is neither a directory nor an archive (.tar, .tar.gz, .tgz, .zip)", path)
	}
	return f.archive(ctx, real, path, 0)
}

// damagedInput adds a note about input that cannot be merged.
func (f *finder) damagedInput(format string, args ...any) {
	f.note(format+": download it again", args...)
	f.damage(format, args...)
}

// maxDamaged limits the sentences about damaged input.
const maxDamaged = 10

// damage adds a sentence about damaged input. It is reported if a shard is missing, because it may
// be the reason.
func (f *finder) damage(format string, args ...any) {
	if len(f.damaged) < maxDamaged {
		f.damaged = append(f.damaged, untrusted.Line(fmt.Sprintf(format+": download it again", args...)))
	}
}

// searchDir adds a directory if it is a shard's, and searches below it if not.
func (f *finder) searchDir(ctx context.Context, dir, label string, level, archives int) error {
	if f.seen[dir] {
		return nil
	}
	f.seen[dir] = true
	if info, err := os.Lstat(filepath.Join(dir, result.PlanFile)); err == nil && info.Mode().IsRegular() {
		return f.tree(dir, label)
	}
	if level == maxLevels {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for shards: %w", err)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if f.visited++; f.visited > maxVisited {
			return job.Refuse("%s: more than %d files and directories were searched for shards: name the directories of the shards", label, maxVisited)
		}
		path, shown := filepath.Join(dir, e.Name()), filepath.Join(label, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."): // drafts of other merges, for example
		case e.IsDir():
			err = f.searchDir(ctx, path, shown, level+1, archives)
		case e.Type().IsRegular() && archiveKind(path) != "" && archives < maxArchives:
			err = f.archive(ctx, path, shown, archives)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// archive unpacks an archive and searches its content. If it cannot be unpacked, it adds a note:
// the shard in it is missing then.
func (f *finder) archive(ctx context.Context, path, label string, archives int) error {
	if f.seen[path] {
		return nil
	}
	f.seen[path] = true
	if archives == 0 {
		f.in = path
		defer func() { f.in = "" }()
	}
	scratch, err := f.draftDir()
	if err != nil {
		return err
	}
	f.unpacks++
	dir := filepath.Join(scratch, fmt.Sprint("archive-", f.unpacks))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	err = f.unpack(ctx, path, dir)
	var local *fs.PathError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &local):
		return fmt.Errorf("unpack %s: %w", label, err) // a full disk, say
	case err != nil:
		f.damagedInput("%s cannot be unpacked, so nothing in it is merged: %v", label, err)
		return os.RemoveAll(dir)
	}
	before := len(f.found)
	if err := f.searchDir(ctx, dir, label, 0, archives+1); err != nil {
		return err
	}
	if len(f.found) == before { // that is fine unless a shard is missing
		f.damage("%s has no shard in it", label)
	}
	return nil
}

// tree adds a shard's directory.
func (f *finder) tree(dir, label string) error {
	head, err := result.ReadPlanHead(dir)
	if err != nil {
		f.damagedInput("%s is not merged: its %s cannot be read: %v", label, result.PlanFile, err)
		return nil
	}
	p := &shardDir{dir: dir, label: label, from: cmp.Or(f.in, dir), plan: head, index: 1, total: 1}
	if s := head.Shard; s != nil {
		p.index, p.total = s.Index, s.Total
	}
	if p.total < 1 || p.total > result.MaxShards || p.index < 1 || p.index > p.total {
		return job.Refuse("%s: there is no shard %s (at most %d): download it again", label, p.name(), result.MaxShards)
	}
	if head.Digest == "" {
		return job.Refuse("%s: its %s has no digest: it was not made by this version of rollout", label, result.PlanFile)
	}
	var said result.Job
	p.state, said = stateOf(dir)
	if p.state != unfinished && !p.same(said) {
		f.damagedInput("%s is not merged: its %s and its %s contradict each other", label, result.PlanFile, result.ResultFile)
		return nil
	}
	if p.state != unfinished && head.Checksums && !p.hasSums() {
		f.damagedInput("not merged: %s", noSums(label))
		return nil
	}
	f.found = append(f.found, p)
	return nil
}

// same reports whether the plan and the result of a shard are about the same run. Only one shard's
// plan is compared with its digest: plans are large.
func (p *shardDir) same(job result.Job) bool {
	sameShard := (p.plan.Shard == nil) == (job.Shard == nil) && (job.Shard == nil || *job.Shard == *p.plan.Shard)
	return sameShard && job.PlanDigest == p.plan.Digest && job.JobName == p.plan.JobName &&
		job.StartedAt.Equal(p.plan.StartedAt) && commitOf(result.Plan{Commit: job.Commit}) == commitOf(p.plan)
}

// stateOf returns how a shard ended, and the beginning of its result.
func stateOf(dir string) (state, result.Job) {
	job, err := result.ReadJobHead(dir)
	switch {
	case err != nil || job.PlanDigest == "": // missing, torn, or something else
		return unfinished, job
	case job.Cancelled || job.SkippedTrials > 0:
		return cancelled, job
	}
	return complete, job
}
