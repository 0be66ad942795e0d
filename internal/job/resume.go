package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/result"
)

// Stored is a job as its folder has it.
type Stored struct {
	Dir    string
	Plan   result.Plan
	Config config.Job
	text   []byte // of config.json
}

// maxConfig bounds a config.json, in bytes. Job files are smaller.
const maxConfig = 8 << 20

// ReadConfig reads the config.json in a job's folder. The error is fs.ErrNotExist where there is none.
func ReadConfig(dir string) ([]byte, error) {
	return readLimited(filepath.Join(dir, result.ConfigFile), maxConfig)
}

// ErrNotBegun means that a folder has no plan: no trial of a job ever began in it.
var ErrNotBegun = errors.New("is not the folder of a job: it has no " + result.PlanFile)

// Open reads a job's folder for resuming. It refuses (with a Refusal) what no run has left. The error is a diag.List if config.json
// is no configuration that this version knows, and ErrNotBegun if there is no plan.
func Open(dir string) (Stored, error) {
	s := Stored{Dir: dir}
	text, err := readLimited(filepath.Join(dir, result.PlanFile), maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s %w", dir, ErrNotBegun)
	}
	if err != nil {
		return s, refuse("%v", err)
	}
	if err := json.Unmarshal(text, &s.Plan); err != nil {
		return s, refuse("%s: %v: %v", filepath.Join(dir, result.PlanFile), result.ErrTorn, err)
	}
	if err := s.checkPlan(); err != nil {
		return s, refuse("%s: %v", filepath.Join(dir, result.PlanFile), err)
	}
	if s.Plan.Proof {
		return s, refuse("it is what rollout validate --run has left, which proves tasks in one go: run that again")
	}
	path := filepath.Join(dir, result.ConfigFile)
	if s.text, err = ReadConfig(dir); err != nil {
		return s, refuse("it is not known what the job was asked to do: %v", err)
	}
	s.Config, err = config.Stored(path, s.text)
	return s, err
}

func (s Stored) checkPlan() error {
	if err := s.Plan.Check(); err != nil {
		return err
	}
	if s.Plan.Digest == "" {
		return errors.New("has no digest: it was not made by this version of rollout")
	}
	if s.Plan.JobName == "" {
		return errors.New("has no job_name")
	}
	return CheckNames(s.Plan.Trials)
}

// readLimited reads a file that is no link.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: is larger than %d bytes", path, limit)
	}
	return text, err
}

// PathsFrom is the folder where the relative paths in config.json begin, or "" if that is not known.
func (s Stored) PathsFrom() (string, error) {
	if s.Plan.PathsFrom == "" {
		return "", nil
	}
	real, err := realPath(s.Dir)
	return filepath.Join(real, filepath.FromSlash(s.Plan.PathsFrom)), err
}

// PathsFrom is result.Plan.PathsFrom of a job's folder, which need not be there, for paths that begin at from.
func PathsFrom(dir, from string) (string, error) {
	real, err := realPath(dir)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(real, from)
	return filepath.ToSlash(below), err
}

// Drift says in what a job means other work now than when it began: cfg and now are its configuration and plan of today.
func (s Stored) Drift(cfg config.Job, now result.Plan) ([]Change, error) {
	return drift(s.Config, s.Plan, cfg, now)
}

// Pending says what is to be run of the plan now, which has not drifted. It refuses a folder that holds what no run has left.
func (s Stored) Pending(now result.Plan, policy RerunPolicy) (Pending, error) {
	digests := make(map[taskName]string, len(now.Tasks))
	for _, t := range now.Tasks {
		digests[taskName{t.Dataset, t.Task}] = t.Digest
	}
	out, err := pendingOf(s.Dir, now.Own(), digests, policy)
	if err == nil {
		err = out.confirmations(s.Dir, s.Plan, now, policy)
	}
	return out, err
}

// plan is the one that is written when the job goes on: what is counted may have changed, and there may be more attempts.
func (s Stored) plan(now result.Plan) result.Plan {
	plan := s.Plan
	plan.Metrics, plan.PathsFrom = now.Metrics, now.PathsFrom
	plan.Compared = plan.Compared || now.Compared
	if len(now.Trials) != len(plan.Trials) {
		plan.Trials, plan.Tasks, plan.Digest = now.Trials, now.Tasks, now.Digest
		plan.Confirm = nil // their numbers are those of planned attempts now
	}
	return plan
}

// Reopen makes the folder ready for the trials that are pending. The tree has the lock from then on.
//
// Each step leaves a folder that can be resumed: the configuration is replaced before the plan, since more attempts than
// planned can be planned, but not fewer. The job's result.json goes, for it would say what is not so any more, and is written
// at the end. So does merge.json: what is in the folder now is in no shard, and no merge may replace it.
//
// prompt gives the tasks' instructions for outputs.jsonl, which gets a line for each result that stays; those of trials that
// are run again and are not begun, after a cancel, get theirs at the end.
func (s Stored) Reopen(lock *Lock, cfg config.Job, now result.Plan, pending Pending, prompt func(dataset, task string) []result.Message, at time.Time) (*Tree, error) {
	plan := s.plan(now)
	plan.Resumed = append(plan.Resumed[:len(plan.Resumed):len(plan.Resumed)], resumption(plan, pending.Earlier, at))
	t := &Tree{Dir: s.Dir, Plan: plan, Lock: lock, resumed: true}
	if err := t.removeDrafts(); err != nil {
		return nil, err
	}
	for _, key := range pending.stale {
		if err := t.supersede(key); err != nil {
			return nil, err
		}
	}
	if err := s.replace(cfg, plan); err != nil {
		return nil, err
	}
	for _, name := range []string{result.SumsFile, result.ResultFile, result.MergeFile} {
		if err := os.Remove(filepath.Join(s.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := syncDir(s.Dir); err != nil {
		return nil, err
	}
	var err error
	if t.outputs, err = repairOutputs(s.Dir, plan, without(without(pending.Earlier, pending.Keys), pending.Confirmations), prompt); err != nil {
		return nil, err
	}
	if err := t.openEvents(); err != nil {
		return nil, err
	}
	if err := t.endTornEvent(); err != nil {
		return nil, err
	}
	return t, nil
}

// replace writes the configuration and the plan, where they differ from what is there.
func (s Stored) replace(cfg config.Job, plan result.Plan) error {
	cfg.Name = plan.JobName
	for _, file := range []struct {
		name     string
		was, now any
	}{{result.ConfigFile, s.Config, cfg}, {result.PlanFile, s.Plan, plan}} {
		was, err := result.Marshal(file.was)
		if err != nil {
			return err
		}
		now, err := result.Marshal(file.now)
		if err != nil {
			return err
		}
		if bytes.Equal(was, now) {
			continue
		}
		if err := ignoreMissing(os.Remove(filepath.Join(s.Dir, result.SumsFile))); err != nil { // which has the digest of what was
			return err
		}
		if err := result.WriteFile(filepath.Join(s.Dir, file.name), now); err != nil {
			return err
		}
	}
	return nil
}

// Finish is for a job of which nothing is pending: it writes what a run does at its end, if that is not there or says something
// else. Nothing is written if there is nothing to say.
func (s Stored) Finish(cfg config.Job, now result.Plan, earlier []result.Trial, prompt func(dataset, task string) []result.Message) error {
	plan := s.plan(now)
	if err := s.replace(cfg, plan); err != nil {
		return err
	}
	t := Tree{Dir: s.Dir, Plan: plan}
	if err := t.removeDrafts(); err != nil { // a kill while the plan was replaced leaves one, and all else as it should be
		return err
	}
	job := result.Summarize(plan, earlier)
	text, err := result.Marshal(job)
	if err != nil {
		return err
	}
	metadata, err := result.Marshal(result.MetadataOf(plan, job))
	if err != nil {
		return err
	}
	if !s.says(result.ResultFile, text) || !s.says(result.MetadataFile, metadata) || !s.hasOutputs(len(earlier)) || !s.hasSums() {
		if t.outputs, err = repairOutputs(s.Dir, plan, earlier, prompt); err != nil {
			return err
		}
		if err := errors.Join(t.outputs.file.Close(), t.WriteJob(job)); err != nil {
			return err
		}
	}
	planned := slices.DeleteFunc(slices.Clone(earlier), func(t result.Trial) bool { return t.Confirmation })
	if len(planned) == len(plan.Own()) && len(MergeLacks(s.Dir)) > 0 { // what the merge lacked has been run here
		return os.Remove(filepath.Join(s.Dir, result.MergeFile))
	}
	return nil
}

// says reports whether a file of the folder holds this text.
func (s Stored) says(name string, text []byte) bool {
	was, err := readLimited(filepath.Join(s.Dir, name), maxPlan)
	return err == nil && bytes.Equal(was, text)
}

// hasSums reports whether a shard has digests, which older versions did not write, and which go when its plan or configuration changes.
func (s Stored) hasSums() bool {
	_, err := os.Lstat(filepath.Join(s.Dir, result.SumsFile))
	return s.Plan.Shard == nil || err == nil
}

// hasOutputs reports whether outputs.jsonl has as many lines as there are results. A disk that was full has left out some.
func (s Stored) hasOutputs(want int) bool {
	f, err := openRegular(filepath.Join(s.Dir, result.OutputsFile))
	if err != nil {
		return false
	}
	defer f.Close()
	lines, whole, buffer := 0, true, make([]byte, 1<<16)
	for {
		n, err := f.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte("\n"))
		if n > 0 {
			whole = bytes.HasSuffix(buffer[:n], []byte("\n"))
		}
		if err != nil {
			return errors.Is(err, io.EOF) && lines == want && whole
		}
	}
}

// resumption is the entry of a job that goes on now.
func resumption(plan result.Plan, earlier []result.Trial, at time.Time) result.Resumption {
	last := plan.StartedAt
	if n := len(plan.Resumed); n > 0 && plan.Resumed[n-1].At.After(last) {
		last = plan.Resumed[n-1].At
	}
	for _, t := range earlier {
		if end := t.Timestamps.EndedAt; end.After(last) && !end.After(at) {
			last = end
		}
	}
	at = result.Stamp(at)
	return result.Resumption{At: at, IdleSec: result.Seconds(max(0, at.Sub(last)))}
}

// removeDrafts removes what a killed process left of files that it had not yet put in place.
func (t *Tree) removeDrafts() error {
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if draft(e) {
			if err := os.Remove(filepath.Join(t.Dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// draft reports the drafts of atomicwriter.
func draft(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".tmp-") && e.Type().IsRegular() }

// endTornEvent ends a line of events.jsonl that was being written when the process was killed: readers leave it out.
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

// NotBegun reports whether a folder holds nothing but what a run leaves that is killed before it writes its plan.
func NotBegun(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		switch {
		case draft(e):
		case e.Type().IsRegular() && (e.Name() == lockFile || e.Name() == result.ConfigFile):
		default:
			return false, nil
		}
	}
	return true, nil
}
