package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/patternmatcher/ignorefile"
	"github.com/tonistiigi/fsutil"
	"github.com/tonistiigi/fsutil/types"
)

const (
	dockerfileName = "Dockerfile"
	ignoreName     = ".dockerignore"
	ownIgnoreName  = dockerfileName + ignoreName // wins over the other
)

// buildContext is a task's environment folder as a builder sees it.
type buildContext struct {
	dockerfile []byte
	ignore     []byte    // nil: there is none
	files      fsutil.FS // without what is ignored
	src        fs.FS
}

// readContext looks at a folder. It fails with fs.ErrNotExist if there is no Dockerfile.
func readContext(src fs.FS) (buildContext, error) {
	dockerfile, err := fs.ReadFile(src, dockerfileName)
	if err != nil {
		return buildContext{}, err
	}
	c := buildContext{dockerfile: dockerfile, src: src}
	for _, name := range []string{ownIgnoreName, ignoreName} {
		c.ignore, err = fs.ReadFile(src, name)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return buildContext{}, err
		}
	}
	excludes, err := ignorefile.ReadAll(bytes.NewReader(c.ignore))
	if err != nil {
		return buildContext{}, fmt.Errorf("read %s: %w", ignoreName, err)
	}
	c.files, err = fsutil.NewFilterFS(contextFS{src}, &fsutil.FilterOpt{ExcludePatterns: excludes})
	if err != nil {
		return buildContext{}, fmt.Errorf("read %s: %w", ignoreName, err)
	}
	return c, nil
}

// digest identifies what is built: the Dockerfile, every file that is not ignored (path, mode and
// content), the arguments and the platform.
func (c buildContext) digest(ctx context.Context, args map[string]string, platform string) (string, error) {
	sum := sha256.New()
	field(sum, platform)
	field(sum, string(c.dockerfile))
	for _, key := range slices.Sorted(maps.Keys(args)) {
		field(sum, key)
		field(sum, args[key])
	}
	field(sum, "files")
	err := c.files.Walk(ctx, "", func(name string, entry fs.DirEntry, err error) error {
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
		if !info.Mode().IsRegular() {
			return nil
		}
		return c.add(sum, name, info.Size())
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// add hashes a file's content with its length.
func (c buildContext) add(sum hash.Hash, name string, size int64) error {
	f, err := c.src.Open(name)
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

// frontend is what BuildKit's Dockerfile frontend reads besides the context.
func (c buildContext) frontend(dockerfile []byte) fsutil.FS {
	files := memoryFS{dockerfileName: dockerfile}
	if c.ignore != nil {
		files[ownIgnoreName] = c.ignore
	}
	return files
}

// tar writes the context for the classic builder, which wants the Dockerfile and the ignore file in
// it, ignored or not, and drops them itself if they are.
func (c buildContext) tar(ctx context.Context, w io.Writer) error {
	own := memoryFS{dockerfileName: c.dockerfile}
	if c.ignore != nil {
		own[ignoreName] = c.ignore
	}
	return fsutil.WriteTar(ctx, overlayFS{below: c.files, above: own}, w)
}

// contextFS shows an fs.FS to a builder. Everything belongs to root, as the docker command has it.
type contextFS struct{ src fs.FS }

// Walk implements fsutil.FS. Links are kept as links; they lead nowhere outside of the build. A
// target that is not there has no entries.
func (c contextFS) Walk(ctx context.Context, target string, visit fs.WalkDirFunc) error {
	return fs.WalkDir(c.src, clean(target), func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && entry == nil {
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := &types.Stat{
			Path:    name,
			Mode:    uint32(info.Mode()),
			ModTime: info.ModTime().UnixNano(),
		}
		switch {
		case info.Mode().IsRegular():
			stat.Size = info.Size()
		case info.Mode()&fs.ModeSymlink != 0:
			if stat.Linkname, err = fs.ReadLink(c.src, name); err != nil {
				return err
			}
		case !info.IsDir():
			return fmt.Errorf("%s: only files, folders and links can be part of a build", name)
		}
		return visit(name, &fsutil.DirEntryInfo{Stat: stat}, nil)
	})
}

// clean is a path as fs.FS wants it.
func clean(target string) string {
	if target = strings.Trim(path.Clean("/"+target), "/"); target != "" {
		return target
	}
	return "."
}

// Open implements fsutil.FS.
func (c contextFS) Open(name string) (io.ReadCloser, error) { return c.src.Open(name) }

// memoryFS is a folder of files in memory.
type memoryFS map[string][]byte

// Walk implements fsutil.FS.
func (m memoryFS) Walk(_ context.Context, target string, visit fs.WalkDirFunc) error {
	target = clean(target)
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

// Walk implements fsutil.FS; what is above comes first.
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
