package buildcontext

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/tonistiigi/fsutil"
	"github.com/tonistiigi/fsutil/types"
)

// Definition is all that an image is built from: a Dockerfile with its context.
type Definition struct {
	Context
	Dockerfile []byte
}

// Read reads a directory's Dockerfile and ignore file. It fails with fs.ErrNotExist if there is no
// Dockerfile.
func Read(source fs.FS) (Definition, error) {
	dockerfile, err := fs.ReadFile(source, Dockerfile)
	if err != nil {
		return Definition{}, err
	}
	opened, err := Open(source)
	return Definition{Context: opened, Dockerfile: dockerfile}, err
}

// Digest returns what identifies the image that is built: a checksum of the Dockerfile, every file
// that is not ignored (path, mode and content), the arguments and the platform.
func (c Definition) Digest(ctx context.Context, args map[string]string, platform string) (string, error) {
	sum := sha256.New()
	field(sum, platform)
	field(sum, string(c.Dockerfile))
	for _, key := range slices.Sorted(maps.Keys(args)) {
		field(sum, key)
		field(sum, args[key])
	}
	field(sum, "files")
	err := c.Files.Walk(ctx, "", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*types.Stat)
		field(sum, name)
		field(sum, info.Mode().String())
		field(sum, stat.Linkname)
		switch mode := info.Mode(); {
		case mode.IsDir(), mode&fs.ModeSymlink != 0:
			return nil
		case !mode.IsRegular():
			return fmt.Errorf("%s: only files, directories and links can be part of a build", name)
		}
		return c.add(sum, name, info.Size())
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// add hashes a file's content with its length.
func (c Definition) add(sum hash.Hash, name string, size int64) error {
	f, err := c.Source.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = binary.Write(sum, binary.BigEndian, size)
	_, err = io.Copy(sum, f)
	return err
}

// field hashes a text with its length, so that two texts never look like one.
func field(sum hash.Hash, text string) {
	_ = binary.Write(sum, binary.BigEndian, int64(len(text)))
	_, _ = io.WriteString(sum, text)
}

// Frontend returns the files that BuildKit's Dockerfile frontend reads besides the context.
func (c Definition) Frontend(dockerfile []byte) fsutil.FS {
	files := memoryFS{Dockerfile: dockerfile}
	if c.Ignore != nil {
		files[OwnIgnoreFile] = c.Ignore
	}
	return files
}

// Tar writes the context for the classic builder, which wants the Dockerfile and the ignore file in
// it, ignored or not, and drops them itself if they are.
func (c Definition) Tar(ctx context.Context, w io.Writer) error {
	own := memoryFS{Dockerfile: c.Dockerfile}
	if c.Ignore != nil {
		own[IgnoreFile] = c.Ignore
	}
	return fsutil.WriteTar(ctx, overlayFS{below: c.Files, above: own}, w)
}

// memoryFS is a directory of files in memory.
type memoryFS map[string][]byte

// Walk implements fsutil.FS.
func (m memoryFS) Walk(_ context.Context, target string, visit fs.WalkDirFunc) error {
	target = Clean(target)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if target != "." && target != name {
			continue
		}
		stat := &types.Stat{Path: name, Mode: 0o644, Size: int64(len(m[name]))}
		if err := visit(name, &fsutil.DirEntryInfo{Stat: stat}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Open implements fsutil.FS.
func (m memoryFS) Open(name string) (io.ReadCloser, error) {
	data, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// overlayFS is a tree with some files of its root replaced or added.
type overlayFS struct {
	below fsutil.FS
	above memoryFS
}

// Walk implements fsutil.FS; parents come before their children.
func (o overlayFS) Walk(ctx context.Context, target string, visit fs.WalkDirFunc) error {
	if err := o.above.Walk(ctx, target, visit); err != nil {
		return err
	}
	return o.below.Walk(ctx, target, func(name string, entry fs.DirEntry, err error) error {
		if _, hidden := o.above[name]; hidden {
			return nil
		}
		return visit(name, entry, err)
	})
}

// Open implements fsutil.FS.
func (o overlayFS) Open(name string) (io.ReadCloser, error) {
	if _, ok := o.above[name]; ok {
		return o.above.Open(name)
	}
	return o.below.Open(name)
}

// maxImageName keeps references short; tags tell images apart.
const maxImageName = 60

// ImageName returns any text as a path component of an image reference.
func ImageName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
		if b.Len() >= maxImageName {
			break
		}
	}
	if b.Len() == 0 {
		return "task"
	}
	return strings.TrimSuffix(b.String(), "-")
}
