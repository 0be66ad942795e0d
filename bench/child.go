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

	"github.com/org/rollout-action/internal/core/result"
)

// childArg is the first argument when this program runs itself to measure a separate process or
// another user.
const childArg = "child"

// works lists the works of a child. They return durations in milliseconds.
var works = map[string]func(context.Context, *bench) ([]float64, error){
	"trials": runTrials, "link": mergeInto(false), "move": mergeInto(true), "floor": once(linkShards), "size": once(mergeAndReport), "size-base": once(sizeBase), "size-floor": once(linkTree), "sandbox": trialsInSandboxes,
	"streams": runStreams(true), "streams-direct": runStreams(false), "pods": runPods(environments), "pods-direct": runPods(echoes),
	"view-index": firstPage(""), "view-job": firstPage("job/job-050/"), "read-index": readFiles("*/plan.json", "*/result.json", "*/config.json"),
	"read-job": readFiles("job-050/*.json", "job-050/*/*/*/result.json"), "view-conversation": firstPage("job/job-050/t/" + conversationTrial + "/"),
	"read-conversation": readFiles("job-050/" + conversationTrial + "/" + result.ATIFFile),
}

// childReport is the output of a child.
type childReport struct {
	Values  []float64 `json:"values"`
	PeakMB  float64   `json:"peak_mb"`           // millions of bytes
	Missing string    `json:"missing,omitempty"` // why the measurement is not possible
}

// inChild measures the first value of a work in a separate process, and records the peak memory of
// that process. The process has its own directory below parent. Nothing is removed before the end:
// for minutes after a removal, some file systems (ext4) are slow to create files, because they do
// not reuse the numbers of the removed ones.
func (b *bench) inChild(parent, work string) measured {
	return func(ctx context.Context) (float64, error) {
		b.children++
		dir := filepath.Join(b.dir, parent, strconv.Itoa(b.children))
		report, err := b.startChild(exec.CommandContext(ctx, "/proc/self/exe"), work, dir)
		if err != nil {
			return 0, err
		}
		b.peaks[work] = append(b.peaks[work], report.PeakMB)
		return report.Values[0], nil
	}
}

// startChild runs this program as a child. cmd contains its path: one that is accessible to users
// who may not enter the directory of a program that "go run" built.
func (b *bench) startChild(cmd *exec.Cmd, work, dir string) (report childReport, err error) {
	if _, err := os.Stat(cmd.Path); err != nil {
		return report, fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	cmd.Args = append(cmd.Args, childArg, "-work", work, "-dir", dir, "-image", b.image, "-rounds", strconv.Itoa(b.rounds))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return report, fmt.Errorf("%s in a separate process: %w\n%s", work, err, &stderr)
	}
	if err = json.Unmarshal(out, &report); err == nil && report.Missing != "" {
		err = fmt.Errorf("%w: %s", errUnmeasurable, report.Missing)
	}
	return report, err
}

// work runs the work of a child.
func (b *bench) work(ctx context.Context, name string, stdout io.Writer) (err error) {
	var report childReport
	if works[name] == nil {
		return fmt.Errorf("unknown work %q", name)
	}
	report.Values, err = works[name](ctx, b)
	if errors.Is(err, errUnmeasurable) {
		report.Missing, err = err.Error(), nil
	}
	var peakErr error
	report.PeakMB, peakErr = memoryOf("/proc/self/status", "VmHWM:")
	return errors.Join(err, peakErr, json.NewEncoder(stdout).Encode(report))
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
