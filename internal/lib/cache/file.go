package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// File is a file of the cache.
type File struct {
	Data []byte
	At   time.Time // when it was written
}

// fileHead is the first line of a file in the cache.
type fileHead struct {
	About string    `json:"about"`
	At    time.Time `json:"at"`
}

// maxFile is the maximum number of bytes that are read of a file.
const maxFile = 256 << 20

// ReadFile returns the file of a key. If there is none, or it is damaged, the error is
// fs.ErrNotExist.
func (c *Cache) ReadFile(key Key) (File, error) {
	path := c.filePath(key)
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return File{}, err
	}
	head, ok := headOf(text)
	if !ok {
		return File{}, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	now := c.now()
	_ = os.Chtimes(path, now, now) // a read-only cache stores no times
	_, data, _ := bytes.Cut(text, []byte("\n"))
	return File{Data: data, At: head.At}, nil
}

// WriteFile stores the file of a key and replaces an earlier one.
func (c *Cache) WriteFile(key Key, data []byte) error {
	if err := c.makeDirs(filepath.Join("files", key.Kind)); err != nil {
		return err
	}
	head, err := json.Marshal(fileHead{About: key.About, At: c.now().UTC()})
	if err != nil {
		return err
	}
	d, err := c.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	temp := filepath.Join(d.dir, "file")
	if err := writeSynced(temp, append(append(head, '\n'), data...)); err != nil {
		return c.cannotWrite(err)
	}
	if err := os.Rename(temp, c.filePath(key)); err != nil {
		return c.cannotWrite(err)
	}
	c.shrink()
	return nil
}

func (c *Cache) filePath(key Key) string { return c.path("files", key.Kind, key.id()) }

func headOf(text []byte) (fileHead, bool) {
	var head fileHead
	line, _, found := bytes.Cut(text, []byte("\n"))
	return head, found && json.Unmarshal(line, &head) == nil
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
