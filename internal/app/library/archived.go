package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/archive"
	"github.com/org/rollout-action/internal/output/page"
	"github.com/org/rollout-action/internal/output/viewer"
)

// Limits for the results that are unpacked from an archive.
const (
	maxArchivedJobs  = 1000
	maxArchivedFile  = 128 << 20 // bytes of a file of a job
	maxArchivedBytes = 1 << 30   // of all
)

// archives reads jobs from archives. Logs and other files are read in place; results, which other
// code reads from a directory, are unpacked: those of jobs when they are listed, those of trials
// when their job is opened. The zero value is ready to use.
type archives struct {
	mu   sync.Mutex
	temp string                // "": there is none yet
	kept map[string]*inArchive // by path
}

// inArchive holds the jobs of an archive.
type inArchive struct {
	stamp string // of the archive's file
	dir   string // contains a directory per job
	jobs  []archivedJob
	bytes int64 // unpacked so far
	err   error // why it cannot be shown
}

type archivedJob struct {
	name     string // of its directory
	prefix   string // its directory in the archive
	unpacked bool   // the results of its trials were unpacked
}

// isArchive reports whether a file name has the extension of an archive.
func isArchive(name string) bool { return strings.EqualFold(filepath.Ext(name), ".zip") }

// close removes what was unpacked.
func (a *archives) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.temp == "" {
		return nil
	}
	return os.RemoveAll(a.temp)
}

// find returns the jobs of the archive at a path. a.mu is held.
func (a *archives) find(path string) (*inArchive, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	stamp := fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
	if known := a.kept[path]; known != nil && known.stamp == stamp {
		return known, known.err
	}
	opened, err := archive.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if a.temp == "" {
		if a.temp, err = os.MkdirTemp("", "rollout-view-"); err != nil {
			return nil, err
		}
		a.kept = map[string]*inArchive{}
	}
	found := &inArchive{stamp: stamp}
	if found.dir, err = os.MkdirTemp(a.temp, "archive-"); err != nil {
		return nil, err
	}
	for _, prefix := range jobsIn(opened) {
		job := archivedJob{name: page.Address(strings.Split(prefix, "/")...), prefix: prefix}
		if prefix == "." { // it is the only one
			job.name = "job"
		}
		for _, file := range []string{result.PlanFile, result.ResultFile, result.ConfigFile, result.MergeFile, result.VerdictFile} {
			if err := found.unpack(opened, prefix, job.name, file, maxArchivedFile); err != nil {
				a.kept[path] = &inArchive{stamp: stamp, err: err} // it is not unpacked again until it changes
				return nil, errors.Join(err, os.RemoveAll(found.dir))
			}
		}
		found.jobs = append(found.jobs, job)
	}
	a.kept[path] = found
	return found, nil
}

// jobsIn returns the directories of jobs in an archive: those with a plan or, in an archive without
// plans, those with a result other than a trial's. As in directories, hidden entries are skipped,
// and jobs do not nest.
func jobsIn(files fs.FS) []string {
	var plans, results []string
	_ = fs.WalkDir(files, ".", func(file string, e fs.DirEntry, err error) error { // unreadable directories are not jobs
		switch {
		case err != nil:
			return nil //nolint:nilerr // as above
		case e.IsDir() && strings.Count(file, "/") >= 2, e.IsDir() && file != "." && strings.HasPrefix(e.Name(), "."): // directories of agents are below NAME/
			return fs.SkipDir
		case e.Name() == result.PlanFile && e.Type().IsRegular():
			plans = append(plans, path.Dir(file))
		case e.Name() == result.ResultFile && e.Type().IsRegular() && strings.Count(file, "/") <= 1:
			results = append(results, path.Dir(file))
		}
		return nil
	})
	if len(plans) == 0 {
		plans = results
	}
	all := slices.Clone(plans)
	plans = slices.DeleteFunc(plans, func(dir string) bool {
		return slices.ContainsFunc(all, func(above string) bool { return dir != above && (above == "." || strings.HasPrefix(dir, above+"/")) })
	})
	return plans[:min(len(plans), maxArchivedJobs)]
}

// unpack unpacks a file of a job, if it exists.
func (in *inArchive) unpack(opened *archive.Archive, prefix, name, file string, limit int64) error {
	f, err := opened.Open(path.Join(prefix, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	to := filepath.Join(in.dir, name, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	limit = min(limit, maxArchivedBytes-in.bytes)
	n, err := io.Copy(w, io.LimitReader(f, limit+1))
	if in.bytes += n; err == nil && n > limit {
		err = fmt.Errorf("%s is too large for a result", path.Join(prefix, file))
	}
	return errors.Join(err, w.Close())
}

// archivedJobs lists the jobs of an archive. names are the elements of the archive's address.
func (l *Library) archivedJobs(ctx context.Context, file string, names ...string) []foundJob {
	l.packed.mu.Lock()
	found, err := l.packed.find(l.h.Path(file))
	l.packed.mu.Unlock()
	if err == nil && len(found.jobs) == 0 {
		err = errors.New("there is no job in this archive")
	}
	var jobs Jobs
	if err == nil {
		jobs, err = ListJobs(ctx, l.h, JobsRequest{Dir: found.dir, kept: &l.kept})
	}
	archive := page.Address(names...)
	if err != nil {
		return []foundJob{{ListedJob{Name: names[len(names)-1], State: JobUnreadable, Error: err.Error()}, archive}}
	}
	var out []foundJob
	for _, listed := range jobs.List {
		address := archive
		if len(found.jobs) > 1 {
			address += "~" + filepath.Base(listed.Dir)
		}
		out = append(out, foundJob{listed, address})
	}
	return out
}

// openArchived opens a job of an archive; inner are its names there, none for the only one.
func (l *Library) openArchived(file string, inner []string) (*openedJob, error) {
	l.packed.mu.Lock()
	defer l.packed.mu.Unlock()
	found, err := l.packed.find(l.h.Path(file))
	if err != nil {
		return nil, err
	}
	i := 0
	if len(inner) > 0 || len(found.jobs) != 1 {
		i = found.index(page.Address(inner...))
	}
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	job := &found.jobs[i]
	opened, err := archive.Open(l.h.Path(file))
	if err != nil {
		return nil, err
	}
	below, err := fs.Sub(opened, job.prefix)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	shown := path.Join(filepath.ToSlash(l.h.Shown(file)), job.prefix)
	dir := filepath.Join(found.dir, job.name)
	stored := &storedBase{library: l, dir: dir}
	base := func() (fs.FS, string) {
		i := found.index(filepath.Base(l.baselineDir(dir)))
		if i < 0 {
			return stored.files(l.ctx)
		}
		files, err := fs.Sub(opened, found.jobs[i].prefix)
		if err != nil {
			return nil, ""
		}
		return files, path.Join(path.Dir(shown), path.Base(found.jobs[i].prefix))
	}
	hide := func(s string) string { // the directory it was unpacked to
		return strings.ReplaceAll(strings.ReplaceAll(s, dir, shown), found.dir, path.Dir(shown))
	}
	prepare := func(ctx context.Context) error { return l.packed.unpackTrials(ctx, found, job, opened) }
	input := func(ctx context.Context) (report.Input, error) {
		if err := prepare(ctx); err != nil {
			return report.Input{}, err
		}
		if err := l.unpackBaseline(ctx, found, dir, opened); err != nil {
			return report.Input{}, err
		}
		in, err := l.input(ctx, dir)
		if err == nil {
			err = stored.compare(ctx, &in)
		}
		in.Dir = shown
		hideIn(&in, hide)
		if in.BaseFiles != nil && stored.found == nil { // of it, only results were unpacked
			in.BaseFiles, _ = base()
		}
		return in, err
	}
	return &openedJob{viewer.Job{Files: below, Dir: shown, Close: func() error { return errors.Join(opened.Close(), stored.close()) }, Base: base, Input: input}, dir, prepare, hide}, nil
}

// hideIn removes from a report the directory into which its results were unpacked.
func hideIn(in *report.Input, hide func(string) string) {
	in.Baseline, in.BaseDir = hide(in.Baseline), hide(in.BaseDir)
	for _, sentences := range [][]string{in.Notes, in.Incomplete} {
		for i := range sentences {
			sentences[i] = hide(sentences[i])
		}
	}
}

// index returns the index of the job with a name; -1 if there is none.
func (in *inArchive) index(name string) int {
	return slices.IndexFunc(in.jobs, func(j archivedJob) bool { return j.name == name })
}

// unpackBaseline unpacks the trial results of the baseline that ran with the job in dir, if the
// archive contains it.
func (l *Library) unpackBaseline(ctx context.Context, in *inArchive, dir string, opened *archive.Archive) error {
	plan, err := result.ReadPlanHead(dir)
	if err != nil {
		return nil //nolint:nilerr // whoever reads the job says so
	}
	i := in.index(filepath.Base(reporting.BaselineDir(l.h.Paths, dir, plan)))
	if i < 0 {
		return nil
	}
	return l.packed.unpackTrials(ctx, in, &in.jobs[i], opened)
}

// unpackTrials unpacks the results of a job's trials, once.
func (a *archives) unpackTrials(ctx context.Context, in *inArchive, job *archivedJob, opened *archive.Archive) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if job.unpacked {
		return nil
	}
	plan, err := result.ReadPlan(filepath.Join(in.dir, job.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if plan.Shard != nil { // whoever puts shards together checks them
		if err := in.unpack(opened, job.prefix, job.name, result.SumsFile, maxArchivedFile); err != nil {
			return err
		}
	}
	for _, key := range slices.Concat(plan.Own().Slice(), plan.ConfirmationKeys()) {
		err := in.unpack(opened, job.prefix, job.name, key.Dir()+"/"+result.ResultFile, result.MaxTrialFile)
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
	}
	job.unpacked = true
	return nil
}
