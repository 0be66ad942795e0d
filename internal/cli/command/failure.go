package command

import (
	"fmt"
	"syscall"

	"github.com/org/rollout-action/internal/app/host"
)

// The exit codes. Source: design, "Exit codes".
const (
	ExitOK        = 0
	ExitGate      = 1
	ExitUsage     = 2
	ExitFailed    = 3
	ExitCancelled = 130
	// ExitPipe is that of a command whose reader went away (| head), as if SIGPIPE had ended it.
	ExitPipe = 128 + int(syscall.SIGPIPE)
)

// Failure is an error that knows its exit code.
type Failure struct {
	Code  int
	Given bool  // by a command that was run, which may have any
	Err   error // nil: everything was printed already
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// Usagef returns an error of the command line itself.
func Usagef(format string, args ...any) error {
	return &host.UsageError{Err: fmt.Errorf(format, args...)}
}

// RunCodes are the exit codes of commands that run trials or judge a job, for their help.
const RunCodes = `
Exit codes:
  0    done, and the gate passed; without a gate: every trial has a verdict, or was lost by its agent
  1    done, but the gate failed, or results are missing; without a gate: a trial has no verdict, or an agent has no reward
  2    wrong usage or an invalid job file; nothing was started
  3    rollout or its infrastructure failed
  130  cancelled; a partial result.json is written`

// DoneCodes are the exit codes of commands that judge nothing and run no trial, for their help.
const DoneCodes = `
Exit codes:
  0    done
  2    wrong usage, or an invalid file
  3    rollout failed, or something that it needs
  130  cancelled`
