package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// What is read of a file of an environment, whose size and kind are whatever the environment made of it.
const (
	tailBytes  = 64 << 10
	scanBytes  = 64 << 20 // of a file that can only be read from its start
	smallBytes = 8 << 20  // of a file that is read as a whole
)

// open opens a regular file that stands where its name says: no link is followed, neither to it nor on the way to it,
// for logs come out of environments, and folders of jobs out of artifacts. A pipe or a device is not opened at all.
func open(files fs.FS, name string) (fs.File, fs.FileInfo, error) {
	if files == nil {
		return nil, nil, fs.ErrNotExist
	}
	if !fs.ValidPath(name) {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := fs.Lstat(files, name[:i])
		switch {
		case err != nil:
			return nil, nil, err
		case i < len(name) && !info.IsDir(), i == len(name) && !info.Mode().IsRegular():
			return nil, nil, &fs.PathError{Op: "open", Path: name, Err: errNotPlain}
		}
	}
	file, err := files.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotPlain}
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

var errNotPlain = errors.New("not a plain file in a plain folder")

// readSmall reads a file as a whole, unless it is larger than smallBytes.
func readSmall(files fs.FS, name string) ([]byte, error) {
	file, _, err := open(files, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, smallBytes+1))
	if err == nil && len(data) > smallBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path.Base(name), smallBytes)
	}
	return data, err
}

// readTail reads the end of a file: at most tailBytes. cut says that there is more before.
func readTail(files fs.FS, name string) (data []byte, cut bool, err error) {
	file, info, err := open(files, name)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	if seeker, ok := file.(io.Seeker); ok && info.Size() > tailBytes {
		if _, err := seeker.Seek(info.Size()-tailBytes, io.SeekStart); err != nil {
			return nil, false, err
		}
		data, err = io.ReadAll(io.LimitReader(file, tailBytes))
		return data, true, err
	}
	return lastOf(io.LimitReader(file, scanBytes))
}

// lastOf is the last tailBytes of a stream.
func lastOf(r io.Reader) (data []byte, cut bool, err error) {
	buffer := make([]byte, 0, 2*tailBytes)
	for {
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if over := len(buffer) - tailBytes; over > 0 && (len(buffer) == cap(buffer) || err != nil) {
			buffer, cut = append(buffer[:0], buffer[over:]...), true
		}
		switch {
		case errors.Is(err, io.EOF):
			return buffer, cut, nil
		case err != nil:
			return buffer, cut, err
		}
	}
}
