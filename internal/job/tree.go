package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
)

// Tree is a job's folder while the job runs.
type Tree struct {
	Dir     string
	Plan    result.Plan
	events  *os.File
	outputs *outputs
}

// ErrExists means that the job's folder is there already; it is never written over.
var ErrExists = errors.New("already exists")

// Create makes the job's folder with its plan and configuration. The folder must not exist; when Create
// fails, it does not exist either.
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
	t := &Tree{Dir: dir, Plan: plan}
	if err := t.begin(cfg); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return t, nil
}

func (t *Tree) begin(cfg config.Job) (err error) {
	if err := result.WriteJSON(filepath.Join(t.Dir, result.ConfigFile), cfg); err != nil {
		return err
	}
	if err := result.WriteJSON(filepath.Join(t.Dir, result.PlanFile), t.Plan); err != nil {
		return err
	}
	if err := t.WriteMetadata(result.Summarize(t.Plan, nil)); err != nil {
		return err
	}
	if t.outputs, err = openOutputs(t.Dir, t.Plan); err != nil {
		return err
	}
	t.events, err = os.OpenFile(filepath.Join(t.Dir, result.EventsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	return err
}

// Sink writes every event as a line of events.jsonl. What cannot be written is dropped: results never
// depend on events.
func (t *Tree) Sink(e event.Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = t.events.Write(append(line, '\n'))
	}
}

// Close ends events.jsonl and outputs.jsonl.
func (t *Tree) Close() error { return errors.Join(t.events.Close(), t.outputs.file.Close()) }

// TrialDir is the folder of a trial.
func (t *Tree) TrialDir(key result.Key) string {
	return filepath.Join(t.Dir, filepath.FromSlash(key.Dir()))
}

// WriteTrial writes a trial's error.txt, if it has an error, then its result.json, and then its line of outputs.jsonl.
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

// WriteJob writes the job's metadata.json and its result.json.
func (t *Tree) WriteJob(job result.Job) error {
	if err := t.WriteMetadata(job); err != nil {
		return err
	}
	return result.WriteJSON(filepath.Join(t.Dir, result.ResultFile), job)
}
