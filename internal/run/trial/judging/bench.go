package judging

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// maxReason limits the reason of a verdict in a result, in bytes.
const maxReason = 4 << 10

// defaultJudgeAttempts limits a judge's attempts if retry.judge_attempts is not set.
const defaultJudgeAttempts = 2

// Material is the evidence that a judge works on.
type Material interface {
	// Ask returns the prompt. dir is the judge's directory in its environment; "" for a call.
	Ask(j Judge, dir string) (string, error)
	// Files returns the files for a judge with a directory, in addition to its prompt: artifacts at
	// their paths, and inputs in the directory.
	Files(j Judge, dir string) (artifacts, inputs []environment.Copy, err error)
	// Read parses the judge's verdict.
	Read(j Judge, text []byte) (judge.Verdict, error)
}

// Outcome is the outcome of a judge.
type Outcome struct {
	Run     result.AgentRun
	failed  *failure.Error // the reason why it has no verdict; nil if it has one, or did not have to run
	retries []result.Retry
	omitted []result.Omission
	env     result.USD // the cost of its environments
}

// Bench runs the judges of a trial, attempt after attempt, and keeps the records of the attempts on
// disk. Its methods may be called by many goroutines.
type Bench struct {
	Dir      string // the trial's, which has the directories of its judges
	Attempts int    // of a judge, at most; see Attempts
	// Continues is set if the attempts of an earlier execution count, too.
	Continues bool
	Places    chan struct{} // has an element for each judge that runs outside its trial's environment
	Secrets   *redact.Redactor
	Now       func() time.Time
	Digest    func(judge.Spec) string
	// Attempt runs an attempt of a judge, whose files are in the directory below, in that of all
	// judges. It does not panic.
	Attempt func(ctx context.Context, j Judge, in Material, below string) Attempt
}

// Attempt is an attempt of a judge that has ended.
type Attempt struct {
	Verdict judge.Verdict
	Trial   *result.Trial  // the record of the judge's run; nil: its agent did not begin
	Failed  *failure.Error // nil: the verdict counts
	Again   bool           // another attempt may succeed
}

// JudgeApart runs a judge outside the trial's environment, as soon as the number of such judges
// allows it.
func (b *Bench) JudgeApart(ctx context.Context, j Judge, in *Evidence, facts judge.Facts) Outcome {
	select {
	case b.Places <- struct{}{}:
		defer func() { <-b.Places }()
	case <-ctx.Done():
	}
	return b.Judge(ctx, j, in, facts, nil)
}

// Judge runs a judge, and again if it gave no verdict and may try again. blocked is the reason
// why it cannot run, or nil. It does not change the trial's record, because judges run side by
// side.
func (b *Bench) Judge(ctx context.Context, j Judge, in *Evidence, facts judge.Facts, blocked error) (out Outcome) {
	out.Run = result.AgentRun{Name: j.Name, Role: result.RoleJudge, Agent: j.Spec.Agent, Model: j.Agent.Model, Placement: string(j.Place()), Digest: b.Digest(j.Spec)}
	defer func() {
		if f := out.failed; f != nil {
			f.Message = strings.Join(strings.Fields(failure.Hide(b.Secrets, f.Message)), " ")
			out.Run.Error = &result.Error{Type: f.Type, Message: f.Message}
		}
	}()
	applies, err := j.Applies(facts)
	switch {
	case err != nil:
		out.failed = failure.Newf(result.JudgeFailed, "the judge %s failed: its condition when %v", j.Name, err)
		return out
	case !applies:
		out.Run.Skipped = true
		return out
	case blocked != nil:
		out.failed = failure.Newf(result.JudgeFailed, "the judge %s cannot run: %v", j.Name, blocked)
		return out
	}
	b.judgeIn(ctx, j, in, j.Name, &out)
	return out
}

// judgeIn runs a judge until it gives a verdict, at most as often as it may try. Its files are in
// the directory below, in that of all judges.
func (b *Bench) judgeIn(ctx context.Context, j Judge, in Material, below string, out *Outcome) {
	dir := filepath.Join(b.Dir, result.JudgesDir, below)
	earlier, err := b.continueJudge(dir, out)
	if err != nil {
		out.failed = failure.Newf(result.InternalError, "the files of the judge %s could not be kept: %v", j.Name, err)
		return
	}
	attempts := b.Attempts
	began := b.Now()
	out.Run.StartedAt = new(result.Stamp(began))
	defer func() { out.Run.Sec = new(result.Seconds(b.Now().Sub(began))) }()
	for n := 1; ; n++ {
		out.Run.Attempts = earlier + n
		again := b.judgeOnce(ctx, j, in, below, out)
		out.write(dir, b.Secrets)
		if out.failed == nil || !again || n >= attempts || ctx.Err() != nil {
			return
		}
		out.retries = append(out.retries, result.Retry{
			Operation: "judge " + j.Name, Attempt: n, Message: failure.Brief(out.failed, b.Secrets), At: result.Stamp(b.Now()),
		})
		if err := setAside(dir); err != nil {
			out.failed = failure.Newf(result.InternalError, "the files of the judge %s could not be kept: %v", j.Name, err)
			return
		}
	}
}

// continueJudge sets aside the files in dir of a judge's earlier execution, and adds its cost to
// out. attempts is the number of the judge's attempts so far.
func (b *Bench) continueJudge(dir string, out *Outcome) (attempts int, err error) {
	if !b.Continues {
		return 0, nil
	}
	if err := setAside(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return out.addFailed(dir)
}

// judgeOnce runs an attempt of a judge. again reports whether another one may succeed.
func (b *Bench) judgeOnce(ctx context.Context, j Judge, in Material, below string, out *Outcome) (again bool) {
	a := b.Attempt(ctx, j, in, below)
	run := &out.Run
	if t := a.Trial; t != nil {
		run.StopCondition, run.IsTruncated = t.StopCondition, t.IsTruncated
		run.Usage = run.Usage.Plus(t.Usage) // of all attempts, as the cost
		run.Cost = run.Cost.Plus(t.Costs.Model)
		out.env = out.env.Plus(t.Costs.Environment)
		run.Warnings = append(run.Warnings, t.Warnings...)
		out.retries = append(out.retries, t.Retries...)
		for _, o := range t.Omitted {
			out.omitted = append(out.omitted, result.Omission{Path: result.JudgesDir + "/" + below + "/" + o.Path, Reason: o.Reason})
		}
		trajectory := result.JudgesDir + "/" + below + "/" + result.TrajectoryFile
		if _, err := os.Stat(filepath.Join(b.Dir, filepath.FromSlash(trajectory))); err == nil {
			run.Trajectory = trajectory
		}
	}
	if out.failed = a.Failed; out.failed != nil {
		return a.Again
	}
	v := a.Verdict
	run.Verdict, run.Score, run.Criteria = v.JSON, &v.Score, v.Criteria
	run.Reason = excerpt.Middle(failure.Hide(b.Secrets, v.Reason), maxReason)
	return false
}
