package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
)

// digestOnce caches a digest.
type digestOnce struct {
	once  sync.Once
	value string
	fault error // a fault of this machine that prevented reading the files
}

// Digest returns "sha256:…" over the names of the task's files and directories, their contents, the
// targets of links, and which files are executable. Tasks with equal digests are the same task,
// wherever they are and whoever checked them out; in another format they are another task. It
// returns "" if something cannot be read. The first call reads every file; Digest is safe for
// concurrent use.
func (t *Task) Digest() string {
	t.digest.once.Do(func() {
		value, err := digest(t.FS, t.Format)
		switch fault := environment.MachineFault(err); {
		case fault != nil:
			t.digest.fault = err
		case err == nil && !t.Missing:
			t.digest.value = value
		}
	})
	return t.digest.value
}

func digest(fsys fs.FS, format Format) (string, error) {
	sum := sha256.New()
	if format != FormatRollout && format != "" {
		fmt.Fprintf(sum, "format %q\n", format)
	}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch kind := entry.Type(); {
		case kind.IsDir():
			fmt.Fprintf(sum, "folder %q\n", name)
		case kind&fs.ModeSymlink != 0:
			target, err := fs.ReadLink(fsys, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "link %q %q\n", name, target)
		case kind.IsRegular():
			return digestFile(sum, fsys, name)
		default:
			fmt.Fprintf(sum, "other %q\n", name)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

func digestFile(sum io.Writer, fsys fs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return err
	}
	fmt.Fprintf(sum, "file %q %t %x\n", name, info.Mode()&0o100 != 0, content.Sum(nil))
	return nil
}
