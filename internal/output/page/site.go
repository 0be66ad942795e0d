package page

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/prompt"
)

// Site makes the pages of many jobs, which link to each other: an index, a page for each job, a
// page for each trial. All links are relative, so a site may be below any address:
//
//	index.html
//	job/NAME/index.html
//	job/NAME/t/AGENT/DATASET/TASK__N/index.html
//	log/NAME/AGENT/DATASET/TASK__N/FILE   a part of a file as a page (only Live)
//	raw/NAME/AGENT/DATASET/TASK__N/FILE   the file (only Live)
type Site struct {
	// Live: a server makes the pages when they are asked for, so they can show every byte of every
	// file. Otherwise they are files, and links name index.html.
	Live bool
	// Detail bounds the bytes of the logs and the conversation on the page of a trial; 0: what a
	// browser shows at once.
	Detail int
	// NoTrials: trials have no pages.
	NoTrials bool
	// NoJobs is what an index says that has no jobs.
	NoJobs string
	// prompts are those of a job (SharePrompts); nil: each page reads its files
	prompts *prompt.Prompts
	// Parts are the shards that the page of a job puts together; zero: it is the page of one
	// directory.
	Parts Parts
	// LeftOut names what the input of the page of a trial does not have.
	LeftOut []string
	// Now is when the site is made, for pages that are files.
	Now time.Time
}

// Beginning is what each page begins with.
const Beginning = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"rollout\">\n"

// The directories of a site.
const (
	JobPages   = "job"
	TrialPages = "t"
	LogPages   = "log"
	RawFiles   = "raw"
)

// Bounds of the pages of a site.
const (
	maxSiteRows  = 10_000
	siteDetail   = 12 << 20 // bytes of logs and conversation: a half of it is a conversation, about 1,000 long turns
	maxListed    = 5000     // jobs
	maxSiteFiles = 2000
	logPage      = 256 << 10
)

// Listed is a job in an index.
type Listed struct {
	Name    string // in addresses: that of its directory or archive
	JobName string
	State   string // done, running, cancelled, stopped, killed, unreadable, PartOnly or Unread
	NoPage  bool
	Shard   string // "1/4"; "": it is a whole job
	Parts   Parts  // of shards that are shown as one job
	Commit  string
	Started time.Time

	Trials, Completed, Failed int
	PassRate, MeanReward      *float64
	Cost                      result.USD
	DurationSec               float64

	Verdict gate.Outcome
	Reason  string // of the verdict, or why the job is unreadable
	// Point is the job in its history; nil if it says nothing about how agents do.
	Point *history.Point
}

// PartOnly is the state of shards that are shown as one job, if not all of them are there and done.
const PartOnly = "incomplete"

// Unread is the state of a job that was not read yet. A live index is loaded again when it was.
const Unread = "not read yet"

// indexPage is a view of an index.
type indexPage struct {
	head
	Title   string
	Rows    []indexRow
	States  []string
	Trends  []Trend
	LeftOut string
	Made    string
	NoJobs  string
}

type indexRow struct {
	Href, Name, JobName, Shard, Commit string
	Parts                              string
	State, Verdict, Reason             string
	Started, StartedSort               string
	Trials                             string
	Rate, Reward, Cost, Time           Cell
}

// WriteIndex writes the index of jobs. version is a text that changes with them; only a live site
// has one.
func (s *Site) WriteIndex(w io.Writer, title string, jobs []Listed, version string) error {
	title = name(title)
	p := indexPage{head: newHead(title, version), Title: title, Made: s.made(), NoJobs: oneLine(cmp.Or(s.NoJobs, "There are no jobs."))}
	seen := map[string]bool{}
	for _, job := range jobs[:min(len(jobs), maxListed)] {
		r := s.indexRow(job)
		if !seen[r.State] {
			seen[r.State] = true
			p.States = append(p.States, r.State)
		}
		p.Rows = append(p.Rows, r)
	}
	if more := len(jobs) - len(p.Rows); more > 0 {
		p.LeftOut = report.Plural(more, "older job")
	}
	var points []history.Point
	for _, job := range jobs {
		if job.Point != nil {
			points = append(points, *job.Point)
		}
	}
	p.Trends = trendsOf(points)
	return templates.ExecuteTemplate(w, "index.html", p)
}

func (s *Site) indexRow(job Listed) indexRow {
	r := indexRow{
		Href: s.page(JobPages + "/" + url.PathEscape(job.Name)), Name: shownName(job.Name), JobName: name(job.JobName), Shard: job.Shard,
		Commit: cut(job.Commit, 12), State: job.State, Verdict: string(job.Verdict), Reason: oneLine(job.Reason),
		Trials: report.Count(job.Completed) + "/" + report.Count(job.Trials), Started: "–", StartedSort: "0",
		Rate: Cell{Text: "–", Sort: "-1"}, Reward: Cell{Text: "–", Sort: "-1"}, Cost: Cell{Text: "–", Sort: "-1"}, Time: Cell{Text: "–", Sort: "-1"},
	}
	if job.State == Unread {
		r.Trials = "–"
	}
	if job.NoPage {
		r.Href = ""
	}
	if job.Parts.Total > 0 {
		r.Parts, r.Name = job.Parts.Says(), r.JobName
	}
	if r.JobName == r.Name {
		r.JobName = ""
	}
	if !job.Started.IsZero() {
		r.Started, r.StartedSort = job.Started.UTC().Format("2006-01-02 15:04"), strconv.FormatInt(job.Started.Unix(), 10)
	}
	number := func(v float64, text string) Cell { return Cell{Text: text, Sort: strconv.FormatFloat(v, 'g', 6, 64)} }
	if job.PassRate != nil {
		r.Rate = number(*job.PassRate, report.Percent(*job.PassRate))
	}
	if job.MeanReward != nil {
		r.Reward = number(*job.MeanReward, report.Number(*job.MeanReward))
	}
	if usd, ok := job.Cost.Reported(); ok {
		r.Cost = number(usd, report.Cost(job.Cost))
	}
	if job.DurationSec > 0 {
		r.Time = number(job.DurationSec, report.Duration(job.DurationSec))
	}
	return r
}

// WriteJob writes the page of a job whose trials have pages. job is its name in addresses, and
// version as in WriteIndex.
func (s *Site) WriteJob(w io.Writer, in report.Input, job, version string) error {
	cases := report.Cases(in)
	d := detail{rows: maxSiteRows, pages: s}
	if version != "" {
		d.running = &in
	}
	p := build(in, cases, d)
	p.Up, p.version = []Link{{"All jobs", s.up(2)}}, version
	if version != "" {
		p.running(in)
	}
	if s.Parts.Total > 0 {
		p.Shards = s.Parts.Says()
		for _, part := range s.Parts.List {
			p.Parts = append(p.Parts, Link{fmt.Sprintf("%d/%d", part.Number, s.Parts.Total), "../" + url.PathEscape(part.Name) + "/" + s.index()})
		}
	}
	if s.NoTrials {
		p.LeftOut = append(p.LeftOut, "the pages of "+report.Plural(len(in.Trials), "trial")+", which are in "+cmp.Or(name(in.Dir), "the job's directory"))
	}
	return templates.ExecuteTemplate(w, "page.html", frame{newHead(p.Title+" · "+cmp.Or(p.Job, shownName(job)), version), p})
}

// running removes from the page of a running job the parts that apply only to an ended one: the
// verdict and the notes on missing parts.
func (p *Page) running(in report.Input) {
	done := in.Job.TotalTrials - in.Job.SkippedTrials
	p.Title, p.Mark = fmt.Sprintf("⏳ Running: %s of %s %s a result", report.Count(done), report.Plural(in.Job.TotalTrials, "trial"), plural.Have(done)), "running"
	p.Missing, p.Gate, p.PartNote, p.Checks = nil, "", "", nil
	for i := range p.Facts {
		if p.Facts[i].Name == notRun {
			p.Facts[i].Name = "No result yet"
		}
	}
}

// The states of a trial without a result while its job runs.
const (
	stateRuns  = "running"
	stateWaits = "waiting"
)

// pendingState returns whether a trial without a result has begun.
func pendingState(in report.Input, key result.Key) string {
	if report.IsDir(in, key.Dir()) {
		return stateRuns
	}
	return stateWaits
}

// trials returns links to the pages of trials. A live site has pages of trials that run, too.
func (s *Site) trials(cases []report.Case) map[result.Key]string {
	hrefs := map[result.Key]string{}
	if s.NoTrials {
		return hrefs
	}
	for _, c := range cases {
		for _, a := range c.Attempts() {
			if a.Trial.There() || s.Live {
				hrefs[c.Key(a)] = s.page(TrialPages + "/" + escape(c.Key(a).Dir()))
			}
		}
	}
	return hrefs
}

// File is a file of a trial.
type File struct {
	Name, Size string
	Log, Raw   string // addresses
}

// trialPage is a view of a trial alone.
type trialPage struct {
	head
	Trial
	Up   []Link
	Made string
	Runs string // why there is no result; "": there is one
}

// NoResult says why a trial has no result.
type NoResult string

// The reasons.
const (
	HasResult NoResult = ""
	Runs      NoResult = "This trial has no result yet: it runs, or waits."
	Lost      NoResult = "This trial has no result: it never ran, or was lost."
)

// SharePrompts reads the files that the prompts of a job share once for the pages of all of its
// trials, which come next.
func (s *Site) SharePrompts(in report.Input) { s.prompts = prompt.New(in) }

// WriteTrial writes the page of a trial. Of a trial without a result, only the key has to be known.
func (s *Site) WriteTrial(w io.Writer, in report.Input, t result.Trial, job, version string, missing NoResult) error {
	detail := cmp.Or(s.Detail, siteDetail)
	v := trial(in, t, "trial", detail, true)
	v.Open, v.LeftOut = true, append(v.LeftOut, s.LeftOut...)
	prompts := s.prompts
	if prompts == nil {
		prompts = prompt.New(in)
	}
	v.addPrompt(prompts.Below(in.Dir), in, t, detail/3)
	if missing != HasResult {
		v.State, v.Summary = "skipped", ""
	}
	if missing == Runs {
		v.State = pendingState(in, t.Key)
	}
	root := s.up(6)
	if s.Live {
		for i := range v.Logs {
			v.Logs[i].Href = s.below(root, LogPages, job, t.Dir()+"/"+v.Logs[i].file)
		}
		more := false
		if v.Files, more = s.files(in, t.Dir(), job); more {
			v.LeftOut = append(v.LeftOut, "all files but the first "+report.Count(maxSiteFiles))
		}
	}
	title := v.Task + " · " + v.Agent + " · attempt " + strconv.Itoa(v.Attempt)
	p := trialPage{
		head: newHead(title, version), Trial: v, Made: s.made(), Runs: string(missing),
		Up: []Link{{"All jobs", root}, {shownName(job), s.up(4)}},
	}
	return templates.ExecuteTemplate(w, "trialpage.html", p)
}

// files lists the files of a trial, and reports whether there are more.
func (s *Site) files(in report.Input, dir, job string) (out []File, more bool) {
	if in.Files == nil {
		return nil, false
	}
	root := s.up(6)
	_ = fs.WalkDir(in.Files, dir, func(file string, e fs.DirEntry, err error) error { // what cannot be read is not listed
		switch {
		case err != nil && file == dir:
			return err
		case err != nil && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		case len(out) == maxSiteFiles:
			more = true
			return fs.SkipAll
		}
		f := File{Name: cut(strings.TrimPrefix(file, dir+"/"), 400), Raw: s.below(root, RawFiles, job, file)}
		f.Log = s.below(root, LogPages, job, file)
		if info, err := e.Info(); err == nil {
			f.Size = Bytes(info.Size())
		}
		out = append(out, f)
		return nil
	})
	return out, more
}

// LogPart is a part of a file.
type LogPart struct {
	Text []byte
	From int64 // where Text begins in the file
	Size int64 // of the file
}

// LogPage is how many bytes of a file a page shows.
const LogPage = logPage

// logView is a view of a part of a file.
type logView struct {
	head
	Name, Where              string
	Lines                    [][]untrusted.Span
	First, Prev, Next, Final string // addresses; "": this is the first part, or the last
	Raw                      string
	Up                       []Link
}

// WriteLog writes a part of a file of a trial as a page. dir is the trial's directory, and file is
// below the job's.
func (s *Site) WriteLog(w io.Writer, part LogPart, job, dir, file, version string) error {
	depth := 1 + strings.Count(file, "/") + 1
	root := strings.Repeat("../", depth)
	shown := cut(strings.TrimPrefix(file, dir+"/"), 400)
	to := part.From + int64(len(part.Text))
	v := logView{
		head: newHead(shown+" · "+name(path.Base(dir)), version), Name: shown,
		Where: fmt.Sprintf("Bytes %s to %s of %s", report.Count(int(part.From)), report.Count(int(to)), report.Count(int(part.Size))),
		Lines: untrusted.Styled(string(part.Text)), Raw: s.below(root, RawFiles, job, file),
		Up: []Link{{"All jobs", root}, {shownName(job), root + JobAddress(job)}, {name(path.Base(dir)), root + JobAddress(job) + TrialPages + "/" + escape(dir) + "/"}},
	}
	if part.From > 0 {
		v.First, v.Prev = "?from=0", "?from="+strconv.FormatInt(max(part.From-logPage, 0), 10)
	}
	if to < part.Size {
		v.Next, v.Final = "?from="+strconv.FormatInt(to, 10)+"&exact", "?from="+strconv.FormatInt(max(part.Size-logPage, 0), 10)
	}
	return templates.ExecuteTemplate(w, "log.html", v)
}

// JobAddress returns the address of a job's page below that of the index.
func JobAddress(job string) string { return JobPages + "/" + url.PathEscape(job) + "/" }

// page returns the address of a page below this one.
func (s *Site) page(below string) string { return "./" + below + "/" + s.index() }

// up returns the address of the page that is levels directories above this one.
func (s *Site) up(levels int) string { return strings.Repeat("../", levels) + s.index() }

// below returns the address of a file of a job.
func (s *Site) below(root, kind, job, file string) string {
	return root + kind + "/" + url.PathEscape(job) + "/" + escape(file)
}

func (s *Site) index() string {
	if s.Live {
		return ""
	}
	return "index.html"
}

// made says when a page that is a file was made.
func (s *Site) made() string {
	if s.Live || s.Now.IsZero() {
		return ""
	}
	return s.Now.UTC().Format("2006-01-02 15:04") + " UTC"
}

// escape escapes the elements of a path for an address.
func escape(file string) string {
	parts := strings.Split(file, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// Bytes formats a number of bytes with a unit.
func Bytes(n int64) string {
	switch {
	case n < 10_000:
		return report.Count(int(n)) + " bytes"
	case n < 10_000_000:
		return report.Count(int(n/1000)) + " kB"
	}
	return report.Count(int(n/1_000_000)) + " MB"
}
