package config

import (
	"encoding/json"
	"fmt"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/fields"
)

// Implied is a job that a command line describes, without a job file. Its paths are relative to the
// current directory.
type Implied struct {
	Name     string        `json:"-"` // its name in messages
	Agents   []agent.Agent `json:"agents"`
	Datasets []Dataset     `json:"datasets,omitempty"`
	Tasks    []string      `json:"tasks,omitempty"`
	// Format is that of tasks and datasets; "": the default. Origin is the flag that gives it.
	Format Format `json:"-"`
	Origin string `json:"-"`
}

// LoadImplied checks and completes a job without a job file. The error is as in Load.
func LoadImplied(job Implied, opts Options) (*Loaded, error) {
	opts, err := opts.completed()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("make a job for %s: %w", job.Name, err)
	}
	var p fields.Problems
	root := parseJSON(job.Name, text, &p)
	flag(root, fields.Place{File: job.Name})
	if job.Format != "" {
		var formats []Override
		for i := range job.Datasets {
			formats = append(formats, Override{Path: fmt.Sprintf("datasets.%d.format", i), Literal: string(job.Format), Origin: job.Origin})
		}
		if len(job.Tasks) > 0 {
			formats = append(formats, Override{Path: "tasks_format", Literal: string(job.Format), Origin: job.Origin})
		}
		opts.Overrides = append(formats, opts.Overrides...)
	}
	return source{file: job.Name, dir: opts.Dir}.load(root, &p, opts)
}
