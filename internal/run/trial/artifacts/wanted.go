// Package artifacts determines which files a trial keeps of its environment, keeps them, reads
// their lists in the trial's directory, and restores them in another environment.
package artifacts

import (
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
)

// Wanted returns a task's artifacts, and those of the job's paths that are not among them.
// A path whose place in the trial's directory the task gives to another one gets a separate place.
func Wanted(ofTask []task.Artifact, paths []string) []task.Artifact {
	out := slices.Clone(ofTask)
	for _, p := range paths {
		if slices.ContainsFunc(ofTask, func(a task.Artifact) bool {
			return len(a.Exclude) == 0 && (a.Service == "" || a.Service == environment.MainService) && Within(p, a.Source)
		}) {
			continue
		}
		destination := strings.TrimPrefix(p, "/")
		for slices.ContainsFunc(out, func(a task.Artifact) bool {
			return Within(a.Destination, destination) || Within(destination, a.Destination)
		}) {
			destination = "job/" + destination
		}
		out = append(out, task.Artifact{Source: p, Destination: destination})
	}
	return out
}

// Within reports whether name is dir or below it.
func Within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
