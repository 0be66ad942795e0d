package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/lib/nofollow"
)

// TrialReader reads the results of many trials from directories that are open. It is not safe for
// concurrent use.
type TrialReader struct{ buffer nofollow.Buffer }

// Read reads the result.json in dir, a trial's directory, into a zero Trial, and reports whether
// there is one. Errors name the file by label, the path of the directory as shown to users. check
// may refuse the file's text; nil accepts all. A link is not followed.
func (r *TrialReader) Read(dir *os.File, label string, key Key, into *Trial, check func(text []byte, file string) error) (bool, error) {
	file := filepath.Join(label, ResultFile)
	text, err := r.buffer.ReadAt(dir, ResultFile, file, MaxTrialFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	if check != nil {
		if err := check(text, file); err != nil {
			return false, err
		}
	}
	if err := ParseTrial(text, key, into); err != nil {
		*into = Trial{}
		return false, fmt.Errorf("%s: %w", file, err)
	}
	return true, nil
}
