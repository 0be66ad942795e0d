package nofollow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Buffer reads many small files into one buffer. It is not safe for concurrent use.
type Buffer struct{ data []byte }

// ReadAt reads the regular file name in dir, of at most limit bytes. The result is valid until the
// next call. label names the file in errors.
func (b *Buffer) ReadAt(dir *os.File, name, label string, limit int64) ([]byte, error) {
	// Without an os.File: a job has up to a hundred thousand results, and making one takes as long
	// as reading.
	fd, err := b.open(dir, name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: label, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	switch err := unix.Fstat(fd, &stat); {
	case err != nil:
		return nil, &fs.PathError{Op: "stat", Path: label, Err: err}
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s: is not a file", label)
	case stat.Size > limit:
		return nil, fmt.Errorf("%s: has %d bytes, more than the %d that are read", label, stat.Size, limit)
	}
	if int64(cap(b.data)) < stat.Size {
		b.data = make([]byte, 2*stat.Size)
	}
	data, n := b.data[:stat.Size], 0
	for n < len(data) {
		got, err := unix.Read(fd, data[n:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: label, Err: err}
		case got == 0:
			return data[:n], nil
		}
		n += got
	}
	return data, nil
}

func (b *Buffer) open(dir *os.File, name string) (int, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, fileFlags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
