//go:build linux

package initproc

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

var errWorkDir = errors.New("make the image's working directory")

// makeWorkDir creates a directory and its parents, as an engine does for the WORKDIR of an image
// that lacks it. It follows links, also those to directories that it has to create first.
func makeWorkDir(dir string) error {
	const maxLinks = 40 // as the kernel
	at, links := "/", 0
	for todo := strings.Split(dir, "/"); len(todo) > 0; {
		next := path.Join(at, todo[0])
		todo = todo[1:]
		if next == at {
			continue
		}
		if target, err := os.Readlink(next); err == nil {
			if links++; links > maxLinks {
				return unix.ELOOP
			}
			if path.IsAbs(target) {
				at = "/"
			}
			todo = append(strings.Split(target, "/"), todo...)
			continue
		}
		if err := os.Mkdir(next, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		at = next
	}
	info, err := os.Stat(at)
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	return err
}
