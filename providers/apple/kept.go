package apple

import (
	"os"
	"path/filepath"
)

// kept notes which containers were stopped to be kept, as empty files in a directory: labels of
// containers cannot change, and a container that is not running may be the remains of a crash.
type kept struct{ dir string }

func (k kept) note(id string) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(k.file(id), nil, 0o600)
}

func (k kept) has(id string) bool {
	_, err := os.Stat(k.file(id))
	return err == nil
}

// forget removes a note. One that stays has no effect: no other container gets the name.
func (k kept) forget(id string) { _ = os.Remove(k.file(id)) }

func (k kept) file(id string) string { return filepath.Join(k.dir, filepath.Base(id)) }
