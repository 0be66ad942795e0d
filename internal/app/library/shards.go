package library

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
	"github.com/org/rollout-action/internal/output/viewer"
	"github.com/org/rollout-action/internal/run/job/merge"
)

// shardSet groups the shards of one job, which a library shows as one.
type shardSet struct {
	address string
	all     []foundJob // all directories of shards, by number; of several with one number the best is first, as in merge
	shards  []foundJob // the first of each number
}

// setKey holds the properties that all shards of one job share.
type setKey struct {
	name, digest, split, commit, paired string
	total                               int
	baseline, pair                      bool
}

// setKeyOf returns the key of a job's set; false if the job is not a shard with a plan.
func setKeyOf(job foundJob) (key setKey, ok bool) {
	if job.Shard == nil || job.digest == "" || job.Shard.Total > result.MaxShards || job.Shard.Index < 1 || job.Shard.Index > job.Shard.Total {
		return key, false
	}
	key = setKey{name: job.Name, digest: job.digest, split: job.split, total: job.Shard.Total}
	if job.Commit != nil {
		key.commit = *job.Commit
	}
	if b := job.paired; b != nil {
		key.pair, key.baseline, key.paired = true, b.Baseline, b.JobName+" "+b.Commit
	}
	return key, true
}

// shardSets returns the jobs with at least two shards and no merge among jobs.
func shardSets(jobs []foundJob) []shardSet {
	sets := map[setKey][]foundJob{}
	merged := map[setKey]bool{}
	var order []setKey
	for _, job := range jobs {
		key, ok := setKeyOf(job)
		switch {
		case ok && len(sets[key]) == 0:
			order = append(order, key)
			fallthrough
		case ok:
			sets[key] = append(sets[key], job)
		case job.Shard == nil && job.digest != "":
			merged[setKey{name: job.Name, digest: job.digest}] = true
		}
	}
	var out []shardSet
	for _, key := range order {
		all := sets[key]
		slices.SortStableFunc(all, func(a, b foundJob) int {
			return cmp.Or(cmp.Compare(a.Shard.Index, b.Shard.Index), compareDone(a, b), b.StartedAt.Compare(a.StartedAt), cmp.Compare(a.address, b.address))
		})
		shards := slices.CompactFunc(slices.Clone(all), func(a, b foundJob) bool { return a.Shard.Index == b.Shard.Index })
		if len(shards) < 2 || merged[setKey{name: key.name, digest: key.digest}] {
			continue
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%#v", key))
		out = append(out, shardSet{page.ShardsAddress(result.Slug(key.name), fmt.Sprintf("%x", sum[:4])), all, shards})
	}
	return out
}

func compareDone(a, b foundJob) int {
	done := func(j foundJob) int {
		if j.State == JobDone {
			return 0
		}
		return 1
	}
	return cmp.Compare(done(a), done(b))
}

// parts returns the shards of a set for pages.
func (s shardSet) parts() page.Parts {
	parts := page.Parts{Total: s.all[0].Shard.Total}
	for _, shard := range s.shards {
		parts.List = append(parts.List, page.Part{Number: shard.Shard.Index, Name: shard.address})
	}
	return parts
}

// listed returns the entry of a set in an index, with the totals of its shards.
func (s shardSet) listed() page.Listed {
	first := listedOf(s.shards[0])
	out := page.Listed{Name: s.address, JobName: first.JobName, Commit: first.Commit, Started: first.Started, Parts: s.parts(), State: string(JobDone)}
	var ended time.Time
	var rate, reward float64
	evaluated := 0
	state := func(now string) { // the first of these states that a shard has is that of the set
		order := []string{string(JobUnreadable), page.Unread, string(JobRunning), page.PartOnly, string(JobDone)}
		if !slices.Contains(order, now) {
			now = page.PartOnly
		}
		out.State = order[min(slices.Index(order, now), slices.Index(order, out.State))]
	}
	if len(s.shards) < out.Parts.Total {
		state(page.PartOnly)
	}
	for _, shard := range s.shards {
		one := listedOf(shard)
		state(one.State)
		out.Trials, out.Completed, out.Failed, out.Cost = out.Trials+one.Trials, out.Completed+one.Completed, out.Failed+one.Failed, out.Cost.Plus(one.Cost)
		if one.PassRate != nil && one.MeanReward != nil {
			evaluated += shard.evaluated
			rate, reward = rate+*one.PassRate*float64(shard.evaluated), reward+*one.MeanReward*float64(shard.evaluated)
		}
		if one.Started.Before(out.Started) {
			out.Started = one.Started
		}
		if end := one.Started.Add(time.Duration(one.DurationSec * float64(time.Second))); end.After(ended) {
			ended = end
		}
	}
	if evaluated > 0 {
		out.PassRate, out.MeanReward = new(rate/float64(evaluated)), new(reward/float64(evaluated))
	}
	out.DurationSec = max(ended.Sub(out.Started).Seconds(), 0)
	if b := s.all[0].paired; out.State == string(JobDone) && !(b != nil && b.Baseline) {
		out.Point = s.point()
	}
	return out
}

// point returns the point of the whole job in its history, without a verdict: that is only known
// when its page is made. It is nil if a shard says nothing about how agents do.
func (s shardSet) point() *history.Point {
	var whole result.Job
	for i, shard := range s.shards {
		if shard.part == nil {
			return nil
		}
		if i == 0 {
			whole = *shard.part
			whole.Results = whole.Results.Clone()
			continue
		}
		whole.Results.AppendAll(shard.part.Results)
		if shard.part.StartedAt.Before(whole.StartedAt) {
			whole.StartedAt = shard.part.StartedAt
		}
	}
	whole.Results.Sort()
	return new(history.PointOf(whole, "", ""))
}

// withShardSets inserts each set before the first of its shards.
func withShardSets(jobs []page.Listed, sets []shardSet) []page.Listed {
	for _, set := range sets {
		i := slices.IndexFunc(jobs, func(j page.Listed) bool {
			return slices.ContainsFunc(set.all, func(s foundJob) bool { return s.address == j.Name })
		})
		jobs = slices.Insert(jobs, max(i, 0), set.listed())
	}
	return jobs
}

// openShards opens the shards of a job as one.
func (l *Library) openShards(ctx context.Context, address string) (*viewer.Job, error) {
	found, err := l.all(ctx, time.Unix(0, 0)) // unread jobs are not needed here
	if err != nil {
		return nil, err
	}
	sets := shardSets(found)
	i := slices.IndexFunc(sets, func(s shardSet) bool { return s.address == address })
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	opened, err := l.openSet(sets[i])
	if err != nil {
		return nil, err
	}
	base := &openedSet{close: func() error { return nil }}
	paired := sets[i].all[0].paired
	if b := slices.IndexFunc(sets, func(s shardSet) bool { return baselineOf(s.all[0], sets[i].all[0]) }); b >= 0 {
		if base, err = l.openSet(sets[b]); err != nil {
			return nil, errors.Join(err, opened.close())
		}
	}
	out := &viewer.Job{
		Files: opened.files, Dir: opened.shown(), DirOf: opened.dirOf, Running: opened.running, Parts: sets[i].parts(), Version: opened.version,
		Close: func() error { return errors.Join(opened.close(), base.close()) },
		Input: func(ctx context.Context) (report.Input, error) {
			return l.inputOfSet(event.Watch(ctx, unwatched), opened, base)
		},
	}
	if len(base.jobs) > 0 && !paired.OnlyConfirms {
		out.Base = func() (fs.FS, string) { return base.files, base.shown() }
	}
	return out, nil
}

// baselineOf reports whether a job is the baseline that ran with another one.
func baselineOf(base, head foundJob) bool {
	a, b := base.paired, head.paired
	return a != nil && b != nil && a.Baseline && !b.Baseline && a.Commit == b.Commit && a.JobName == head.Name && b.JobName == base.Name && base.Shard.Total == head.Shard.Total
}

// openedSet holds the open shards of a job.
type openedSet struct {
	jobs    []*openedJob // all of shardSet.all
	files   *shardFiles
	running bool
	merged  func() (*merge.Shards, error)
	close   func() error
}

func (l *Library) openSet(set shardSet) (*openedSet, error) {
	out := &openedSet{}
	out.close = func() (err error) {
		for _, job := range out.jobs {
			err = errors.Join(err, job.Close())
		}
		return err
	}
	for _, shard := range set.all {
		opened, err := l.open(shard.address)
		if err != nil {
			return nil, errors.Join(err, out.close())
		}
		out.jobs = append(out.jobs, opened)
		out.running = out.running || opened.Running
	}
	out.merged = sync.OnceValues(func() (*merge.Shards, error) {
		opts := merge.Options{Base: l.h.Dir}
		for _, job := range out.jobs {
			opts.Paths = append(opts.Paths, job.dir)
		}
		return merge.Open(opts)
	})
	out.files = &shardFiles{out}
	return out, nil
}

// at returns the job in a directory known to merge.
func (s *openedSet) at(dir string) *openedJob {
	return s.jobs[slices.IndexFunc(s.jobs, func(j *openedJob) bool { return j.dir == dir })]
}

// shown returns the common name of the directories of the shards.
func (s *openedSet) shown() string {
	shown := s.jobs[0].Dir
	for _, job := range s.jobs[1:] {
		for shown != "." && shown != "/" && job.Dir != shown && !strings.HasPrefix(job.Dir, shown+"/") {
			shown = path.Dir(shown)
		}
	}
	return shown
}

// dirOf returns the name of the directory of the shard that contains a trial.
func (s *openedSet) dirOf(trial string) string {
	if job := s.files.of(trial); job != nil {
		return job.Dir
	}
	return s.shown()
}

func (s *openedSet) version() string {
	var b strings.Builder
	for _, job := range s.jobs {
		b.WriteString(job.Dir + " " + job.Stamp() + "\n")
	}
	return viewer.Hashed(b.String())
}

// read reads and merges the results of all shards.
func (s *openedSet) read(ctx context.Context) (merge.Result, *merge.Shards, error) {
	for _, job := range s.jobs {
		if err := job.prepare(ctx); err != nil {
			return merge.Result{}, nil, err
		}
	}
	shards, err := s.merged()
	if err != nil {
		return merge.Result{}, nil, s.hidden(err)
	}
	read, err := shards.Read(ctx)
	return read, shards, s.hidden(err)
}

// hide removes the directories into which archives were unpacked from a text.
func (s *openedSet) hide(text string) string {
	for _, job := range s.jobs {
		text = job.hide(text)
	}
	return text
}

func (s *openedSet) hidden(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(s.hide(err.Error()))
}

// inputOfSet returns the results of a job's shards as a report on the merged job has them, compared
// with the shards of the baseline that ran with it. It writes nothing.
func (l *Library) inputOfSet(ctx context.Context, set, base *openedSet) (report.Input, error) {
	read, shards, err := set.read(ctx)
	if err != nil {
		return report.Input{}, err
	}
	end := reporting.Ending{Tree: &read.Tree, Incomplete: read.Incomplete, Notes: read.Notes, Quiet: true, ReadOnly: true, Together: true}
	if len(base.jobs) > 0 {
		was, _, err := base.read(ctx)
		if err != nil {
			end.Incomplete = append(end.Incomplete, host.Clean("the baseline that ran with this job cannot be put together: "+err.Error()))
		} else {
			end.Beside = &was.Tree
			for _, sentence := range was.Incomplete {
				end.Incomplete = append(end.Incomplete, "baseline: "+sentence)
			}
			if !read.Tree.Plan.Beside.OnlyConfirms {
				end.Baseline = &reporting.FoundBaseline{Job: &was.Job, Sentence: base.shown() + reporting.EvaluatedBy(was.Job)}
			}
		}
	}
	finished, err := reporting.Finish(ctx, l.h, shards.First, reporting.ReportOptions{GitHub: "off"}, end)
	if finished == nil {
		return report.Input{}, cmp.Or(err, fmt.Errorf("%s: there is nothing to show", set.shown()))
	}
	in := finished.Input
	in.Dir, in.Files = set.shown(), set.files
	if in.Diff != nil && len(base.jobs) > 0 {
		in.BaseFiles, in.BaseDir = base.files, base.shown()
	}
	hideIn(&in, func(s string) string { return base.hide(set.hide(s)) })
	return in, nil
}

// shardFiles presents the files of several shards as one directory: the files of each trial from
// its shard, and at the top those of the first shard, except for the outputs, which are
// concatenated.
type shardFiles struct{ set *openedSet }

// of returns the shard that contains a trial, or nil.
func (f *shardFiles) of(trial string) *openedJob {
	shards, err := f.set.merged()
	if err != nil {
		return nil
	}
	if i := shards.Of(trial); i >= 0 {
		return f.set.at(shards.Dirs[i])
	}
	return nil
}

// selected returns the shards that count, beginning with the one that provides the job's own files.
func (f *shardFiles) selected() []*openedJob {
	shards, err := f.set.merged()
	if err != nil {
		return nil
	}
	out := []*openedJob{f.set.at(shards.First)}
	for _, dir := range shards.Dirs {
		if dir != shards.First {
			out = append(out, f.set.at(dir))
		}
	}
	return out
}

// having returns the shards that may contain a file.
func (f *shardFiles) having(name string) []*openedJob {
	if parts := strings.SplitN(name, "/", 4); len(parts) >= 3 {
		if job := f.of(strings.Join(parts[:3], "/")); job != nil {
			return []*openedJob{job}
		}
		return nil
	}
	return f.selected()
}

// firstOf returns the result of get for the first shard that has the file.
func firstOf[T any](f *shardFiles, op, name string, get func(fs.FS) (T, error)) (T, error) {
	for _, job := range f.having(name) {
		if out, err := get(job.Files); !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
	}
	var none T
	return none, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Open implements fs.FS.
func (f *shardFiles) Open(name string) (fs.File, error) {
	if name == result.OutputsFile {
		return f.outputs()
	}
	return firstOf(f, "open", name, func(files fs.FS) (fs.File, error) { return files.Open(name) })
}

// Lstat implements fs.ReadLinkFS.
func (f *shardFiles) Lstat(name string) (fs.FileInfo, error) {
	return firstOf(f, "lstat", name, func(files fs.FS) (fs.FileInfo, error) { return fs.Lstat(files, name) })
}

// ReadLink implements fs.ReadLinkFS.
func (f *shardFiles) ReadLink(name string) (string, error) {
	return firstOf(f, "readlink", name, func(files fs.FS) (string, error) { return fs.ReadLink(files, name) })
}

// ReadDir implements fs.ReadDirFS. Above trials, it returns the union of the shards' entries.
func (f *shardFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	err := error(&fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist})
	for _, job := range f.having(name) {
		entries, readErr := fs.ReadDir(job.Files, name)
		if readErr == nil {
			out, err = append(out, entries...), nil
		}
	}
	slices.SortStableFunc(out, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return slices.CompactFunc(out, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() }), err
}

// outputs opens the concatenated outputs of all shards.
func (f *shardFiles) outputs() (fs.File, error) {
	out := &chained{}
	for _, job := range f.selected() {
		file, size, err := report.Open(report.Input{Files: job.Files}, result.OutputsFile)
		if err != nil {
			continue
		}
		info, err := file.Stat()
		if err != nil {
			_ = file.Close()
			continue
		}
		out.FileInfo = info
		out.files, out.readers, out.size = append(out.files, file), append(out.readers, file), out.size+size
	}
	if len(out.files) == 0 {
		return nil, &fs.PathError{Op: "open", Path: result.OutputsFile, Err: fs.ErrNotExist}
	}
	out.Reader = io.MultiReader(out.readers...)
	return out, nil
}

// chained concatenates files. FileInfo is that of the last.
type chained struct {
	fs.FileInfo
	io.Reader
	files   []fs.File
	readers []io.Reader
	size    int64
}

// Stat implements fs.File.
func (c *chained) Stat() (fs.FileInfo, error) { return c, nil }

// Size implements fs.FileInfo.
func (c *chained) Size() int64 { return c.size }

// Close implements fs.File.
func (c *chained) Close() (err error) {
	for _, file := range c.files {
		err = errors.Join(err, file.Close())
	}
	return err
}

var _ fs.ReadLinkFS = (*shardFiles)(nil)
