package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/org/rollout-action/providers/sandbox"
)

// childSandboxes makes a child, see inChild, measure single trials in sandboxes, as its user.
const childSandboxes = "sandboxes"

// nobody is an ordinary user, who need not be in /etc/passwd.
const nobody = 65534

// The child gets root's flags in its environment.
const (
	imageVariable  = "BENCH_IMAGE"
	roundsVariable = "BENCH_ROUNDS"
)

// sandboxValues are the durations of single trials, in milliseconds.
type sandboxValues struct {
	Base   string    `json:"base"` // the base of the sandboxes
	Ours   []float64 `json:"ours"`
	Floor  []float64 `json:"floor"`
	Refuse string    `json:"refuse,omitempty"` // why nothing could be measured
}

// asOrdinaryUser measures trials in a process of an ordinary user, in its own directory below dir. Only root can call it.
func asOrdinaryUser(ctx context.Context, dir, image string, rounds int) (sandboxValues, error) {
	var values sandboxValues
	own := filepath.Join(dir, "user")
	if err := errors.Join(os.Chmod(dir, 0o711), os.Mkdir(own, 0o700), os.Chown(own, nobody, nobody)); err != nil {
		return values, err
	}
	// Use this name, because that user may not enter the directory of a program that "go run" built.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", childArg, childSandboxes, own)
	cmd.Dir = own
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + own, "TMPDIR=" + own,
		imageVariable + "=" + image, roundsVariable + "=" + strconv.Itoa(rounds),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return values, fmt.Errorf("trials as user %d: %w\n%s", nobody, err, &said)
	}
	if err := json.Unmarshal(out, &values); err != nil {
		return values, err
	}
	if values.Refuse != "" {
		return values, fmt.Errorf("%w: as user %d: %s", errUnmeasurable, nobody, values.Refuse)
	}
	return values, nil
}

// childTrialsInSandboxes runs in the process that asOrdinaryUser starts.
func childTrialsInSandboxes(ctx context.Context, dir string, stdout io.Writer) error {
	rounds, err := strconv.Atoi(os.Getenv(roundsVariable))
	if err != nil {
		return err
	}
	values, err := userValues(ctx, dir, os.Getenv(imageVariable), rounds)
	if errors.Is(err, errUnmeasurable) {
		values.Refuse, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(values)
}

func userValues(ctx context.Context, dir, image string, rounds int) (sandboxValues, error) {
	provider, err := newSandboxes(ctx, dir, nil, sandbox.Options{})
	if err != nil {
		return sandboxValues{}, err
	}
	defer provider.Close()
	ours, floor, err := sandboxSides(ctx, dir, image, provider)
	if err != nil {
		return sandboxValues{}, err
	}
	values, err := trialTurns(ctx, rounds, ours, floor)
	if err != nil {
		return sandboxValues{}, err
	}
	return sandboxValues{Base: ours.base, Ours: values[0], Floor: values[1]}, nil
}
