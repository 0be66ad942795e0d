package environment

import (
	"errors"
	"slices"
	"syscall"
)

// MachineError is a failure of the machine that Rollout runs on, in its own files: no task, agent
// or verifier caused it, and it may be transient.
type MachineError struct{ Err error }

func (e *MachineError) Error() string {
	if hint := machineHints[errnoOf(e.Err)]; hint != "" {
		return e.Err.Error() + " (" + hint + ")"
	}
	return e.Err.Error()
}

func (e *MachineError) Unwrap() error { return e.Err }

// machineHints maps each failure to a hint for users.
var machineHints = map[syscall.Errno]string{
	syscall.EMFILE: "this machine lets the process open no more files: raise the limit, ulimit -n, or lower n_concurrent_trials",
	syscall.ENFILE: "this machine has no more files to open: raise fs.file-max, or lower n_concurrent_trials",
	syscall.ENOSPC: "a disk of this machine is full",
	syscall.EDQUOT: "the disk quota of this user is used up",
	syscall.ENOMEM: "this machine has no memory left: lower n_concurrent_trials",
	syscall.EIO:    "a disk of this machine cannot be read or written",
}

// own are errors that are always about this process or this machine. The others may also come from
// inside an environment, whose disk or memory an agent has filled.
var own = []syscall.Errno{syscall.EMFILE, syscall.ENFILE}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}

// MarkMachineError marks an error from Rollout's own files as a MachineError if it is one: no more
// open files, disk space, memory or quota, or a failing disk. It returns other errors, and nil,
// unchanged.
func MarkMachineError(err error) error {
	if err == nil || machineHints[errnoOf(err)] == "" {
		return err
	}
	var marked *MachineError
	if errors.As(err, &marked) {
		return err
	}
	return &MachineError{Err: err}
}

// MachineFault returns err as a MachineError if the machine caused it, otherwise nil.
func MachineFault(err error) *MachineError {
	var marked *MachineError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &marked):
		return marked
	case slices.Contains(own, errnoOf(err)):
		return &MachineError{Err: err}
	}
	return nil
}
