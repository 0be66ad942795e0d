// Package library lists directories and archives of jobs, with shards and baselines put together,
// for the viewer, the list of jobs and the history.
package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/output/page"
	"github.com/org/rollout-action/internal/output/viewer"
	"github.com/org/rollout-action/internal/run/job"
)

// Library gives access to the jobs of a directory with the directories and archives in it, to those
// of an archive, or to a single job. It implements viewer.Library.
type Library struct {
	h      *host.Host
	path   string // of the directory of jobs, or of the job
	missed bool   // path does not exist yet, which is no error
	single string // the name of the only job; "": path is a directory of jobs
	packed archives
	file   bool // path is an archive
	kept   listings
	// patience limits how long Jobs reads jobs that it has not read yet; 0: no limit.
	patience time.Duration

	ctx     context.Context //nolint:containedctx // ends with Close
	stop    context.CancelFunc
	reading sync.Mutex // held while the rest of the jobs are read
	readers sync.WaitGroup
}

// firstPatience limits how long the first page of a server waits for the list of jobs. Jobs that
// are read later appear on the next page.
const firstPatience = 400 * time.Millisecond

// OpenLibrary opens a path: a directory of jobs, a job, or an archive with jobs, as workflows keep
// them. byDefault: the user did not name the path, so it may not exist yet. The caller closes the
// library.
func OpenLibrary(h *host.Host, path string, byDefault bool) (*Library, error) {
	quiet := *h
	quiet.Output = noOutput{} // the pages show the messages
	l := &Library{h: &quiet, path: path, missed: byDefault, patience: firstPatience}
	l.ctx, l.stop = context.WithCancel(event.Watch(context.Background(), unwatched))
	switch full := h.Path(path); {
	case isArchive(path) && host.IsFile(full):
		l.file = true
		l.packed.mu.Lock()
		found, err := l.packed.find(full)
		l.packed.mu.Unlock()
		if err != nil {
			return nil, errors.Join(host.Usagef("%w (give an artifact of a workflow as it was downloaded)", err), l.Close())
		}
		if len(found.jobs) == 1 {
			l.single = page.Address(filepath.Base(path))
		}
	case h.HasJob(path):
		absolute, err := filepath.Abs(full)
		if err != nil {
			return nil, err
		}
		l.single = page.Address(filepath.Base(absolute))
	case !host.IsDir(full) && !byDefault:
		return nil, host.Usagef("%s: there is no such directory (give the one with the jobs, or the directory of a job; rollout ls lists jobs)", host.Clean(path))
	}
	return l, nil
}

// Close stops the library's background work and removes unpacked files.
func (l *Library) Close() error {
	l.stop()
	l.readers.Wait()
	return l.packed.close()
}

// Title returns the headline of the library's index.
func (l *Library) Title() string {
	if shown := l.h.Shown(l.path); shown != host.JobsDir {
		return "Jobs in " + shown
	}
	return "Jobs"
}

// NoJobs implements viewer.Library.
func (l *Library) NoJobs() string {
	if l.missed && !host.IsDir(l.h.Path(l.path)) {
		return NoJobsYet(l.path)
	}
	return "There are no jobs in " + l.h.Shown(l.path) + " yet. If jobs_dir in your job file is another directory, name that one."
}

// Single returns the name of the only job; "" if there may be many.
func (l *Library) Single() string { return l.single }

// Jobs implements viewer.Library.
func (l *Library) Jobs(ctx context.Context) ([]page.Listed, error) {
	ctx = event.Watch(ctx, unwatched)
	if l.single != "" && !l.file {
		listed := ListedJob{Dir: l.path, Name: l.single}
		if plan, err := result.ReadPlanHead(l.h.Path(l.path)); err == nil {
			listed.Name, listed.StartedAt, listed.Commit, listed.Shard = cmp.Or(plan.JobName, filepath.Base(l.path)), plan.StartedAt, plan.Commit, plan.Shard
		}
		l.kept.read(&listed, l.h.Paths, time.Time{})
		return []page.Listed{listedOf(foundJob{listed, l.single})}, nil
	}
	var until time.Time
	if l.patience > 0 {
		until = time.Now().Add(l.patience)
	}
	found, err := l.all(ctx, until)
	if err != nil {
		return nil, err
	}
	jobs := make([]page.Listed, len(found))
	for i, job := range found {
		jobs[i] = listedOf(job)
	}
	slices.SortStableFunc(jobs, func(a, b page.Listed) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Name, b.Name)) })
	if slices.ContainsFunc(jobs, func(j page.Listed) bool { return j.State == page.Unread }) {
		l.readRest()
	}
	return withShardSets(jobs, shardSets(found)), nil
}

// foundJob is a job of a library.
type foundJob struct {
	ListedJob
	address string // its name in addresses
}

// all lists all jobs.
func (l *Library) all(ctx context.Context, until time.Time) ([]foundJob, error) {
	if l.file {
		return l.archivedJobs(ctx, l.path, filepath.Base(l.path)), nil
	}
	return l.list(ctx, l.path, nil, until)
}

// list lists the jobs in a directory, in its archives and, if above is empty, in those of its
// directories that are not jobs, as artifacts are. above holds the first elements of their
// addresses.
func (l *Library) list(ctx context.Context, dir string, above []string, until time.Time) ([]foundJob, error) {
	jobs, err := ListJobs(ctx, l.h, JobsRequest{Dir: dir, Default: l.missed, kept: &l.kept, until: until})
	if err != nil || jobs.NoDir {
		return nil, err
	}
	var out []foundJob
	seen := map[string]bool{}
	for _, listed := range jobs.List {
		name := filepath.Base(listed.Dir)
		seen[name] = true
		out = append(out, foundJob{listed, page.Address(append(slices.Clone(above), name)...)})
	}
	entries, err := os.ReadDir(l.h.Path(dir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		names := append(slices.Clone(above), e.Name())
		switch name := e.Name(); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case seen[name] || strings.HasPrefix(name, "."):
		case e.Type().IsRegular() && isArchive(name):
			out = append(out, l.archivedJobs(ctx, filepath.Join(dir, name), names...)...)
		case e.IsDir() && len(above) == 0:
			below, err := l.list(ctx, filepath.Join(dir, name), names, until)
			if err == nil { // other directories are skipped
				out = append(out, below...)
			}
		}
	}
	return out, nil
}

// readRest reads the jobs that a page has not waited for.
func (l *Library) readRest() {
	if !l.reading.TryLock() {
		return
	}
	l.readers.Go(func() {
		defer l.reading.Unlock()
		_, _ = l.all(l.ctx, time.Time{}) // the next page reports the error
	})
}

// listedOf returns the entry of a job in an index.
func listedOf(l foundJob) page.Listed {
	listed := page.Listed{
		Name: l.address, JobName: l.Name, State: cmp.Or(string(l.State), page.Unread), Started: l.StartedAt,
		Trials: l.TotalTrials, Completed: l.CompletedTrials, Failed: l.FailedTrials,
		PassRate: l.PassRate, MeanReward: l.MeanReward, Cost: l.TotalCost, DurationSec: l.DurationSec,
		Verdict: l.Verdict, Reason: cmp.Or(l.Error, l.Reason), Point: l.point,
	}
	if l.Shard != nil {
		listed.Shard = l.Shard.String()
	}
	if l.Commit != nil {
		listed.Commit = *l.Commit
	}
	if l.paired != nil && l.paired.Baseline {
		listed.Point = nil // as in rollout history
	}
	return listed
}

// Open implements viewer.Library.
func (l *Library) Open(ctx context.Context, name string) (*viewer.Job, error) {
	if page.IsShards(name) {
		return l.openShards(event.Watch(ctx, unwatched), name)
	}
	opened, err := l.open(name)
	if err != nil {
		return nil, err
	}
	return &opened.Job, nil
}

// openedJob is an open job whose results can be read from a directory.
type openedJob struct {
	viewer.Job
	dir string
	// prepare writes the results of the trials into dir, if they are not there yet; hide removes
	// the path of that directory from a text.
	prepare func(ctx context.Context) error
	hide    func(string) string
}

// open opens a job of one directory.
func (l *Library) open(name string) (*openedJob, error) {
	names := page.Names(name)
	if len(names) == 0 || slices.ContainsFunc(names, func(s string) bool { return strings.ContainsAny(s, "/\x00") || !filepath.IsLocal(s) }) {
		return nil, fs.ErrNotExist
	}
	switch {
	case l.file && names[0] != filepath.Base(l.path):
		return nil, fs.ErrNotExist
	case l.file:
		return l.openArchived(l.path, names[1:])
	case l.single != "":
		if name != l.single {
			return nil, fs.ErrNotExist
		}
		return l.openDir(l.path)
	}
	return l.openBelow(l.path, names, true)
}

// openBelow opens the job that names select in a directory: its own name, or that of a directory or
// archive followed by its name there.
func (l *Library) openBelow(dir string, names []string, deeper bool) (*openedJob, error) {
	if strings.HasPrefix(names[0], ".") {
		return nil, fs.ErrNotExist
	}
	at := filepath.Join(dir, names[0])
	info, err := os.Lstat(l.h.Path(at))
	switch {
	case err != nil:
	case info.Mode().IsRegular() && isArchive(names[0]):
		return l.openArchived(at, names[1:])
	case info.IsDir() && len(names) == 1 && l.h.HasJob(at):
		return l.openDir(at)
	case info.IsDir() && len(names) > 1 && deeper:
		return l.openBelow(at, names[1:], false)
	}
	return nil, fs.ErrNotExist
}

// openDir opens the directory of a job.
func (l *Library) openDir(dir string) (*openedJob, error) {
	root, err := os.OpenRoot(l.h.Path(dir))
	if err != nil {
		return nil, err
	}
	stored := &storedBase{library: l, dir: dir}
	opened := &openedJob{dir: dir, prepare: func(context.Context) error { return nil }, hide: func(s string) string { return s }, Job: viewer.Job{
		Files: root.FS(), Dir: dir, Running: job.Running(l.h.Path(dir)), Close: func() error { return errors.Join(root.Close(), stored.close()) },
		Input: func(ctx context.Context) (report.Input, error) {
			in, err := l.input(ctx, dir)
			if err == nil {
				err = stored.compare(ctx, &in)
			}
			return in, err
		},
		Base: func() (fs.FS, string) {
			if with := l.baselineDir(dir); with != "" {
				return os.DirFS(l.h.Path(with)), with
			}
			return stored.files(l.ctx)
		},
	}}
	opened.Version = func() string { // another one when the baseline appears
		_, base := opened.Base()
		return viewer.Hashed(opened.Stamp() + base)
	}
	return opened, nil
}

// baselineDir returns the directory of the baseline that the job in dir ran with and is compared
// with, or "".
func (l *Library) baselineDir(dir string) string {
	plan, err := result.ReadPlanHead(l.h.Path(dir))
	if err != nil || plan.Beside == nil || plan.Beside.OnlyConfirms {
		return ""
	}
	return reporting.BaselineDir(l.h.Paths, dir, plan)
}

// input returns the results of a job with its stored verdict, or else with the outcome of its
// gate.
func (l *Library) input(ctx context.Context, dir string) (report.Input, error) {
	ctx = event.Watch(ctx, unwatched)
	if _, err := os.Lstat(filepath.Join(l.h.Path(dir), result.PlanFile)); err != nil {
		summary, err := summaryOf(l.h.Path(dir))
		if err != nil {
			return report.Input{}, err
		}
		return report.Input{Job: summary, Dir: dir, Now: l.h.Now(), Incomplete: []string{"only the " + result.ResultFile + " of the job is here, so its trials are not known"}}, nil
	}
	finished, err := reporting.Report(ctx, l.h, reporting.ReportRequest{Dir: dir, Options: reporting.ReportOptions{GitHub: "off"}, Quiet: true, ReadOnly: true})
	if finished == nil {
		return report.Input{}, cmp.Or(err, fmt.Errorf("%s: there is nothing to show", dir))
	}
	return finished.Input, nil // a job that cannot be judged is shown without a verdict
}

// unwatched ignores the progress of long work, because a browser is waiting for it.
func unwatched(*event.Work) func() { return func() {} }

// noOutput is an Output that discards everything.
type noOutput struct{}

func (noOutput) Line(string) {}

func (noOutput) Warn(string) {}

func (noOutput) Warnings(diag.List) {}

func (noOutput) View(host.View) (event.Sink, func()) { return nil, func() {} }

// listings caches the numbers of listed jobs until their files change. The zero value is ready to
// use; it is safe for concurrent use.
type listings struct {
	mu   sync.Mutex
	jobs map[string]keptListing // by directory
}

type keptListing struct {
	stamp string
	job   ListedJob
}

// read reads a job as ListedJob.read does, unless it is cached and its files have not changed. A
// nil listings caches nothing. Jobs that are not cached are not read after until, unless it is
// zero.
func (k *listings) read(l *ListedJob, paths host.Paths, until time.Time) {
	stamp := ""
	if k != nil {
		stamp = stampOf(paths.Path(l.Dir))
		k.mu.Lock()
		kept, ok := k.jobs[l.Dir]
		k.mu.Unlock()
		if ok && kept.stamp == stamp {
			*l = kept.job
			return
		}
		if l.State == "" && !until.IsZero() && time.Now().After(until) {
			return
		}
	}
	l.withPoint = k != nil
	if err := l.read(paths); err != nil {
		l.State, l.Error = JobUnreadable, err.Error()
	}
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.jobs == nil {
			k.jobs = map[string]keptListing{}
		}
		k.jobs[l.Dir] = keptListing{stamp, *l}
	}
}

// stampOf returns a string that changes whenever the listed data of a job may have changed.
func stampOf(dir string) string {
	stamp := fmt.Sprint(job.Running(dir))
	for _, file := range []string{result.PlanFile, result.ResultFile, result.ConfigFile, result.OutputsFile, result.VerdictFile} {
		if info, err := os.Lstat(filepath.Join(dir, file)); err == nil {
			stamp += fmt.Sprint(" ", info.Size(), " ", info.ModTime().UnixNano())
		} else {
			stamp += " -"
		}
	}
	return stamp
}

// SiteRequest is the request of ExportSite.
type SiteRequest struct {
	Path    string // of jobs, as for OpenLibrary
	Default bool   // the user did not name Path
	To      string // the directory of the site
}

// ExportSite writes jobs as a static site, and returns its number of pages. It returns a UsageError
// if the directory contains anything else.
func ExportSite(ctx context.Context, h *host.Host, req SiteRequest) (viewer.Exported, error) {
	library, err := OpenLibrary(h, req.Path, req.Default)
	if err != nil {
		return viewer.Exported{}, err
	}
	defer library.Close()
	library.patience = 0
	work := event.Begin(ctx, "Writing pages of jobs", 0)
	defer work.End()
	done, err := viewer.Export(ctx, library, library.Title(), h.Path(req.To), h.Now(), work.Step)
	if errors.Is(err, viewer.ErrNotEmpty) {
		return done, host.Usagef("--export %s: %w: give another one, or empty it", host.Clean(req.To), err)
	}
	return done, err
}
