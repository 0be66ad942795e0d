package task

import (
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/org/rollout-action/internal/lib/git"
)

// lfs caches which directories of tasks are in a checkout that uses git-lfs. It is safe for
// concurrent use.
type lfs struct{ parents sync.Map }

// keeps reports whether git-lfs tracks files of the directory dir. Many tasks share parent.
func (l *lfs) keeps(parent, dir string) bool {
	if known, ok := l.parents.Load(parent); ok && known == true {
		return true
	}
	keeps := git.KeepsFilesInLFS(dir)
	if keeps && git.KeepsFilesInLFS(parent) {
		l.parents.Store(parent, true)
	}
	return keeps
}

// IsPointer reports whether a file below the directory dir is a pointer of git-lfs whose content
// was not fetched. It is false where no .gitattributes makes git-lfs track files.
func IsPointer(dir, name string, size int64) bool {
	return git.IsPointer(Tree(dir), name, size) && git.KeepsFilesInLFS(filepath.Dir(filepath.Join(dir, filepath.FromSlash(name))))
}

// MayBePointer reports whether a file below the directory dir looks like a pointer of git-lfs. It
// is for directories outside of any checkout, which may lack the .gitattributes.
func MayBePointer(dir, name string, size int64) bool {
	return git.IsPointer(Tree(dir), name, size) && git.MayKeepFilesInLFS(filepath.Dir(filepath.Join(dir, filepath.FromSlash(name))))
}

// PointersProblem returns the message about files for which IsPointer is true, and a hint.
func PointersProblem(names []string) (message, hint string) {
	return "only pointers of git-lfs: " + git.PointersText(names), git.HowToFetchPointers
}

// PointersWarning returns the message about files for which MayBePointer is true, and a hint.
func PointersWarning(names []string) (message, hint string) {
	return "look like pointers of git-lfs: " + git.PointersText(names), "if they come from a checkout, run git lfs pull there and copy them again"
}

// checkPointers records a problem if files of the task are only pointers of git-lfs, because the
// task differs from the one that its author wrote. kept reports that git-lfs is known to track
// files there.
func (p *problems) checkPointers(fsys fs.FS, kept bool) {
	var names []string
	_ = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // checkFiles reports what cannot be read
		}
		if info, err := e.Info(); err == nil && git.IsPointer(fsys, name, info.Size()) {
			names = append(names, name)
		}
		return nil
	})
	switch {
	case len(names) == 0:
	case kept:
		message, hint := PointersProblem(names)
		p.add("", "has files that are "+message, hint)
	default:
		message, hint := PointersWarning(names)
		p.warn("", "has files that "+message, hint)
	}
}
