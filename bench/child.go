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
)

// childArg is the first argument of this program when it starts itself, to measure a process that does one thing or has another
// user. The name of the work, a directory, the image and the rounds follow.
const childArg = "child"

// works are what a child can do. They return durations in milliseconds.
var works = map[string]func(context.Context, *bench) ([]float64, error){
	"trials": runTrials, "merge": mergeByLinking, "merge-move": mergeByMoving, "merge-floor": mergeBare, "sandbox": trialsInSandboxes,
}

// childReport is the output of a child.
type childReport struct {
	Values  []float64 `json:"values"`
	PeakMB  float64   `json:"peak_mb"`           // millions of bytes
	Missing string    `json:"missing,omitempty"` // why nothing could be measured
}

// inChild measures the first value of a work done in a process of its own, and appends the largest memory of that process.
func (b *bench) inChild(work string, dir func() string, memory *[]float64) measured {
	return func(ctx context.Context) (float64, error) {
		report, err := b.startChild(exec.CommandContext(ctx, "/proc/self/exe"), work, filepath.Join(b.dir, dir()))
		if err != nil {
			return 0, err
		}
		if memory != nil {
			*memory = append(*memory, report.PeakMB)
		}
		return report.Values[0], nil
	}
}

// startChild runs this program as a child. cmd has its path: a name that users can start who may not enter the directory of a
// program that "go run" built.
func (b *bench) startChild(cmd *exec.Cmd, work, dir string) (childReport, error) {
	var report childReport
	if _, err := os.Stat(cmd.Path); err != nil {
		return report, fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	cmd.Args = append(cmd.Args, childArg, work, dir, b.image, strconv.Itoa(b.rounds))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return report, fmt.Errorf("%s in a process of its own: %w\n%s", work, err, &stderr)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return report, err
	}
	if report.Missing != "" {
		return report, fmt.Errorf("%w: %s", errUnmeasurable, report.Missing)
	}
	return report, nil
}

// child does the work of a child, and returns its exit code.
func child(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if err := doWork(ctx, args, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	return 0
}

func doWork(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 4 || works[args[0]] == nil {
		return fmt.Errorf("unknown work %q", args)
	}
	rounds, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	var report childReport
	report.Values, err = works[args[0]](ctx, &bench{dir: args[1], image: args[2], rounds: rounds, stderr: stderr})
	if errors.Is(err, errUnmeasurable) {
		report.Missing, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	if report.PeakMB, err = memoryOf("/proc/self/status", "VmHWM:"); err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(report)
}

// memoryOf reads a field of a process, in millions of bytes. Source: proc(5).
func memoryOf(file, field string) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte(field))
	var kib float64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0, fmt.Errorf("read %s in %s: %w", field, file, err)
	}
	return kib * 1024 / 1e6, nil
}
