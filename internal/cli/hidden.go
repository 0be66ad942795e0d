package cli

import (
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/cache"
)

// hidden returns the files and directories of this machine that no environment of a job may show; see
// providers.Host. Tasks are listed besides their datasets, which may be put together of links.
func (a *app) hidden(p *session) []string {
	paths := slices.Concat([]string{".", p.Job.JobsDir, filepath.Join(p.Job.JobsDir, p.Job.Name)}, p.DatasetDirs, p.TaskDirs, p.taskDirs)
	if root, err := cache.Root(a.Getenv); err == nil {
		paths = append(paths, filepath.Join(root, cache.DirsName)) // tasks that other jobs use; not the whole cache, in which a provider may live
	}
	if p.path != "-" {
		paths = append(paths, p.path)
	}
	var hidden []string
	for _, path := range paths {
		abs, err := filepath.Abs(a.path(path))
		if err != nil {
			continue // there is no current directory, so nothing is found from there
		}
		hidden = append(hidden, abs, resolved(abs))
	}
	slices.Sort(hidden)
	return slices.Compact(hidden)
}

// resolved follows the links in an absolute path, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}
