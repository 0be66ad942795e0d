package trial

import (
	"io"
	"io/fs"
)

// worldReadable is a directory of the task for environments. All users can read its files, whatever
// the umask was at their checkout, and can execute those that their owner can. program names a file
// that all can execute, too; it may be "".
type worldReadable struct {
	fs.FS
	program string
}

// Open implements fs.FS.
func (e worldReadable) Open(name string) (fs.File, error) {
	f, err := e.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return readableFile{f, name == e.program}, nil
}

// ReadDir implements fs.ReadDirFS.
func (e worldReadable) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(e.FS, name)
	for i, entry := range entries {
		if entry.IsDir() {
			info, err := entry.Info()
			if err != nil {
				return entries[:i], err
			}
			entries[i] = fs.FileInfoToDirEntry(readableInfo{info, false})
		}
	}
	return entries, err
}

type readableFile struct {
	fs.File
	program bool
}

func (f readableFile) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return readableInfo{info, f.program}, nil
}

type readableInfo struct {
	fs.FileInfo
	program bool
}

func (i readableInfo) Mode() fs.FileMode {
	mode := i.FileInfo.Mode() | 0o444
	if i.program || mode&0o100 != 0 {
		mode |= 0o111
	}
	return mode
}

// scriptCommand returns the bash command that executes the script name in a directory at dir.
// Harbor executes such scripts directly, so that their first line names the interpreter; bash runs
// those without such a line.
func scriptCommand(dir string, files fs.FS, name string, asProgram bool) string {
	if asProgram && hasInterpreter(files, name) {
		return "exec " + dir + "/" + name
	}
	return "exec bash " + dir + "/" + name
}

// hasInterpreter reports whether a file begins with #!.
func hasInterpreter(files fs.FS, name string) bool {
	f, err := files.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "#!"
}
