package judging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// judgedRecord is the content of result.JudgedFile.
type judgedRecord struct {
	Run             result.AgentRun   `json:"run"`
	EnvironmentCost result.USD        `json:"environment_cost"` // of the judge's own environments
	Retries         []result.Retry    `json:"retries,omitempty"`
	Omitted         []result.Omission `json:"omitted,omitempty"`
}

// WriteUnjudged writes the result of a trial, as it is before its judges begin, into its directory.
func WriteUnjudged(dir string, before result.Trial) error {
	if err := result.WriteJSON(filepath.Join(dir, filepath.FromSlash(result.UnjudgedFile)), before); err != nil {
		return environment.MarkMachineError(err)
	}
	return nil
}

// readUnjudged reads the file of WriteUnjudged in a trial's directory. It follows no link.
func readUnjudged(dir string) (t result.Trial, err error) {
	if err := nofollow.CheckDirs(dir, result.JudgesDir); err != nil {
		return t, err
	}
	return readRecord[result.Trial](filepath.Join(dir, filepath.FromSlash(result.UnjudgedFile)))
}

// readRecord reads a JSON file. It follows no link.
func readRecord[T any](path string) (v T, err error) {
	text, err := nofollow.ReadFile(path, result.MaxTrialFile)
	if err != nil {
		return v, err
	}
	if err := bounded.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%s cannot be read: %w", filepath.Base(path), err)
	}
	return v, nil
}

// write writes the outcome of a judge into its directory. If it cannot be written, a resume
// runs the judge again.
func (out *Outcome) write(dir string, secrets *redact.Redactor) {
	run := out.Run
	if f := out.failed; f != nil {
		run.Error = &result.Error{Type: f.Type, Message: failure.Hide(secrets, f.Message)}
	}
	_ = result.WriteJSON(filepath.Join(dir, result.JudgedFile), judgedRecord{run, out.env, out.retries, out.omitted})
}

// readJudged reads the outcome of a judge. It follows no link.
func readJudged(dir string) (judgedRecord, error) {
	if err := nofollow.CheckDir(dir); err != nil {
		return judgedRecord{}, err
	}
	return readRecord[judgedRecord](filepath.Join(dir, result.JudgedFile))
}

func (r judgedRecord) judged() Outcome {
	return Outcome{Run: r.Run, env: r.EnvironmentCost, retries: r.Retries, omitted: r.Omitted}
}

// setAside renames the directory of a failed judge, to keep its files.
func setAside(dir string) error {
	for n := 1; ; n++ {
		if _, err := os.Lstat(failedDir(dir, n)); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(dir, failedDir(dir, n))
		} else if err != nil {
			return err
		}
	}
}

// failedDir returns the name of the directory of a judge's nth failed attempt, from 1.
func failedDir(dir string, n int) string { return fmt.Sprintf("%s%s%d", dir, failedInfix, n) }

// failedInfix follows the name of the judge in the name of such a directory.
const failedInfix = ".failed-"
