package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/output/export"
	"github.com/org/rollout-action/internal/run/job"
)

// ExportRequest is the request of Export.
type ExportRequest struct {
	Dir    string // of a job
	Format string // one of export.Formats
	// MinReward leaves out trials with a lower reward or none; nil: all are written.
	MinReward *float64
	Trainable bool      // leaves out trials of agents that are not trainable
	Output    string    // the file to write, as a whole or not at all; "": To is written
	To        io.Writer // used without Output
}

// Export writes the trials of a job that have a result, and returns their number.
func Export(ctx context.Context, h *host.Host, req ExportRequest) (export.Report, error) {
	if !slices.Contains(export.Formats, req.Format) {
		return export.Report{}, host.Usagef("--format %s: there are %s", host.Clean(req.Format), strings.Join(export.Formats, ", "))
	}
	if req.MinReward != nil && math.IsNaN(*req.MinReward) {
		return export.Report{}, host.Usagef("--min-reward NaN: write a number")
	}
	if err := h.CheckJobDir(req.Dir); err != nil {
		return export.Report{}, err
	}
	opts := export.Options{Dir: h.Path(req.Dir), Format: req.Format, MinReward: req.MinReward, Trainable: req.Trainable, Instruction: func(t result.PlannedTask) []result.Message { return instruction(h.Path("."), t) }}
	end := func() {}
	opts.Begin = func(trials int) func() {
		work := event.Begin(ctx, "Exporting trials", trials)
		end = work.End
		return work.Step
	}
	defer func() { end() }()
	var report export.Report
	var err error
	if req.Output == "" {
		report, err = export.Write(ctx, req.To, opts)
	} else {
		report, err = export.WriteFile(ctx, h.Path(req.Output), opts)
	}
	if errors.Is(err, fs.ErrNotExist) && report.Trials == 0 {
		return report, host.Usagef("%w (give the directory of a job, such as jobs/nightly)", err)
	}
	if err != nil {
		return report, fmt.Errorf("export %s: %w", req.Dir, err)
	}
	return report, nil
}

// instruction returns the prompt of a task as seen from a directory, or nil if the task's own
// directory has changed since the job was planned.
func instruction(dir string, planned result.PlannedTask) []result.Message {
	path := filepath.FromSlash(planned.Path)
	if planned.Digest == "" || !filepath.IsLocal(path) {
		return nil
	}
	here, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	for _, top := range []string{here, commits.Around(here).Top} {
		if top == "" {
			continue
		}
		loader := task.Loader{Options: task.Options{Format: task.Format(planned.Format)}}
		if t := loader.Load(filepath.Join(top, path)); t.Digest() == planned.Digest {
			return job.Instruction(t, nil)
		}
	}
	return nil
}
