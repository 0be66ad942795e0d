package viewer

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
)

// Bounds of the other attempts at a task that the page of one of them chooses from, those of the
// job and those of its baseline each.
const (
	maxAttempts     = 50
	maxAttemptBytes = result.MaxTrialFile // of their results together
)

// attempts lists attempts at a task without reading them.
type attempts struct {
	job  *Job // nil: there are none
	dirs []string
	more int // attempts that are not in dirs
}

// attempts lists the attempts at the task of the trial in dir, up to maxAttempts, and leaves out
// the attempt of that number.
func (j *Job) attempts(dir string, without int) attempts {
	parent, name := path.Split(dir)
	parent = path.Clean(parent)
	i := strings.LastIndex(name, "__")
	if i < 0 || !report.IsDir(j.input(), parent) {
		return attempts{}
	}
	entries, err := fs.ReadDir(j.Files, parent)
	if err != nil {
		return attempts{}
	}
	var numbers []int
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), name[:i+2])
		if n, err := strconv.Atoi(number); ok && err == nil && n != without && e.IsDir() && strconv.Itoa(n) == number {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	a := attempts{job: j}
	for _, n := range numbers[:min(len(numbers), maxAttempts)] {
		a.dirs = append(a.dirs, path.Join(parent, name[:i+2]+strconv.Itoa(n)))
	}
	a.more = len(numbers) - len(a.dirs)
	return a
}

// version returns a text that changes when what a page may show of the attempts does.
func (a attempts) version() string {
	if a.job == nil {
		return ""
	}
	var files []string
	for _, dir := range a.dirs {
		files = append(files, dir+"/"+result.ResultFile, dir+"/"+result.ATIFFile)
	}
	return strings.Join(a.dirs, " ") + " " + strconv.Itoa(a.more) + " " + a.job.stamp(files...)
}

// read reads the results of the attempts, up to the first that passed. Those that cannot be read
// are left out; left is how many were not read otherwise.
func (a attempts) read() (trials []result.Trial, left int) {
	room := int64(maxAttemptBytes)
	for _, dir := range a.dirs {
		file := dir + "/" + result.ResultFile
		info, err := fs.Lstat(a.job.Files, file)
		if err != nil {
			continue
		}
		if info.Size() > room {
			left++
			continue
		}
		t, size, err := a.job.parse(dir, room)
		if room -= size; err != nil {
			continue
		}
		if trials = append(trials, t); t.Passed() && !t.Confirmation {
			return trials, 0
		}
	}
	return trials, left + a.more
}

// comparison holds the attempts with which the page of a trial may compare it.
type comparison struct {
	job     *Job
	dir     string // of the trial
	others  attempts
	base    *Job // the baseline; nil: there is none
	baseDir string
	ofBase  attempts
}

// compare returns what the page of the trial in a directory may show.
func (j *Job) compare(dir string) comparison {
	c := comparison{job: j, dir: dir}
	if k, err := keyOf(dir); err == nil {
		c.others = j.attempts(dir, k.Attempt)
	}
	if j.Base == nil {
		return c
	}
	files, shown := j.Base()
	if files == nil {
		return c
	}
	c.base, c.baseDir = &Job{Files: files}, shown
	c.ofBase = c.base.attempts(dir, 0)
	return c
}

// version returns a text that changes when the page does.
func (c comparison) version() string {
	own := append(c.job.trialFiles(c.dir), c.dir+"/"+result.ATIFFile)
	return Hashed(strings.Join([]string{strings.Join(own, " "), c.job.stamp(own...), c.others.version(), c.baseDir, c.ofBase.version()}, "\n"))
}

// input returns the input of the trial's page: its files, the trial, and the attempt that it is
// compared with, if there is one. leftOut says which attempts were not considered for that. Only
// one attempt is shown, so those of the job are read only if the baseline has none.
func (c comparison) input(t result.Trial, missing page.NoResult) (in report.Input, leftOut []string) {
	in = c.job.input()
	if c.job.DirOf != nil {
		in.Dir = c.job.DirOf(c.dir)
	}
	var own []result.Trial
	if missing == page.HasResult {
		own = []result.Trial{t}
	}
	in.Trials = result.PackAll(own)
	say := func(left int, noun, of string) {
		if left > 0 {
			leftOut = append(leftOut, report.Plural(left, noun)+of+", whose results were not read to choose the one that is side by side with this one")
		}
	}
	if c.base != nil {
		trials, left := c.ofBase.read()
		diff := result.Compare(summaryOf(trials), summaryOf(own))
		in.Diff, in.BaseFiles, in.BaseDir = &diff, c.base.Files, c.baseDir
		say(left, "attempt", " of the baseline")
		if _, ok := in.BaseOf(t); ok {
			return in, leftOut
		}
	}
	trials, left := c.others.read()
	in.Trials = result.PackAll(append(own, trials...))
	say(left, "other attempt", "")
	return in, leftOut
}

// summaryOf sums up a few trials.
func summaryOf(trials []result.Trial) result.Job {
	var plan result.Plan
	for _, t := range trials {
		if !t.Confirmation {
			plan.Trials.Append(t.Key)
		}
	}
	return result.Summarize(plan, trials)
}
