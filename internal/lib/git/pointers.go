package git

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxAttributes is the maximum number of bytes that are read of a .gitattributes file.
const maxAttributes = 1 << 20

// KeepsFilesInLFS reports whether a .gitattributes of a directory, or of one around it in its
// checkout, assigns files to git-lfs. It runs no program.
func KeepsFilesInLFS(dir string) bool {
	keeps, _ := attributesSay(dir)
	return keeps
}

// MayKeepFilesInLFS reports whether no .gitattributes assigns files to git-lfs, but the directory
// is in no checkout, so that this is not certain.
func MayKeepFilesInLFS(dir string) bool {
	keeps, inCheckout := attributesSay(dir)
	return !keeps && !inCheckout
}

func attributesSay(dir string) (keeps, inCheckout bool) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		if text, err := readSome(filepath.Join(dir, ".gitattributes"), maxAttributes); err == nil && bytes.Contains(text, []byte("filter=lfs")) {
			keeps = true
		}
		_, err := os.Lstat(filepath.Join(dir, ".git"))
		inCheckout = err == nil
		parent := filepath.Dir(dir)
		if keeps || inCheckout || parent == dir {
			return keeps, inCheckout
		}
		dir = parent
	}
}

func readSome(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// IsPointer reports whether a file of a tree is a pointer of git-lfs: it stands for another file,
// which git-lfs has not fetched.
func IsPointer(tree fs.FS, name string, size int64) bool {
	if size == 0 || size >= maxPointer {
		return false
	}
	f, err := tree.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPointer))
	if err != nil {
		return false
	}
	_, _, is := parsePointer(text)
	return is
}

// PointersText returns a list of files for a message, with at most five names.
func PointersText(names []string) string {
	const most = 5
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// HowToFetchPointers is the remedy for files that are only pointers of git-lfs.
const HowToFetchPointers = "run git lfs pull; in a workflow, give actions/checkout or the reusable workflow the input lfs: true"
