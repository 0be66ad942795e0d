package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

// Bounds of reading a file from an environment, which may have any size and kind.
const (
	headBytes  = 16 << 10 // a quarter of both, as in excerpt.Ends
	tailBytes  = 48 << 10
	scanBytes  = 64 << 20 // of a file that cannot be read from its end
	smallBytes = 8 << 20  // of a file that is read as a whole
)

// open opens a regular file. It follows no link, neither to the file nor on the way to it, because
// logs come out of environments and directories of jobs out of artifacts. It does not open pipes
// and devices.
func open(files fs.FS, name string) (fs.File, fs.FileInfo, error) {
	if _, err := sizeOf(files, name); err != nil {
		return nil, nil, err
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

// sizeOf returns the size of a file that open would open, without that.
func sizeOf(files fs.FS, name string) (int64, error) {
	if files == nil {
		return 0, fs.ErrNotExist
	}
	if !fs.ValidPath(name) {
		return 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	switch err := plainAbove(files, name); {
	case errors.Is(err, errNotPlain):
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	case err != nil:
		return 0, err
	}
	info, err := fs.Lstat(files, name)
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, &fs.PathError{Op: "open", Path: name, Err: errNotPlain}
	}
	return info.Size(), nil
}

// plainAbove returns an error unless all directories above a valid path are there, and none of them
// is a link.
func plainAbove(files fs.FS, name string) error {
	for i := range len(name) {
		if name[i] == '/' {
			if err := plainDir(files, name[:i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainDir returns an error unless a path is a directory, and not a link.
func plainDir(files fs.FS, dir string) error {
	looked, ok := files.(*lookedAt)
	if ok {
		if err, known := looked.dirs[dir]; known {
			return err
		}
	}
	info, err := fs.Lstat(files, dir)
	if err == nil && !info.IsDir() {
		err = errNotPlain
	}
	if ok {
		looked.note(dir, err)
	}
	return err
}

// LookOnce returns files that remember which directories are plain, for a reporter that looks for
// many logs of many trials: it looks at each directory once, and at nothing below one that is not
// there. What changes meanwhile may be missed. The result is not safe for concurrent use.
func LookOnce(files fs.FS) fs.FS {
	if files == nil {
		return nil
	}
	return &lookedAt{FS: files, dirs: map[string]error{}}
}

// lookedAt is the result of LookOnce.
type lookedAt struct {
	fs.FS
	dirs map[string]error // of some directories, why they are not plain
}

// maxLookedAt bounds the directories that are remembered. Reporters look at a trial's together.
const maxLookedAt = 1000

func (l *lookedAt) note(dir string, err error) {
	if len(l.dirs) >= maxLookedAt {
		clear(l.dirs)
	}
	l.dirs[dir] = err
}

// Lstat implements fs.ReadLinkFS.
func (l *lookedAt) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(l.FS, name) }

// ReadLink implements fs.ReadLinkFS.
func (l *lookedAt) ReadLink(name string) (string, error) { return fs.ReadLink(l.FS, name) }

// IsDir reports whether dir is a directory in the job's directory, with no link on the way to it.
func IsDir(in Input, dir string) bool {
	return in.Files != nil && fs.ValidPath(dir) && plainAbove(in.Files, dir) == nil && plainDir(in.Files, dir) == nil
}

var errNotPlain = errors.New("not a regular file in a directory")

// readSmall reads a whole file. It fails if the file is larger than smallBytes.
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

// readEnds reads the beginning and the end of a file: at most headBytes and tailBytes, in whole
// lines if there are any. dropped is the number of bytes between them. If it is 0, tail is all of
// the file.
func readEnds(files fs.FS, name string) (head, tail []byte, dropped int64, err error) {
	file, info, err := open(files, name)
	if err != nil {
		return nil, nil, 0, err
	}
	defer file.Close()
	if seeker, ok := file.(io.Seeker); ok && info.Size() > headBytes+tailBytes {
		head, err = io.ReadAll(io.LimitReader(file, headBytes))
		if err != nil {
			return nil, nil, 0, err
		}
		if _, err := seeker.Seek(info.Size()-tailBytes, io.SeekStart); err != nil {
			return nil, nil, 0, err
		}
		tail, err = io.ReadAll(io.LimitReader(file, tailBytes))
		dropped = info.Size() - headBytes - tailBytes
	} else {
		ends := excerpt.Ends{Size: headBytes + tailBytes}
		_, err = io.Copy(&ends, io.LimitReader(file, scanBytes))
		var n int
		head, tail, n = ends.Parts()
		dropped = int64(n)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	if dropped == 0 {
		return nil, append(head, tail...), 0, nil
	}
	if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
		dropped += int64(len(head) - i - 1)
		head = head[:i+1]
	}
	if i := bytes.IndexByte(tail, '\n'); i >= 0 {
		dropped += int64(i + 1)
		tail = tail[i+1:]
	}
	return head, tail, dropped, nil
}
