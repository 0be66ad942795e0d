package export

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/run/job"
)

// maxConversation bounds a conversation in a line of the format "outputs", in bytes; a line is in
// memory as a whole.
const maxConversation = 32 << 20

// maxATIF bounds a trajectory in the format "atif", in bytes.
const maxATIF = 4 << 30

// Branch is a line of the format "sft": one conversation, from its first message to an answer that
// no later call of the model follows.
type Branch struct {
	branchHead
	Messages []trajectory.ChatMessage `json:"messages"`
	branchTail
}

type branchHead struct {
	ID    string `json:"trajectory_id"`
	Model string `json:"model"`
}

type branchTail struct {
	Tools   []any    `json:"tools,omitempty"` // those that the last call offered
	Agent   string   `json:"agent"`
	Dataset string   `json:"dataset"`
	Task    string   `json:"task"`
	Attempt int      `json:"attempt"`
	Reward  *float64 `json:"reward"` // of the trial; null without one
	Dir     string   `json:"dir"`    // of the trial, below the job's directory
}

// branches writes the format "sft".
type branches struct {
	w      io.Writer
	dir    string
	report *Report
}

func (b *branches) row(r row) error {
	return b.report.lost(r, job.ReadRecord(b.dir, *r.trial, 0, func(record *trajectory.Record) error {
		return record.Branches(r.trial.Key.String(), func(one *trajectory.Branch) error { return b.write(r, one) })
	}))
}

// write writes a Branch message by message. It returns only the writer's errors, and one in the
// middle of a line.
func (b *branches) write(r row, one *trajectory.Branch) error {
	out := bufio.NewWriterSize(b.w, 64<<10)
	put := func(before string, v any, from, end int, after string) error {
		var text strings.Builder
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return err
		}
		whole := strings.TrimSuffix(text.String(), "\n")
		_, err := out.WriteString(before + untrusted.JSON(whole[from:len(whole)-end]) + after)
		return err
	}
	err := put("", branchHead{one.ID, one.Model}, 0, 1, `,"messages":[`)
	comma := ""
	if err == nil {
		err = one.Messages(func(m trajectory.ChatMessage) error {
			err := put(comma, m, 0, 0, "")
			comma = ","
			return err
		})
	}
	if err == nil {
		k := r.trial.Key
		err = put("],", branchTail{one.Tools, k.Agent, k.Dataset, k.Task, k.Attempt, r.trial.Reward, r.trial.Dir()}, 1, 0, "\n")
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return writeError{fmt.Errorf("the conversation of %s: %w", r.trial.Dir(), err)}
	}
	return nil
}

func (b *branches) end() (int, error) { return 0, nil }

// writeError is an error of the destination. Errors of the source are counted, and the export goes
// on.
type writeError struct{ error }

// lost notes why a trial has no conversation. It returns err if that is the writer's error.
func (r *Report) lost(one row, err error) error {
	failed := writeError{}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return failed.error
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, trajectory.ErrEmpty):
		r.NoConversation++
	case errors.Is(err, trajectory.ErrTooLong):
		r.TooLong = append(r.TooLong, one.trial.Dir())
	default:
		r.Unreadable = append(r.Unreadable, fmt.Errorf("the record of %s: %w", one.trial.Dir(), err))
	}
	r.Trials--
	return nil
}

// archive writes the format "atif".
type archive struct {
	w      *tar.Writer
	dir    string
	report *Report
}

func (a *archive) row(r row) error {
	f, err := job.OpenTrialFile(a.dir, *r.trial, result.ATIFFile)
	reported := r.trial.Usage != nil && r.trial.Usage.ReportedBy != ""
	if errors.Is(err, fs.ErrNotExist) && reported && len(r.trial.Steps) > 0 {
		return a.report.lost(r, a.ofSteps(r))
	}
	if errors.Is(err, fs.ErrNotExist) && reported {
		f, err = job.OpenTrialFile(a.dir, *r.trial, path.Join(result.LogsDir, "agent", result.ATIFFile)) // which the agent left
	} else if errors.Is(err, fs.ErrNotExist) { // the run was killed before the file was made
		return a.report.lost(r, a.convert(r))
	}
	if err != nil {
		return a.report.lost(r, err)
	}
	defer f.Close()
	return a.report.lost(r, a.copy(r, f, r.trial.Dir()))
}

// ofSteps adds the files that the agent left in the steps of its task. Each has a directory for the
// step.
func (a *archive) ofSteps(r row) error {
	found := false
	for _, s := range r.trial.Steps {
		dir := result.StepDir(s.Name)
		if dir == "" {
			continue
		}
		f, err := job.OpenTrialFile(a.dir, *r.trial, path.Join(dir, result.LogsDir, "agent", result.ATIFFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		found = true
		if err := errors.Join(a.copy(r, f, path.Join(r.trial.Dir(), dir)), f.Close()); err != nil {
			return err
		}
	}
	if !found {
		return fs.ErrNotExist
	}
	return nil
}

// copy adds a file as it is, in a directory of the archive. Its size is read once, so that the
// archive stays whole if somebody changes the file.
func (a *archive) copy(r row, f *os.File, dir string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxATIF {
		return trajectory.ErrTooLong
	}
	if err := a.header(r, dir, info.Size()); err != nil {
		return err
	}
	if _, err := io.CopyN(a.w, f, info.Size()); err != nil {
		return writeError{fmt.Errorf("%s of %s: %w", result.ATIFFile, r.trial.Dir(), err)}
	}
	return nil
}

// convert adds a trajectory that is made of the record.
func (a *archive) convert(r row) error {
	f, err := job.OpenTrialFile(a.dir, *r.trial, result.TrajectoryFile)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	record := io.NewSectionReader(f, 0, info.Size())
	about := trajectory.About{ID: r.trial.Key.String(), Agent: r.trial.Agent}
	var size counter // which the archive has first
	if err := trajectory.Convert(&size, record, about); err != nil {
		return err
	}
	if size > maxATIF {
		return trajectory.ErrTooLong
	}
	if err := a.header(r, r.trial.Dir(), int64(size)); err != nil {
		return err
	}
	if err := trajectory.Convert(a.w, record, about); err != nil {
		return writeError{fmt.Errorf("%s of %s: %w", result.ATIFFile, r.trial.Dir(), err)}
	}
	return nil
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (a *archive) header(r row, dir string, size int64) error {
	at := r.trial.Timestamps.EndedAt
	if at.Unix() < 0 || at.IsZero() {
		at = time.Unix(0, 0)
	}
	err := a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, result.ATIFFile), Size: size, Mode: 0o644, ModTime: at.UTC().Truncate(time.Second)})
	if err != nil {
		return writeError{err}
	}
	return nil
}

func (a *archive) end() (int, error) { return 0, a.w.Close() }
