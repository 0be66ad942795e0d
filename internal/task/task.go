package task

import (
	"io/fs"

	"github.com/org/rollout-action/internal/diag"
)

// Task is one task directory.
type Task struct {
	Name        string // the folder's name
	Dir         string // absolute path, for messages
	FS          fs.FS  // rooted at Dir
	Config      Config
	GitCommitID *string // HEAD of the repository that holds Dir; nil outside git
	// Missing: there is nothing at Dir (task_not_found).
	Missing bool
	// Problems are what Load found. With errors among them, the task cannot be run (task_invalid).
	Problems diag.List
}

// Config is task.toml with defaults filled in. Source: specification, "task.toml".
type Config struct {
	Version     string
	Source      string
	Metadata    map[string]any
	Verifier    Verifier
	Agent       Agent
	Environment Environment
}

// Verifier is [verifier]; seconds.
type Verifier struct {
	TimeoutSec float64 // default 600
}

// Agent is [agent]; seconds.
type Agent struct {
	InstallTimeoutSec float64 // default 300
	TimeoutSec        float64 // default 600
}

// Environment is [environment].
type Environment struct {
	BuildTimeoutSec float64 // seconds, default 600
	DockerImage     string  // "" when the image is built from environment/
	MilliCPUs       int64   // default 1000
	Memory          int64   // bytes, default 2 GB ("2G")
	Storage         int64   // bytes, default 10 GB ("10G")
}
