package reuse

import (
	"errors"
	"fmt"
	"os"

	"github.com/org/rollout-action/internal/core/result"
)

// Share returns the results of these trials in a source, without further checks, except those of
// cancelled trials. It is for a job that ran at the same time as this one, where these trials were
// the same.
func Share(s Source, keys []result.Key) ([]Found, error) {
	var reader result.TrialReader
	var found []Found
	for _, key := range keys {
		var t result.Trial
		opened, err := openTrial(s.Dir, key)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		there := false
		if err == nil {
			there, err = reader.Read(opened, s.Label, key, &t, nil)
			err = errors.Join(err, opened.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("read %s in %s: %w", key, s.Label, err)
		}
		if !there || t.Error != nil && t.Error.Type == result.Cancelled {
			continue
		}
		found = append(found, s.Take(t))
	}
	return found, nil
}
