package taskdir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
)

// Digest returns "sha256:…" over the names of the files and directories of a tree, their contents,
// the targets of links, and which files are executable. format is a part of it unless it is "".
func Digest(fsys fs.FS, format string) (string, error) {
	sum := sha256.New()
	if format != "" {
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
