package viewer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/output/page"
)

// Library lists and opens jobs. It is safe for concurrent use.
type Library interface {
	// Jobs returns all jobs, the newest first.
	Jobs(ctx context.Context) ([]page.Listed, error)
	// NoJobs says what to do if there are no jobs.
	NoJobs() string
	// Open opens the job of a name that Jobs returns; the error is fs.ErrNotExist if there is none.
	// The caller closes it.
	Open(ctx context.Context, name string) (*Job, error)
}

// Job is an open job. It may be used until it is closed, by one goroutine at a time.
type Job struct {
	Files   fs.FS  // its directory
	Dir     string // as it is shown to people
	Running bool
	// Input returns all results with their verdict.
	Input func(ctx context.Context) (report.Input, error)
	// Base returns the directory of the baseline, which ran with the job or is another job of the
	// library, and the name to show for it; nil, also as a function: there is none.
	Base  func() (files fs.FS, dir string)
	Close func() error
	// Parts are the shards that are shown as this one job; zero: it is one directory. Then DirOf
	// returns the directory of the shard that has a trial, as it is shown to people.
	Parts page.Parts
	DirOf func(trial string) string
	// Version returns a text that changes when the pages of the job do; nil: Stamp does.
	Version func() string
}

// version returns a text that changes when another trial has a result, or the job ends or is
// judged.
func (j *Job) version() string {
	if j.Version != nil {
		return j.Version()
	}
	return j.Stamp()
}

// Stamp returns a text that changes when the files of the job's own directory do, and when it ends.
func (j *Job) Stamp() string {
	return j.stamp(result.PlanFile, result.ResultFile, result.OutputsFile, result.ConfigFile, result.MergeFile, result.VerdictFile)
}

// stamp returns a text that changes when a file does, or the job ends.
func (j *Job) stamp(files ...string) string {
	var b strings.Builder
	fmt.Fprint(&b, j.Running)
	for _, file := range files {
		if info, err := fs.Lstat(j.Files, file); err == nil {
			fmt.Fprint(&b, " ", info.Size(), " ", info.ModTime().UnixNano())
		} else {
			b.WriteString(" -")
		}
	}
	return Hashed(b.String())
}

// Hashed returns a text as an entity tag.
func Hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// input returns the input of the pages of single trials.
func (j *Job) input() report.Input { return report.Input{Files: j.Files, Dir: j.Dir} }

// missing says whether the trial in a directory of the job has a result, without reading it.
func (j *Job) missing(dir string) (page.NoResult, error) {
	_, err := fs.Lstat(j.Files, dir+"/"+result.ResultFile)
	if !errors.Is(err, fs.ErrNotExist) {
		return page.HasResult, err
	}
	if _, err := keyOf(dir); err != nil {
		return "", err
	}
	if j.Running {
		return page.Runs, nil
	}
	info, err := fs.Lstat(j.Files, dir)
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	return page.Lost, err
}

// trial reads the result of the trial in a directory of the job. Without a result, it returns a
// trial that has only a key, and why.
func (j *Job) trial(dir string) (t result.Trial, missing page.NoResult, err error) {
	if t, _, err = j.parse(dir, result.MaxTrialFile); !errors.Is(err, fs.ErrNotExist) {
		return t, page.HasResult, err
	}
	if missing, err = j.missing(dir); err != nil || missing == page.HasResult {
		return t, missing, cmp.Or(err, fs.ErrNotExist)
	}
	t.Key, err = keyOf(dir)
	return t, missing, err
}

// parse reads the result of the trial in a directory, of at most limit bytes. size is how many
// bytes it read.
func (j *Job) parse(dir string, limit int64) (t result.Trial, size int64, err error) {
	data, err := j.read(dir+"/"+result.ResultFile, limit)
	size = int64(len(data))
	if err != nil {
		return t, size, err
	}
	var key result.Key
	if err := bounded.Unmarshal(data, &key); err != nil {
		return t, size, fmt.Errorf("%s: %w", dir, err)
	}
	if key.Dir() != dir {
		return t, size, fs.ErrNotExist // it is not where results are
	}
	err = result.ParseTrial(data, key, &t)
	return t, size, err
}

// keyOf returns the key of a trial as far as its directory tells: names that are not plain differ.
func keyOf(dir string) (k result.Key, err error) {
	parts := strings.Split(dir, "/")
	i := strings.LastIndex(parts[len(parts)-1], "__")
	if len(parts) != 3 || i < 0 {
		return k, fs.ErrNotExist
	}
	n, err := strconv.Atoi(parts[2][i+2:])
	k = result.Key{Agent: parts[0], Dataset: parts[1], Task: parts[2][:i], Attempt: n}
	if err != nil || k.Dir() != dir {
		return k, fs.ErrNotExist
	}
	return k, nil
}

// read reads a file of at most limit bytes. It follows no link.
func (j *Job) read(file string, limit int64) ([]byte, error) {
	f, _, err := report.Open(j.input(), file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", file, limit)
	}
	return data, err
}
