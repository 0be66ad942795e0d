package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial"
)

// Tree is a job's directory while the job runs. It has the directory's lock.
type Tree struct {
	Dir     string
	Plan    result.Plan
	Lock    *Lock
	events  *os.File
	outputs *outputs
	// resumed is set if there may be trials' directories of an earlier run, which are moved away;
	// see Supersede.
	resumed bool
}

// ErrExists means that the job's directory exists already. It is never overwritten.
var ErrExists = errors.New("already exists")

// Create creates a job's directory with its plan and configuration, and takes its lock. If the
// directory exists, the error is ErrExists. After any other error it does not exist.
func Create(dir string, cfg config.Job, plan result.Plan) (*Tree, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s %w", dir, ErrExists)
		}
		return nil, err
	}
	lock, err := TakeLock(dir, time.Now())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	tree, err := Begin(dir, lock, cfg, plan)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir), lock.Release())
	}
	return tree, nil
}

// Begin writes the plan and the configuration into a directory whose lock is held, and in which no
// job has begun (see NotBegun). The tree owns the lock from then on. The plan is written last:
// without it a directory is not that of a job.
func Begin(dir string, lock *Lock, cfg config.Job, plan result.Plan) (*Tree, error) {
	t := &Tree{Dir: dir, Plan: plan, Lock: lock}
	// A run that was killed here before it had a plan left them.
	if err := RemoveDrafts(dir); err != nil {
		return nil, err
	}
	if err := result.WriteJSON(filepath.Join(dir, result.ConfigFile), cfg); err != nil {
		return nil, err
	}
	if err := result.WriteJSON(filepath.Join(dir, result.PlanFile), plan); err != nil {
		return nil, err
	}
	if err := t.WriteMetadata(result.Summarize(t.Plan, nil)); err != nil {
		return nil, err
	}
	var err error
	if t.outputs, err = openOutputs(t.Dir, t.Plan); err != nil {
		return nil, err
	}
	if err := syncDir(dir); err != nil {
		return nil, err
	}
	if err := t.openEvents(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tree) openEvents() (err error) {
	t.events, err = os.OpenFile(filepath.Join(t.Dir, result.EventsFile), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o644)
	return err
}

// Sink writes an event as a line of events.jsonl. An event that cannot be written is dropped:
// results never depend on events.
func (t *Tree) Sink(e event.Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = t.events.Write(append(line, '\n'))
	}
}

// Close closes events.jsonl and outputs.jsonl, and releases the lock.
func (t *Tree) Close() error {
	return errors.Join(t.events.Close(), t.outputs.file.Close(), t.Lock.Release())
}

// PlanConfirmation writes the confirmation attempts of the job into the plan. Callers do so before
// any of them begins, so that their directories are known to belong to the job.
func (t *Tree) PlanConfirmation(plan result.Plan) error {
	t.Plan.Confirm = plan.Confirm
	return result.WriteJSON(filepath.Join(t.Dir, result.PlanFile), t.Plan)
}

// PlanRounds writes into the plan how the rounds of the job ended.
func (t *Tree) PlanRounds(rounds *result.Rounds) error {
	t.Plan.Rounds = rounds
	return result.WriteJSON(filepath.Join(t.Dir, result.PlanFile), t.Plan)
}

// PlanStop writes the reason why no more trials were started into the plan.
func (t *Tree) PlanStop(stop result.Stop) error {
	t.Plan.Stopped = []result.Stop{stop}
	return result.WriteJSON(filepath.Join(t.Dir, result.PlanFile), t.Plan)
}

// TrialDir returns the directory of a trial.
func (t *Tree) TrialDir(key result.Key) string {
	return filepath.Join(t.Dir, filepath.FromSlash(key.Dir()))
}

// WriteTrial writes a trial's error.txt, if it has an error, then its result.json, and then its
// line of outputs.jsonl.
func (t *Tree) WriteTrial(outcome trial.Outcome) error {
	dir := t.TrialDir(outcome.Trial.Key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if e := outcome.Trial.Error; e != nil {
		text := fmt.Sprintf("%s: %s\n", e.Type, e.Message)
		if outcome.Detail != "" {
			text += "\n" + outcome.Detail + "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, result.ErrorFile), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := result.WriteJSON(filepath.Join(dir, result.ResultFile), outcome.Trial); err != nil {
		return err
	}
	return t.outputs.add(outcome.Trial)
}

// rewriteTrial writes the result of a trial again. Its line of outputs.jsonl stays as it is; see
// rewriteOutputs.
func (t *Tree) rewriteTrial(r result.Trial) error {
	return result.WriteJSON(filepath.Join(t.TrialDir(r.Key), result.ResultFile), r)
}

// rewriteOutputs writes outputs.jsonl again, with a line for each of the trials.
func (t *Tree) rewriteOutputs(trials []result.Trial, prompt func(dataset, task string) []result.Message) error {
	if t.outputs == nil {
		return nil
	}
	if err := t.outputs.file.Close(); err != nil {
		return err
	}
	again, err := repairOutputs(t.Dir, t.Plan, trials, prompt)
	if err != nil {
		return err
	}
	t.outputs = again
	return nil
}

// WriteJob writes the job's metadata.json, a shard's SHA256SUMS, and then the job's result.json.
func (t *Tree) WriteJob(job result.Job) error {
	if err := t.WriteMetadata(job); err != nil {
		return err
	}
	text, err := result.Marshal(job)
	if err != nil {
		return fmt.Errorf("encode %s: %w", result.ResultFile, err)
	}
	if t.Plan.Shard != nil {
		if err := t.writeSums(job, text); err != nil {
			return fmt.Errorf("write %s: %w", result.SumsFile, err)
		}
	}
	return result.WriteFile(filepath.Join(t.Dir, result.ResultFile), text)
}

// syncDir writes a directory's entries to the disk, so that they are there after a crash of the
// machine.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// UsePrompts sets the function that returns the tasks' instructions for outputs.jsonl.
func (t *Tree) UsePrompts(prompt func(dataset, task string) []result.Message) { t.outputs.from(prompt) }

// Reopen returns the tree of a job that was run before, whose lock is held. It removes the drafts
// that a killed process left, and opens nothing: call Continue before the tree is used by Run.
func Reopen(dir string, lock *Lock, plan result.Plan) (*Tree, error) {
	t := &Tree{Dir: dir, Plan: plan, Lock: lock, resumed: true}
	if err := RemoveDrafts(dir); err != nil {
		return nil, err
	}
	return t, nil
}

// Continue prepares a reopened tree for Run. It removes the job's result.json, which is outdated
// and is written again at the end, the gate's verdict on it, a shard's SHA256SUMS, and merge.json:
// new results in the directory are in no shard, so no merge may replace it. outputs.jsonl gets a
// line for each result in kept, and no others. prompt returns the tasks' instructions.
func (t *Tree) Continue(kept []result.Trial, prompt func(dataset, task string) []result.Message) error {
	for _, name := range []string{result.SumsFile, result.VerdictFile, result.ResultFile, result.MergeFile} {
		if err := os.Remove(filepath.Join(t.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := syncDir(t.Dir); err != nil {
		return err
	}
	var err error
	if t.outputs, err = repairOutputs(t.Dir, t.Plan, kept, prompt); err != nil {
		return err
	}
	if err := t.openEvents(); err != nil {
		return err
	}
	return t.endTornEvent()
}

// WriteEnd writes the final files of Run, for a job with nothing left to run: outputs.jsonl with a
// line for each of trials, and the files of WriteJob.
func WriteEnd(dir string, plan result.Plan, job result.Job, trials []result.Trial, prompt func(dataset, task string) []result.Message) error {
	t := Tree{Dir: dir, Plan: plan}
	var err error
	if t.outputs, err = repairOutputs(dir, plan, trials, prompt); err != nil {
		return err
	}
	return errors.Join(t.outputs.file.Close(), t.WriteJob(job))
}

// RemoveDrafts removes the files from a job's directory that a killed process was writing and had
// not renamed yet.
func RemoveDrafts(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if result.IsDraft(e) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// endTornEvent ends the line of events.jsonl that was being written when the process was killed.
// Readers skip that line.
func (t *Tree) endTornEvent() error {
	info, err := t.events.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := t.events.ReadAt(last, info.Size()-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		_, err = t.events.Write([]byte{'\n'})
	}
	return err
}

// NotBegun reports whether a directory has only files of a run that was killed before it wrote its
// plan.
func NotBegun(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		switch {
		case result.IsDraft(e):
		case e.Type().IsRegular() && (e.Name() == result.LockFile || e.Name() == result.ConfigFile):
		default:
			return false, nil
		}
	}
	return true, nil
}
