package compose

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/org/rollout-action/internal/lib/memfs"
)

// dockerfile is the name that a build expects.
const dockerfile = "Dockerfile"

// maxDockerfile bounds a Dockerfile.
const maxDockerfile = 1 << 20

// Files returns the context of b in the task's files, with its Dockerfile as Dockerfile.
func (b Build) Files(task fs.FS) (fs.FS, error) {
	context, err := fs.Sub(task, b.Context)
	if err != nil {
		return nil, err
	}
	own := dockerfile
	if b.Context != "." {
		own = b.Context + "/" + dockerfile
	}
	if b.Dockerfile == own && b.Target == "" {
		return context, nil
	}
	text, err := readFile(task, b.Dockerfile, maxDockerfile)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: b.Dockerfile, Err: err}
	}
	if b.Target != "" { // one more stage, which is the target: builders build no other than it needs
		text = fmt.Appendf(text, "\n\nFROM %s\n", b.Target)
	}
	return overlay{context, memfs.Dir{dockerfile: {Data: text, Mode: 0o644}}}, nil
}

var stages = regexp.MustCompile(`(?im)^[ \t]*FROM[ \t][^\n]*[ \t]AS[ \t]+([a-z][a-z0-9_.-]*)[ \t\r]*$`)

// hasStage reports whether a Dockerfile has a stage of a name.
func hasStage(dockerfile []byte, name string) bool {
	for _, found := range stages.FindAllSubmatch(dockerfile, -1) {
		if strings.EqualFold(string(found[1]), name) {
			return true
		}
	}
	return false
}

// overlay is a context with another Dockerfile.
type overlay struct {
	fs.FS
	top memfs.Dir
}

// Open implements fs.FS.
func (o overlay) Open(name string) (fs.File, error) {
	if name == dockerfile {
		return o.top.Open(name)
	}
	return o.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(o.FS, name)
	if name != "." || err != nil {
		return entries, err
	}
	own, err := fs.ReadDir(o.top, ".")
	if err != nil {
		return nil, err
	}
	var all []fs.DirEntry
	added := false
	for _, e := range entries {
		if !added && e.Name() >= dockerfile {
			all, added = append(all, own...), true
		}
		if e.Name() != dockerfile {
			all = append(all, e)
		}
	}
	if !added {
		all = append(all, own...)
	}
	return all, nil
}

// ReadLink implements fs.ReadLinkFS.
func (o overlay) ReadLink(name string) (string, error) { return fs.ReadLink(o.FS, name) }

// Lstat implements fs.ReadLinkFS.
func (o overlay) Lstat(name string) (fs.FileInfo, error) {
	if name == dockerfile {
		return fs.Stat(o.top, name)
	}
	return fs.Lstat(o.FS, name)
}
