package environment

import (
	"errors"
	"fmt"
	"slices"
)

// ErrVolume is in the chain of CreateEnvironment's error if the image has a VOLUME at a path that
// Rollout replaces: the task is at fault.
var ErrVolume = errors.New("the image has a VOLUME where Rollout puts its own files")

// CheckVolumes returns the error of an image with these VOLUMEs, or nil. A mount point cannot be
// replaced, and providers that make no mounts refuse it as well, so that a task runs everywhere or
// nowhere.
func CheckVolumes(volumes []string) error {
	replaced := append(SpecialDirs(), VerifierLogs)
	for _, volume := range volumes {
		if slices.ContainsFunc(replaced, func(dir string) bool { return dir != LogsDir && Within(volume, dir) }) {
			return &Error{Kind: KindStart, Err: fmt.Errorf("%w: %s", ErrVolume, volume), Hint: "remove this VOLUME from the Dockerfile of the task, or use another image"}
		}
	}
	return nil
}
