package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/page"
	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/viewer"
)

// Library has the jobs of a directory, or a single one. It implements viewer.Library.
type Library struct {
	h      *Host
	path   string // of the directory of jobs, or of the job
	missed bool   // path does not exist yet, which is no error
	single string // the name of the only job; "": path is a directory of jobs
	kept   listings
	// patience is how long Jobs reads jobs that it has not read yet; 0: until all are read.
	patience time.Duration

	ctx     context.Context //nolint:containedctx // ends with Close
	stop    context.CancelFunc
	reading sync.Mutex // held while the rest of the jobs are read
	readers sync.WaitGroup
}

// firstPatience is how long the first page of a server may take to list jobs. Those that are read later come with the next one.
const firstPatience = 400 * time.Millisecond

// OpenLibrary opens what a user names: a directory of jobs, or a job. byDefault: nobody named it, so there may be no jobs yet. The caller
// closes it.
func OpenLibrary(h *Host, path string, byDefault bool) (*Library, error) {
	quiet := *h
	quiet.Output = noOutput{} // the pages say it
	l := &Library{h: &quiet, path: path, missed: byDefault, patience: firstPatience}
	l.ctx, l.stop = context.WithCancel(event.Watch(context.Background(), unwatched))
	switch full := h.Path(path); {
	case h.hasJob(path):
		absolute, err := filepath.Abs(full)
		if err != nil {
			return nil, err
		}
		l.single = filepath.Base(absolute)
	case !isDir(full) && !byDefault:
		return nil, usage("%s: there is no such directory (give the one with the jobs, or the directory of a job)", clean(path))
	}
	return l, nil
}

// Close ends what the library does.
func (l *Library) Close() error {
	l.stop()
	l.readers.Wait()
	return nil
}

// Title returns the headline of the library's index.
func (l *Library) Title() string { return "Jobs in " + l.h.Shown(l.path) }

// Single returns the name of the only job; "" if there may be many.
func (l *Library) Single() string { return l.single }

// Jobs implements viewer.Library.
func (l *Library) Jobs(ctx context.Context) ([]page.Listed, error) {
	ctx = event.Watch(ctx, unwatched)
	if l.single != "" {
		listed := ListedJob{Dir: l.path, Name: l.single}
		if plan, err := result.ReadPlanHead(l.h.Path(l.path)); err == nil {
			listed.Name, listed.StartedAt, listed.Commit, listed.Shard = cmp.Or(plan.JobName, l.single), plan.StartedAt, plan.Commit, plan.Shard
		}
		l.kept.read(&listed, l.h.Paths, time.Time{})
		return []page.Listed{listedOf(listed, l.single)}, nil
	}
	req := JobsRequest{Dir: l.path, Default: l.missed, kept: &l.kept}
	if l.patience > 0 {
		req.until = time.Now().Add(l.patience)
	}
	jobs, err := ListJobs(ctx, l.h, req)
	if err != nil {
		return nil, err
	}
	out, all := make([]page.Listed, len(jobs.List)), true
	for i, listed := range jobs.List {
		out[i] = listedOf(listed, filepath.Base(listed.Dir))
		all = all && listed.State != ""
	}
	if !all {
		l.readRest()
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
		_, _ = ListJobs(l.ctx, l.h, JobsRequest{Dir: l.path, Default: l.missed, kept: &l.kept}) // the next page says what is wrong
	})
}

// listedOf returns a job as an index shows it. name is that of its addresses.
func listedOf(l ListedJob, name string) page.Listed {
	listed := page.Listed{
		Name: name, JobName: l.Name, State: cmp.Or(string(l.State), page.Unread), Started: l.StartedAt,
		Trials: l.TotalTrials, Completed: l.CompletedTrials, Failed: l.FailedTrials,
		PassRate: l.PassRate, MeanReward: l.MeanReward, Cost: l.TotalCost, DurationSec: l.DurationSec,
		Verdict: l.Verdict, Reason: cmp.Or(l.Error, l.Reason),
	}
	if l.Shard != nil {
		listed.Shard = l.Shard.String()
	}
	if l.Commit != nil {
		listed.Commit = *l.Commit
	}
	return listed
}

// Open implements viewer.Library.
func (l *Library) Open(_ context.Context, name string) (*viewer.Job, error) {
	dir := l.path
	switch {
	case l.single != "" && name != l.single, !filepath.IsLocal(name), strings.ContainsAny(name, `/\`), strings.HasPrefix(name, "."):
		return nil, fs.ErrNotExist
	case l.single == "":
		dir = filepath.Join(l.path, name)
		info, err := os.Lstat(l.h.Path(dir))
		if err != nil || !info.IsDir() || !l.h.hasJob(dir) {
			return nil, fs.ErrNotExist
		}
	}
	root, err := os.OpenRoot(l.h.Path(dir))
	if err != nil {
		return nil, err
	}
	return &viewer.Job{
		Files: root.FS(), Dir: dir, Running: job.Running(l.h.Path(dir)), Close: root.Close,
		Input: func(ctx context.Context) (report.Input, error) { return l.input(ctx, dir) },
	}, nil
}

// input returns the results of a job with what its own gate says.
func (l *Library) input(ctx context.Context, dir string) (report.Input, error) {
	ctx = event.Watch(ctx, unwatched)
	if _, err := os.Lstat(filepath.Join(l.h.Path(dir), result.PlanFile)); err != nil {
		summary, err := summaryOf(l.h.Path(dir))
		if err != nil {
			return report.Input{}, err
		}
		return report.Input{Job: summary, Dir: dir, Now: l.h.Now(), Incomplete: []string{"only the " + result.ResultFile + " of the job is here, so its trials are not known"}}, nil
	}
	finished, err := Report(ctx, l.h, ReportRequest{Dir: dir, Options: ReportOptions{GitHub: "off"}, Quiet: true})
	if finished == nil {
		return report.Input{}, cmp.Or(err, fmt.Errorf("%s: there is nothing to show", dir))
	}
	return finished.Input, nil // what cannot be judged is shown without a verdict
}

// unwatched takes no notice of work that takes long: a browser waits for it.
func unwatched(*event.Work) func() { return func() {} }

// noOutput is an Output that forgets everything.
type noOutput struct{}

func (noOutput) Line(string)                    {}
func (noOutput) Warn(string)                    {}
func (noOutput) Warnings(diag.List)             {}
func (noOutput) View(View) (event.Sink, func()) { return nil, func() {} }

// listings keeps the numbers of jobs that were listed, until their files change. Its zero value is ready to use, by several goroutines.
type listings struct {
	mu   sync.Mutex
	jobs map[string]keptListing // by directory
}

type keptListing struct {
	stamp string
	job   ListedJob
}

// read is ListedJob.read for many times. A nil listings keeps nothing. After a time, if one is given, what is not kept is not read.
func (k *listings) read(l *ListedJob, paths Paths, until time.Time) {
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

// stampOf returns a text that changes when what is listed about a job may have changed.
func stampOf(dir string) string {
	stamp := fmt.Sprint(job.Running(dir))
	for _, file := range []string{result.PlanFile, result.ResultFile, result.ConfigFile, result.OutputsFile} {
		if info, err := os.Lstat(filepath.Join(dir, file)); err == nil {
			stamp += fmt.Sprint(" ", info.Size(), " ", info.ModTime().UnixNano())
		} else {
			stamp += " -"
		}
	}
	return stamp
}

// SiteRequest is what ExportSite takes.
type SiteRequest struct {
	Path    string // of jobs, as for OpenLibrary
	Default bool   // nobody named Path
	To      string // the directory of the site
}

// ExportSite writes jobs as a site of files, and returns how many pages it has. It returns a UsageError if something else is in the directory.
func ExportSite(ctx context.Context, h *Host, req SiteRequest) (viewer.Exported, error) {
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
		return done, usage("--export %s: %w: give another one, or empty it", clean(req.To), err)
	}
	return done, err
}
