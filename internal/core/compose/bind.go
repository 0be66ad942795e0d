package compose

import (
	"errors"
	"io/fs"
	"path"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/memfs"
)

// maxBound bounds a single file of the task in volumes.
const maxBound = 16 << 20

// bind adds a file or directory of the task. It is copied, because the machine of the engine does
// not have the task: what a service writes there stays in the service.
func (s *service) bind(at []string, name, target string) {
	info, err := fs.Stat(s.FS, name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // docker compose makes a directory
		s.to.Files = append(s.to.Files, environment.Copy{Src: memfs.Dir{}, Dst: target})
	case err != nil:
		s.at(at, "", "%s cannot be read", name)
	case info.IsDir():
		below, err := fs.Sub(s.FS, name)
		if err != nil {
			s.at(at, "", "%s cannot be read", name)
			return
		}
		s.to.Files = append(s.to.Files, environment.Copy{Src: below, Dst: target, Clean: true})
	default:
		text, err := readFile(s.FS, name, maxBound)
		if err != nil {
			s.at(at, "", "%s: %v", name, err)
			return
		}
		dir, base := path.Split(target)
		s.to.Files = append(s.to.Files, environment.Copy{Src: memfs.Dir{base: {Data: text, Mode: info.Mode().Perm()}}, Dst: path.Clean(dir)})
	}
}
