package git

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// isDiskError reports whether err comes from the disk or the system, not from the file's name.
func isDiskError(err error) bool {
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}

// reason returns err without operation and path, which the problem names already.
func reason(err error) string {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	}
	return err.Error()
}
