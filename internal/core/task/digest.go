package task

import (
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task/taskdir"
)

// digestOnce caches a digest.
type digestOnce struct {
	once  sync.Once
	value string
	fault error // a fault of this machine that prevented reading the files
}

// Digest returns "sha256:…" over the names of the task's files and directories, their contents, the
// targets of links, and which files are executable. Tasks with equal digests are the same task,
// wherever they are and whoever checked them out; in another format they are another task. It
// returns "" if something cannot be read. The first call reads every file; Digest is safe for
// concurrent use.
func (t *Task) Digest() string {
	t.digest.once.Do(func() {
		format := string(t.Format)
		if t.Format == FormatRollout {
			format = ""
		}
		value, err := taskdir.Digest(t.FS, format)
		switch fault := environment.MachineFault(err); {
		case fault != nil:
			t.digest.fault = err
		case err == nil && !t.Missing:
			t.digest.value = value
		}
	})
	return t.digest.value
}
