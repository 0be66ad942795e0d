package samefiles

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // names objects, as git does
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// file copies a file if its content is the commit's. It reads the file once.
func (c *Checker) file(e Entry) error {
	switch info, err := c.from.Lstat(e.Path); {
	case errors.Is(err, fs.ErrNotExist):
		return &Refusal{Path: e.Path, Why: "is missing here"}
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return &Refusal{Path: e.Path, Why: "is a file in that commit, and a link here"}
	case err == nil && !info.Mode().IsRegular():
		return &Refusal{Path: e.Path, Why: "is a file in that commit, and something else here"}
	}
	// Even if the file was replaced meanwhile, only the commit's content is copied.
	in, err := c.from.OpenFile(e.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return &Refusal{Path: e.Path, Why: "cannot be read: " + reason(err)}
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return &Refusal{Path: e.Path, Why: "is a file in that commit, and something else here"}
	}
	mode := fs.FileMode(0o644)
	if e.Mode == ModeProgram {
		mode = 0o755
	}
	if err := c.to.MkdirAll(path.Dir(e.Path), 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", e.Path, err)
	}
	out, err := c.to.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("copy %s: %w", e.Path, err)
	}
	same, err := copyChecked(out, in, info.Size(), e.ID)
	if err == nil {
		err = out.Chmod(mode) // whatever the umask
	}
	err = errors.Join(err, out.Close())
	if err == nil && same {
		return nil
	}
	if removeErr := c.to.Remove(e.Path); removeErr != nil {
		err = errors.Join(err, removeErr)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", e.Path, err)
	}
	return &Refusal{Path: e.Path, Why: "differs from that commit's", Hint: c.hint(e)}
}

// copyChecked copies size bytes, and reports whether they are the content of the object id: the
// blob itself, or the file that its Git LFS pointer stands for.
func copyChecked(out io.Writer, in io.Reader, size int64, id string) (bool, error) {
	blob, content := newHash(id), sha256.New()
	fmt.Fprintf(blob, "blob %d\x00", size)
	n, err := io.Copy(io.MultiWriter(out, blob, content), io.LimitReader(in, size))
	if err != nil || n != size {
		return false, err
	}
	if hex.EncodeToString(blob.Sum(nil)) == id {
		return true, nil
	}
	pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", content.Sum(nil), size)
	return idOf(id, []byte(pointer)) == id, nil
}

// maxHint is the maximum number of bytes of a file that are read again to find out how it differs.
const maxHint = 4 << 20

// hint returns how a file differs, if that is known, or "".
func (c *Checker) hint(e Entry) string {
	in, err := c.from.OpenFile(e.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxHint))
	if err == nil && idOf(e.ID, bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))) == e.ID {
		return `only in line endings, which git converted: write "* -text" into .gitattributes, or set core.autocrlf to false before the checkout`
	}
	return ""
}

// newHash returns the hash that an object's id was computed with.
func newHash(id string) hash.Hash {
	if len(id) == hex.EncodedLen(sha256.Size) {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // as above
}

// idOf returns the id of a blob, by the algorithm of the id like.
func idOf(like string, content []byte) string {
	h := newHash(like)
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}
