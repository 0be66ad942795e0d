package action

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/lib/ghvars"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// checkTargets refuses a job whose results or records would be written through a link in the
// workspace.
func (s *Step) checkTargets(file *config.Loaded) error {
	if err := checkTarget(s.outer, "jobs_dir", s.outer.Path(file.Job.JobsDir)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(file.Job.Models)) {
		to := file.Job.Models[name].RecordTo
		if to == "" {
			continue
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(file.PathsFrom, to)
		}
		if err := checkTarget(s.outer, "models."+untrusted.Line(name)+".record_to", to); err != nil {
			return err
		}
	}
	return nil
}

// checkTarget refuses to write to a path, named by what, that leads through a link in the
// workspace: the link may come from an untrusted commit, and the step writes as root.
func checkTarget(h *host.Host, what, path string) error {
	workspace := ghvars.Read(h.Getenv).Workspace
	path, err := filepath.Abs(path)
	if workspace == "" || err != nil {
		return err
	}
	below, err := filepath.Rel(workspace, path)
	if err != nil || !filepath.IsLocal(below) {
		real, err := filepath.EvalSymlinks(workspace) // the current directory may be spelled without its links
		if err != nil {
			return nil // there is no workspace
		}
		if below, err = filepath.Rel(real, path); err != nil || !filepath.IsLocal(below) {
			return nil // another place, which the workflow chose
		}
	}
	at := workspace
	for part := range strings.SplitSeq(below, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return usage("%s: %w", what, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return usage("%s: %s is a link in the checkout, and Rollout writes nothing where it leads: remove the link, or name another place", what, untrusted.Line(h.Shown(at)))
		}
	}
	return nil
}
