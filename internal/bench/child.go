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
	"time"

	"github.com/org/rollout-action/providers/fake"
)

// This program starts itself with these arguments and a directory, to measure the memory of a process that does one thing.
const (
	childArg    = "child"
	childTrials = "trials" // runs a job below the directory
	childFiles  = "files"  // writes the files of that job again
)

// usage is what a child reports about itself.
type usage struct {
	WallMS float64 `json:"wall_ms"`
	PeakMB float64 `json:"peak_mb"` // millions of bytes
}

// inChild does work in a separate process.
func inChild(ctx context.Context, work, dir string) (usage, error) {
	var used usage
	self, err := os.Executable()
	if err != nil {
		return used, err
	}
	cmd := exec.CommandContext(ctx, self, childArg, work, dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return used, fmt.Errorf("%s in a process of their own: %w\n%s", work, err, &said)
	}
	err = json.Unmarshal(out, &used)
	return used, err
}

// child runs in the process that inChild starts, and returns its exit code.
func child(ctx context.Context, work, dir string, stdout, stderr io.Writer) int {
	do, known := map[string]func(context.Context, string) (time.Duration, error){
		childTrials: fakeTrials, childFiles: bareFiles,
		childMerge: mergeOurs, childMergeFloor: mergeFloor, childMove: moveOurs, childMoveFloor: moveFloor,
	}[work]
	err := fmt.Errorf("unknown work %q", work)
	switch {
	case known:
		err = report(ctx, dir, do, stdout)
	case work == childSandboxes:
		err = childTrialsInSandboxes(ctx, dir, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	return 0
}

func report(ctx context.Context, dir string, do func(context.Context, string) (time.Duration, error), stdout io.Writer) error {
	took, err := do(ctx, dir)
	if err != nil {
		return err
	}
	peak, err := peakMemory()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(usage{WallMS: milliseconds(took), PeakMB: peak})
}

func fakeTrials(ctx context.Context, dir string) (time.Duration, error) {
	provider := fake.New(fake.Options{})
	ours, err := newStage(ctx, dir, "hello", engineTasks, provider)
	if err != nil {
		return 0, err
	}
	took, _, err := ours.run(ctx, engineTrials, engineWorkers)
	return took, errors.Join(err, provider.Close())
}

func bareFiles(ctx context.Context, dir string) (time.Duration, error) {
	jobs, err := filepath.Glob(filepath.Join(dir, "jobs", "*"))
	if err != nil || len(jobs) != 1 {
		return 0, errors.Join(err, fmt.Errorf("want one job below %s, found %d", dir, len(jobs)))
	}
	s, err := readSample(jobs[0], engineTrials)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = writeFiles(ctx, s, filepath.Join(dir, "floor"), engineTrials, engineWorkers)
	return time.Since(began), err
}

// peakMemory returns this process's largest resident set, in millions of bytes. Source: proc(5), VmHWM.
func peakMemory() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kib float64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0, fmt.Errorf("read VmHWM in /proc/self/status: %w", err)
	}
	return kib * 1024 / 1e6, nil
}
