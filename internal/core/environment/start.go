package environment

import (
	"strings"
	"time"
)

// idle does nothing until it is killed: it reads from a pipe without a writer, and bash reaps the
// orphans of commands. It runs no other program: a command could replace that, and the replacement
// would count as a process from before the command, and survive with it.
const idle = "exec 9<> <(:); while read -r -u 9; do :; done"

// Idle returns the command that an image's ENTRYPOINT gets as its arguments, in place of the
// image's CMD. It does nothing and does not end.
func Idle() []string { return []string{"bash", "-c", idle} }

// HandoverTime is the time that CreateEnvironment waits for an ENTRYPOINT to run its arguments.
const HandoverTime = 15 * time.Second

// Readiness describes when an environment is ready, as far as its image defines it.
type Readiness struct {
	// Healthcheck is the image's HEALTHCHECK, or nil. The provider does not run it; the caller may.
	Healthcheck *Healthcheck
	// Busy: the image has no Healthcheck, and its ENTRYPOINT did not run its arguments within
	// HandoverTime. It may still be starting.
	Busy bool
}

// Healthcheck is an image's HEALTHCHECK with Docker's defaults filled in: all durations except
// StartPeriod, and Retries, are above 0.
type Healthcheck struct {
	Args          []string      // the program and its arguments; exit code 0 is healthy
	Interval      time.Duration // between checks, and before the first one
	Timeout       time.Duration // of a check
	StartPeriod   time.Duration // failures do not count in this period
	StartInterval time.Duration // between checks in the start period
	Retries       int           // consecutive failures that make it unhealthy
}

// Docker's defaults. Source: Docker's reference for HEALTHCHECK.
const (
	healthInterval      = 30 * time.Second
	healthTimeout       = 30 * time.Second
	healthStartInterval = 5 * time.Second
	healthRetries       = 3
)

// NewHealthcheck returns the check in an image's configuration, or nil if there is none. given
// holds the configured durations and Retries, where 0 means the default. test is "NONE", "CMD" and
// a program with its arguments, or "CMD-SHELL" and text for the image's shell; an empty shell is
// /bin/sh -c.
func NewHealthcheck(test, shell []string, given Healthcheck) *Healthcheck {
	if len(test) < 2 {
		return nil
	}
	h := given
	switch test[0] {
	case "CMD":
		h.Args = test[1:]
	case "CMD-SHELL":
		if len(shell) == 0 {
			shell = []string{"/bin/sh", "-c"}
		}
		h.Args = append(append([]string{}, shell...), test[1])
	default:
		return nil
	}
	orDefault := func(d *time.Duration, usual time.Duration) {
		if *d <= 0 {
			*d = usual
		}
	}
	orDefault(&h.Interval, healthInterval)
	orDefault(&h.Timeout, healthTimeout)
	orDefault(&h.StartInterval, healthStartInterval)
	h.StartPeriod = max(0, h.StartPeriod)
	if h.Retries <= 0 {
		h.Retries = healthRetries
	}
	return &h
}

// Script returns a bash script that runs the check.
func (h Healthcheck) Script() string {
	var b strings.Builder
	b.WriteString("exec")
	for _, arg := range h.Args {
		b.WriteString(" '" + strings.ReplaceAll(arg, "'", `'\''`) + "'")
	}
	return b.String()
}
