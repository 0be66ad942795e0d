package result

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/moby/sys/atomicwriter"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// The files of a job and of a trial.
const (
	ResultFile = "result.json"
	ConfigFile = "config.json"
	PlanFile   = "plan.json"
	EventsFile = "events.jsonl"
	ErrorFile  = "error.txt"
	// MergeFile is only in merged jobs and lists their shards.
	MergeFile = "merge.json"
	// OutputsFile has a line for each finished trial (Output), MetadataFile the progress of the job
	// (Metadata).
	OutputsFile  = "outputs.jsonl"
	MetadataFile = "metadata.json"
	// SumsFile is only in shards. It has the digests of their results, in the format of sha256sum,
	// for the merge.
	SumsFile = "SHA256SUMS"
	// SupersededDir, below the job's directory, has the directories of trials that a resume ran
	// again. Nothing in it counts.
	SupersededDir = "superseded"
	// LockFile is in a job's directory while it runs. Artifacts leave out names that begin with a
	// dot.
	LockFile = ".rollout.lock"
)

// The other entries of a trial's directory. The first three directories have a StdoutFile and a
// StderrFile.
const (
	SetupDir    = "setup"               // of the agent's install script
	CommandDir  = "command"             // of the agent's execute script, or of the solution
	VerifierDir = LogsDir + "/verifier" // of the verifier, with the other files that it left
	LogsDir     = "logs"                // the environment's /logs
	// ServicesDir has the log of each service of the environment, named like it with LogSuffix, and
	// in VerifierServices those of the environment that only the tests have.
	ServicesDir      = "services"
	VerifierServices = "verifier"
	LogSuffix        = ".log"
	// ArtifactsDir has the files that the task wants to keep.
	ArtifactsDir = "artifacts"
	// LinksDir has the links of artifacts, in a file for each artifact that has some.
	LinksDir = "artifact-links"
	// EntriesDir has the owners, modes, times and names of artifacts, in a file with a line for
	// each file or directory.
	EntriesDir = "artifact-entries"
	// TrajectoryFile has a line for each call of the agent's model, if the agent has one of the
	// job's models.
	TrajectoryFile = "trajectory.jsonl"
	// CallCostsFile has the tokens and the cost of each call instead, if calls are not recorded
	// (record: none): they count for the job's budget should the trial be killed.
	CallCostsFile = "costs.jsonl"
	// ATIFFile has the same as one trajectory in a format that other tools read.
	ATIFFile = "trajectory.json"

	// JudgesDir has a directory for each judge, named like it, and JudgeInputsDir. A judge's
	// directory has a CommandDir and the other files of an agent, the prompt, and the verdict as
	// the judge gave it.
	JudgesDir      = "judges"
	JudgeInputsDir = JudgesDir + "/inputs" // the evidence for judges
	// JudgeTranscriptFile is in JudgeInputsDir: the transcript of the agent.
	JudgeTranscriptFile = "transcript.md"
	// JudgeInstructionFile and JudgeChangesFile are there, too: the agent's instruction, and the
	// list of files that it has changed.
	JudgeInstructionFile = "instruction.md"
	JudgeChangesFile     = "changes.txt"

	JudgePromptFile = "prompt.md"
	// VerdictFile is a judge's verdict as it gave it, in its directory; in a job's directory it is
	// the verdict on the job (Verdict).
	VerdictFile = "verdict.json"
	// JudgedFile records the outcome of a judge, in its directory.
	JudgedFile = "judged.json"
	// GroupFile is a judge's ranking of the trials of a task, in its directory.
	GroupFile = "group.json"
	// UnjudgedFile is the trial as it was when its judges began: judges that are owed continue from
	// it.
	UnjudgedFile = JudgesDir + "/trial.json"

	StdoutFile = "stdout.txt"
	StderrFile = "stderr.txt"
)

// ReservedNames are the names in a job's directory that no agent's directory may have.
var ReservedNames = []string{ResultFile, ConfigFile, PlanFile, EventsFile, MergeFile, OutputsFile, MetadataFile, VerdictFile, SumsFile, SupersededDir}

// Marshal encodes v as every result file is written: indented, with a final newline, without HTML
// escapes.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := Encode(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// WriteFile replaces path atomically: temporary file, fsync, rename.
func WriteFile(path string, data []byte) error {
	return atomicwriter.WriteFile(path, data, 0o644)
}

// WriteFrom replaces path atomically with the output of write. If write fails, or path is anything
// but a regular file, it stays as it is.
func WriteFrom(path string, write func(io.Writer) error) (err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), draftPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	if err := errors.Join(write(draft), draft.Chmod(0o644), draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}

// draftPrefix begins the names of temporary files. Source: github.com/moby/sys/atomicwriter.
const draftPrefix = ".tmp-"

// IsDraft reports whether a file is a temporary one of WriteFile or WriteFrom, which a killed
// process may leave.
func IsDraft(e fs.DirEntry) bool {
	return strings.HasPrefix(e.Name(), draftPrefix) && e.Type().IsRegular()
}

// WriteJSON encodes v as Marshal does, and replaces path atomically.
func WriteJSON(path string, v any) error {
	data, err := Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return WriteFile(path, data)
}

// Tree is the content of a job's directory.
type Tree struct {
	Plan   Plan
	Trials []Trial // those of Plan.Own that have a result, in the plan's order
	// Confirmations are the confirmation attempts that have a result, sorted. Summarize documents
	// where they count.
	Confirmations []Trial
	// Unreadable holds an error for each planned trial whose result file cannot be used.
	Unreadable []error
}

// PackedTree is a Tree in little memory, for all that counts the trials of a large job.
type PackedTree struct {
	Plan          Plan
	Trials        []Packed // as Tree.Trials
	Confirmations []Trial
	Unreadable    []error
}

// Summarize returns what Summarize and Groups do.
func (t PackedTree) Summarize() (Job, []Group) { return summarize(t.Plan, t) }

// ReadTree reads a job's directory: its plan and the result of every trial that has one. It fails
// if there is no plan (the directory is not a job's, or the job never started).
func ReadTree(dir string) (tree Tree, err error) {
	if tree.Plan, err = ReadPlan(dir); err != nil {
		return tree, err
	}
	tree.Trials, tree.Unreadable = ReadTrials(dir, tree.Plan.Own().Slice())
	var unreadable []error
	tree.Confirmations, unreadable = ReadConfirmations(dir, tree.Plan)
	tree.Unreadable = append(tree.Unreadable, unreadable...)
	return tree, nil
}

// ReadPackedTree reads the same as ReadTree, and packs the trials: a large job has many.
func ReadPackedTree(dir string) (tree PackedTree, err error) {
	if tree.Plan, err = ReadPlan(dir); err != nil {
		return tree, err
	}
	keys := tree.Plan.Own()
	packed, errs := make([]Packed, keys.Len()), make([]error, keys.Len())
	readEach(dir, keys, func() func(int, *Trial, error) {
		var p Packer
		return func(i int, t *Trial, err error) {
			if errs[i] = err; err == nil {
				packed[i] = p.Pack(t)
			}
		}
	})
	tree.Trials, tree.Unreadable = readable(packed, errs)
	Compress(tree.Trials)
	var unreadable []error
	tree.Confirmations, unreadable = ReadConfirmations(dir, tree.Plan)
	tree.Unreadable = append(tree.Unreadable, unreadable...)
	return tree, nil
}

// ReadConfirmations reads the results of a job's confirmation attempts. Most of their keys have
// none: a plan names up to MaxConfirmations for each task.
func ReadConfirmations(dir string, plan Plan) (confirmations []Trial, unreadable []error) {
	var mu sync.Mutex
	found, errs := map[int]*Trial{}, map[int]error{}
	readEach(dir, KeysOf(plan.ConfirmationKeys()...), func() func(int, *Trial, error) {
		return func(i int, t *Trial, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil && t.Confirmation {
				found[i] = t
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs[i] = err
			}
		}
	})
	for _, i := range slices.Sorted(maps.Keys(found)) {
		confirmations = append(confirmations, *found[i])
	}
	for _, i := range slices.Sorted(maps.Keys(errs)) {
		unreadable = append(unreadable, errs[i])
	}
	return confirmations, unreadable
}

// All returns the trials and the confirmation attempts, as Summarize and Groups take them.
func (t Tree) All() []Trial {
	if len(t.Confirmations) == 0 {
		return t.Trials
	}
	return slices.Concat(t.Trials, t.Confirmations)
}

// ReadPlan reads the plan in a job's directory. The error is fs.ErrNotExist if there is none: the
// directory is not a job's.
func ReadPlan(dir string) (plan Plan, err error) {
	data, err := readBounded(filepath.Join(dir, PlanFile), MaxJobFile)
	if err == nil {
		err = parseJSON(filepath.Join(dir, PlanFile), data, &plan)
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return plan, fmt.Errorf("%s is not the directory of a job: it has no %s: %w", dir, PlanFile, fs.ErrNotExist)
		}
		return plan, err
	}
	if err := plan.Check(); err != nil {
		return plan, fmt.Errorf("%s: %w", filepath.Join(dir, PlanFile), err)
	}
	return plan, nil
}

// ReadTrials returns the results of many trials, in the order of their keys. Those without a result
// are left out; unreadable has an error for each result that cannot be used.
func ReadTrials(dir string, keys []Key) (trials []Trial, unreadable []error) {
	return readable(ReadEachTrial(dir, keys))
}

// readable moves the trials without an error to the front and returns them, and the errors of those
// that have a result.
func readable[T any](trials []T, errs []error) (_ []T, unreadable []error) {
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

// ReadEachTrial reads the results of trials in a job's directory. For each key it returns a trial
// or an error: fs.ErrNotExist if there is no result, ErrTorn if the file is not a valid one.
func ReadEachTrial(dir string, keys []Key) (trials []Trial, errs []error) {
	trials = make([]Trial, len(keys))
	errs = make([]error, len(keys))
	readEach(dir, KeysOf(keys...), func() func(int, *Trial, error) {
		return func(i int, t *Trial, err error) {
			if errs[i] = err; err == nil {
				trials[i] = *t
			}
		}
	})
	return trials, errs
}

// readEach reads the results of trials in a job's directory, several at a time. worker is called
// once for each goroutine that reads, and returns the function that takes its results: the index of
// a key, and a trial or an error.
func readEach(dir string, keys Keys, worker func() func(i int, t *Trial, err error)) {
	var next atomic.Int64
	var group sync.WaitGroup
	var above sync.Map                                   // errors of the directories above trials
	for range min(keys.Len(), 2*runtime.GOMAXPROCS(0)) { // more than processors, because some wait for the disk
		use := worker()
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < keys.Len(); i = int(next.Add(1)) - 1 {
				key := keys.At(i)
				path := filepath.Join(dir, filepath.FromSlash(key.Dir()), ResultFile)
				data, err := []byte(nil), plainTrial(dir, key, &above)
				if err == nil {
					data, err = readBounded(path, MaxTrialFile)
				}
				var t Trial
				if err == nil {
					if err = ParseTrial(data, key, &t); err != nil {
						err = fmt.Errorf("%s: %w", path, err)
					}
				}
				use(i, &t, err)
			}
		})
	}
	group.Wait()
}

// plainTrial returns an error if a directory on the way from a job's to a trial's, or the trial's
// own, is a link or not a directory: a log there is not read either. above caches the errors of
// directories that many trials share.
func plainTrial(dir string, key Key, above *sync.Map) error {
	below := key.Dir()
	for i := range len(below) {
		if below[i] != '/' {
			continue
		}
		known, ok := above.Load(below[:i])
		if !ok {
			known = plainDir(filepath.Join(dir, below[:i]))
			above.Store(below[:i], known)
		}
		if err, _ := known.(error); err != nil {
			return err
		}
	}
	return plainDir(filepath.Join(dir, below))
}

func plainDir(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: is a link or no directory, so nothing in it is read", path)
	}
	return err
}

// ErrTorn means that a result file is not valid: it is incomplete, or it was edited.
var ErrTorn = errors.New("not a valid file of this kind (torn or edited?)")

// MaxTrialFile bounds the size of a trial's result.json, in bytes. It is far above the size of any
// that is written.
const MaxTrialFile = 16 << 20

// MaxJobFile bounds the size of a job's plan.json and result.json, in bytes. The result of a job of
// a million trials takes two thirds of it.
const MaxJobFile = 512 << 20

// readBounded reads a regular file in a job's directory. It does not open anything else, such as a
// pipe, which might block.
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

// ParseTrial parses the result.json of the trial with this key into a zero Trial. Names of fields
// are case-sensitive, and none may occur twice.
func ParseTrial(data []byte, key Key, into *Trial) error {
	// A job has up to a hundred thousand results: encoding/json takes twice as long for each.
	if err := bounded.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if into.Key != key {
		return fmt.Errorf("is the result of %s, not of %s", into.Key, key)
	}
	forgetUnsaid(into)
	restoreBounds(into)
	into.Key = key // many trials share these names; one copy is enough
	share(into)
	return nil
}

// share replaces texts that many results have in common with one copy.
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
	if err := bounded.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrTorn, err)
	}
	return nil
}

// ReadJob returns a job's aggregate from its directory or from a result.json. For a directory with
// a plan it is computed from the trials' results; unreadable has an error for each that cannot be
// used. The error is fs.ErrNotExist if there is nothing.
func ReadJob(path string) (job Job, unreadable []error, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return job, nil, err
	}
	if !info.IsDir() {
		job, err = readJob(path)
		return job, nil, err
	}
	tree, err := ReadPackedTree(path)
	if err == nil {
		job, _ = tree.Summarize()
		return job, tree.Unreadable, nil
	}
	file := filepath.Join(path, ResultFile)
	if _, statErr := os.Stat(file); !errors.Is(err, fs.ErrNotExist) || statErr != nil {
		return job, nil, err
	}
	job, err = readJob(file)
	return job, nil, err
}

// ParseJob parses a job's result.json. path names the file in errors. It refuses a trial's.
func ParseJob(path string, data []byte) (job Job, err error) {
	if err := parseJSON(path, data, &job); err != nil {
		return job, err
	}
	err = job.restore(path)
	return job, err
}

// restore completes a job that was decoded from the file at path. The error says that it is none.
func (j *Job) restore(path string) error {
	if j.JobName == "" || j.Agents == nil {
		return fmt.Errorf("%s is not the result.json of a job: it has no job_name or no agents", path)
	}
	if err := j.checkExperiments(); err != nil {
		return fmt.Errorf("%s is not the result.json of a job: %w", path, err)
	}
	forgetUnsaidOfJob(j)
	restoreBoundsOfJob(j)
	return nil
}
