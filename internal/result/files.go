package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	fastjson "github.com/go-json-experiment/json"
	"github.com/moby/sys/atomicwriter"
)

// The files of a job and of a trial.
const (
	ResultFile = "result.json"
	ConfigFile = "config.json"
	PlanFile   = "plan.json"
	EventsFile = "events.jsonl"
	ErrorFile  = "error.txt"
	// MergeFile is in jobs that were put together from shards only: which ones.
	MergeFile = "merge.json"
	// OutputsFile has a line for each finished trial (Output), MetadataFile where the job stands (Metadata).
	OutputsFile  = "outputs.jsonl"
	MetadataFile = "metadata.json"
	// SumsFile is in shards only: the digests of their results, in the form of sha256sum, for the merge.
	SumsFile = "SHA256SUMS"
	// SupersededDir is the folder at the top of a job's that holds the folders of trials that a resume ran again. Nothing
	// in it counts.
	SupersededDir = "superseded"
)

// ReservedNames are the names at the top of a job's folder that no agent's folder may have.
var ReservedNames = []string{ResultFile, ConfigFile, PlanFile, EventsFile, MergeFile, OutputsFile, MetadataFile, SumsFile, SupersededDir}

// Marshal is how every result file is written: indented, a final newline, no HTML escapes.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := Encode(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Encode writes what Marshal makes.
func Encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// WriteFile replaces path as a whole or not at all: temporary file, fsync, rename.
func WriteFile(path string, data []byte) error {
	return atomicwriter.WriteFile(path, data, 0o644)
}

// WriteJSON writes v as Marshal does, as a whole or not at all.
func WriteJSON(path string, v any) error {
	data, err := Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return WriteFile(path, data)
}

// Tree is what stands in a job's folder.
type Tree struct {
	Plan   Plan
	Trials []Trial // the folder's own (see Plan.Own) in the plan's order; trials without a result are missing
	// Confirmations are the confirmation attempts that have a result, sorted. They count for little; see Summarize.
	Confirmations []Trial
	// Unreadable says which planned trials have a result file that cannot be used, and why.
	Unreadable []error
}

// ReadTree reads a job's folder: its plan and the result of every trial that has one. It fails
// when there is no plan to read (the folder is no job's, or the job never started).
func ReadTree(dir string) (tree Tree, err error) {
	if tree.Plan, err = ReadPlan(dir); err != nil {
		return tree, err
	}
	tree.Trials, tree.Unreadable = ReadTrials(dir, tree.Plan.Own())
	var unreadable []error
	tree.Confirmations, unreadable = ReadConfirmations(dir, tree.Plan)
	tree.Unreadable = append(tree.Unreadable, unreadable...)
	return tree, nil
}

// ReadConfirmations reads the results of a job's confirmation attempts.
func ReadConfirmations(dir string, plan Plan) (confirmations []Trial, unreadable []error) {
	confirmations, unreadable = ReadTrials(dir, plan.ConfirmationKeys())
	return slices.DeleteFunc(confirmations, func(t Trial) bool { return !t.Confirmation }), unreadable
}

// All are the trials and the confirmation attempts, as Summarize and Groups want them.
func (t Tree) All() []Trial {
	if len(t.Confirmations) == 0 {
		return t.Trials
	}
	return slices.Concat(t.Trials, t.Confirmations)
}

// ReadPlan reads the plan in a job's folder. The error is fs.ErrNotExist where there is none: the folder is no job's.
func ReadPlan(dir string) (plan Plan, err error) {
	data, err := readBounded(filepath.Join(dir, PlanFile), MaxJobFile)
	if err == nil {
		err = parseJSON(filepath.Join(dir, PlanFile), data, &plan)
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return plan, fmt.Errorf("%s is not the folder of a job: it has no %s: %w", dir, PlanFile, fs.ErrNotExist)
		}
		return plan, err
	}
	if err := plan.Check(); err != nil {
		return plan, fmt.Errorf("%s: %w", filepath.Join(dir, PlanFile), err)
	}
	return plan, nil
}

// ReadTrials reads the results of many trials, in the order of their keys. Those without a result are left out; unreadable
// says which results cannot be used, and why.
func ReadTrials(dir string, keys []Key) (trials []Trial, unreadable []error) {
	trials, errs := ReadEachTrial(dir, keys)
	n := 0
	for i, err := range errs {
		switch {
		case err == nil:
			trials[n] = trials[i]
			n++
		case !errors.Is(err, fs.ErrNotExist):
			unreadable = append(unreadable, err)
		}
	}
	clear(trials[n:])
	return trials[:n], unreadable
}

// ReadEachTrial reads the results of trials in a job's folder. Each key has a trial, or else an error: fs.ErrNotExist if
// there is no result, ErrTorn if what is there cannot be read as one.
func ReadEachTrial(dir string, keys []Key) (trials []Trial, errs []error) {
	trials = make([]Trial, len(keys))
	errs = make([]error, len(keys))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(len(keys), 2*runtime.GOMAXPROCS(0)) { // some wait for the disk
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(keys); i = int(next.Add(1)) - 1 {
				path := filepath.Join(dir, filepath.FromSlash(keys[i].Dir()), ResultFile)
				data, err := readBounded(path, MaxTrialFile)
				if err == nil {
					if err = ParseTrial(data, keys[i], &trials[i]); err != nil {
						err = fmt.Errorf("%s: %w", path, err)
					}
				}
				errs[i] = err
			}
		})
	}
	group.Wait()
	return trials, errs
}

// ErrTorn means that a result is no whole one: its writing was cut short, or it was edited.
var ErrTorn = errors.New("not a valid file of this kind (torn or edited?)")

// MaxTrialFile is how large a trial's result.json may be, in bytes: far more than any that is written.
const MaxTrialFile = 16 << 20

// MaxJobFile is how large a job's plan.json and result.json may be, in bytes: a job of a million trials has a tenth of it.
const MaxJobFile = 512 << 20

// readBounded reads a file of a job's folder. What is no file, a pipe say, is not waited for.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is not a file", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: has %d bytes, which no result has", path, info.Size())
	}
	return os.ReadFile(path)
}

// readAtMost reads a file, which may be a link or a pipe that somebody named.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: has more than %d bytes, which no result has", path, limit)
	}
	return data, err
}

// ParseTrial reads the result.json of the trial that key names into a zero Trial. Names of fields count as they are
// written, and none may be there twice.
func ParseTrial(data []byte, key Key, into *Trial) error {
	// A job has up to a hundred thousand results: encoding/json takes twice as long for each.
	if err := fastjson.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if into.Key != key {
		return fmt.Errorf("is the result of %s, not of %s", into.Key, key)
	}
	forgetUnsaid(into)
	into.Key = key // many trials share the names, so that one copy of them is enough
	share(into)
	return nil
}

// share keeps one copy of texts that are the same in many results.
func share(t *Trial) {
	texts := []*string{&t.TaskDigest, &t.AgentDigest, &t.ConfigDigest, &t.TaskFormat}
	if t.TaskGitCommitID != nil {
		texts = append(texts, t.TaskGitCommitID)
	}
	if e := t.Environment; e != nil {
		texts = append(texts, &e.Provider, &e.Image, &e.ImageID)
	}
	for _, text := range texts {
		*text = unique.Make(*text).Value()
	}
}

func parseJSON(path string, data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrTorn, err)
	}
	return nil
}

// ReadJob reads a job's aggregate from its folder or from a result.json. From a folder with a plan it is made anew
// from the trials' results; unreadable has those that could not be read. The error is fs.ErrNotExist where there is nothing.
func ReadJob(path string) (job Job, unreadable []error, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return job, nil, err
	}
	if !info.IsDir() {
		job, err = readJob(path)
		return job, nil, err
	}
	tree, err := ReadTree(path)
	if err == nil {
		return Summarize(tree.Plan, tree.All()), tree.Unreadable, nil
	}
	file := filepath.Join(path, ResultFile)
	if _, statErr := os.Stat(file); !errors.Is(err, fs.ErrNotExist) || statErr != nil {
		return job, nil, err
	}
	job, err = readJob(file)
	return job, nil, err
}

// readJob reads a job's result.json, and tells it from a trial's.
func readJob(path string) (job Job, err error) {
	data, err := readAtMost(path, MaxJobFile)
	if err == nil {
		err = parseJSON(path, data, &job)
	}
	if err != nil {
		return job, err
	}
	if job.JobName == "" || job.Agents == nil {
		return job, fmt.Errorf("%s is not the result.json of a job: it has no job_name or no agents", path)
	}
	forgetUnsaidOfJob(&job)
	return job, nil
}
