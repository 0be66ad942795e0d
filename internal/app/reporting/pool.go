package reporting

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/plural"
)

// maxPoolTried is the maximum number of earlier jobs that are read on disk, and maxPoolBytes that
// of bytes of earlier results, which all are in memory.
const (
	maxPoolTried = 30
	maxPoolBytes = result.MaxJobFile
)

// maxPoolNamed is the number of runs left out that a sentence names.
const maxPoolNamed = 3

// Pooled returns e, to be compared with as many runs as a policy asks for.
func (e Evaluated) Pooled(p gate.Policy) Evaluated {
	e.pool = p.Baseline.Pool
	return e
}

// pool collects the earlier runs that are a baseline together with the newest (gate.baseline.pool).
type pool struct {
	base  *result.Job
	want  int // together with the newest
	bytes int64
	left  []string // the runs left out, with the reasons
	why   string   // there are no more; "": not known
}

// newPool returns a pool that collects up to want runs with the newest one, base.
func newPool(base *result.Job, want int) *pool {
	p := &pool{base: base, want: want}
	if p.why = base.Partial(); p.why != "" {
		p.why = "no other run can be added, as " + p.why
	}
	return p
}

// full reports whether no more runs are needed or can be used.
func (p *pool) full() bool {
	return p.why != "" || len(p.base.Pool) >= min(p.want, result.MaxPool)-1
}

// add reads an earlier run, and adds it if it can be used. It reports whether more are needed.
func (p *pool) add(name, path string) (more bool) {
	file := path
	if host.IsDir(path) {
		file = filepath.Join(path, result.ResultFile)
	}
	if info, err := os.Stat(file); err == nil {
		p.bytes += info.Size()
	}
	if p.bytes > maxPoolBytes {
		p.why = fmt.Sprintf("their results are more than %d MiB", maxPoolBytes>>20)
		return false
	}
	job, _, err := result.ReadJob(path)
	why := "it cannot be read"
	if err == nil {
		why = cmp.Or(job.Partial(), job.DiffersFrom(p.base))
		for i := range p.base.Pool {
			why = cmp.Or(why, job.DiffersFrom(&p.base.Pool[i])) // a copy of its trials is no other run
		}
	}
	if why == "" {
		p.base.Pool = append(p.base.Pool, job)
	} else {
		p.left = append(p.left, host.Clean(name)+" ("+host.Clean(why)+")")
	}
	return !p.full()
}

// String returns the end of a sentence about the baseline: the earlier runs, those that were left
// out, and why there are fewer than asked for.
func (p *pool) String() string {
	text := ""
	if n := len(p.base.Pool); n > 0 {
		var names []string
		for _, j := range p.base.Pool {
			names = append(names, nameOf(j))
		}
		text = fmt.Sprintf(", together with %s: %s", plural.Count(n, "earlier run"), strings.Join(names, ", "))
	}
	if n := len(p.base.Pool) + 1; n < p.want {
		text += fmt.Sprintf("; gate.baseline.pool asks for %d runs and %d can be used", p.want, n)
		if p.why != "" {
			text += ": " + host.Clean(p.why)
		}
	}
	if n := len(p.left); n > 0 {
		text += "; left out: " + strings.Join(p.left[:min(n, maxPoolNamed)], ", ")
		if n > maxPoolNamed {
			text += fmt.Sprintf(" and %d more", n-maxPoolNamed)
		}
	}
	return text
}

// nameOf returns the commit of a job, or its name if it has none.
func nameOf(j result.Job) string {
	if j.Commit != nil {
		return host.Clean(host.ShortCommit(*j.Commit))
	}
	return host.Clean(j.JobName)
}

// poolOnGitHub adds earlier runs on the branch to a baseline, and returns the end of the sentence
// about it.
func poolOnGitHub(ctx context.Context, client *github.Client, query github.Query, found github.Found, base *result.Job, want int, dir string) string {
	if want < 2 {
		return ""
	}
	p := newPool(base, want)
	if p.full() {
		return p.String()
	}
	err := client.FindEarlier(ctx, query, found, dir, func(f github.Found) bool { return p.add(host.ShortCommit(f.Commit), f.Path) })
	if err != nil {
		p.why = inTime(ctx, err).Error()
	}
	return p.String()
}

// poolOnDisk adds to a baseline the earlier jobs in the directory that contains its own, newest
// first.
func (f Finder) poolOnDisk(source, dir string, base *result.Job, want int) string {
	if want < 2 {
		return ""
	}
	p := newPool(base, want)
	at := filepath.Clean(f.Path(source))
	if !host.IsDir(at) && p.why == "" {
		p.why = "a file is one run; give a job's directory, and those of earlier jobs in the same place are found"
	}
	if p.full() {
		return p.String()
	}
	entries, err := os.ReadDir(filepath.Dir(at))
	if err != nil {
		p.why = err.Error()
	}
	type earlier struct {
		name string
		head result.Job
	}
	var jobs []earlier
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(at), e.Name())
		head, err := result.ReadJobHead(path)
		if err != nil || !e.IsDir() || f.SameJob(path, dir) || !head.StartedAt.Before(base.StartedAt) || head.JobName == "" {
			continue
		}
		jobs = append(jobs, earlier{e.Name(), head})
	}
	slices.SortStableFunc(jobs, func(a, b earlier) int { return b.head.StartedAt.Compare(a.head.StartedAt) })
	for _, j := range jobs[:min(len(jobs), maxPoolTried)] {
		if !p.add(j.name, filepath.Join(filepath.Dir(at), j.name)) {
			break
		}
	}
	return p.String()
}
