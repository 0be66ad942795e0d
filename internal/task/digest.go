package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/org/rollout-action/internal/environment"
)

// digestOnce keeps a digest that is made when it is first asked for.
type digestOnce struct {
	once  sync.Once
	value string
	fault error // this machine's, which kept the files from being read
}

// Digest is "sha256:…" of what the task consists of: the names of its files and directories, their contents, what links
// point to, and whether files are executable. Tasks with equal digests are the same task, wherever they are and
// whoever checked them out; but read in another format, they are another task. It is "" if something cannot be read. It reads every file, once, when it is first
// called; many goroutines may call it.
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
