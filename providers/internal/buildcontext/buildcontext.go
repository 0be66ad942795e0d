// Package buildcontext reads the directory of a Dockerfile as builders see it: without what its
// ignore file names. It does not know who builds.
package buildcontext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/moby/patternmatcher/ignorefile"
	"github.com/tonistiigi/fsutil"
	"github.com/tonistiigi/fsutil/types"
)

// The files that builders look for.
const (
	Dockerfile    = "Dockerfile"
	IgnoreFile    = ".dockerignore"
	OwnIgnoreFile = Dockerfile + IgnoreFile // is read instead of the other
)

// Context is the directory of a Dockerfile.
type Context struct {
	Source fs.FS
	Ignore []byte    // the content of the ignore file; nil if there is none
	Files  fsutil.FS // the files that are not ignored
}

// Open reads the ignore file of a directory and returns the context. It does not look at other
// files.
func Open(source fs.FS) (Context, error) {
	c := Context{Source: source}
	var patterns []string
	for _, name := range []string{OwnIgnoreFile, IgnoreFile} {
		text, err := fs.ReadFile(source, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Context{}, err
		}
		if patterns, err = ignorefile.ReadAll(bytes.NewReader(text)); err != nil {
			return Context{}, fmt.Errorf("read %s: %w", name, err)
		}
		c.Ignore = text
		break
	}
	var err error
	if c.Files, err = fsutil.NewFilterFS(sourceFS{source}, &fsutil.FilterOpt{ExcludePatterns: patterns}); err != nil {
		return Context{}, fmt.Errorf("read %s: %w", IgnoreFile, err)
	}
	return c, nil
}

// sourceFS shows an fs.FS to fsutil. Everything belongs to root, as with the docker command.
type sourceFS struct{ source fs.FS }

// Open implements fsutil.FS.
func (s sourceFS) Open(name string) (io.ReadCloser, error) { return s.source.Open(name) }

// Walk implements fsutil.FS. It reports links as links and does not follow them. A target that does
// not exist has no entries.
func (s sourceFS) Walk(ctx context.Context, target string, visit fs.WalkDirFunc) error {
	return fs.WalkDir(s.source, Clean(target), func(name string, entry fs.DirEntry, err error) error {
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
		stat := &types.Stat{Path: name, Mode: uint32(info.Mode()), ModTime: info.ModTime().UnixNano()}
		switch {
		case info.Mode().IsRegular():
			stat.Size = info.Size()
		case info.Mode()&fs.ModeSymlink != 0:
			if stat.Linkname, err = fs.ReadLink(s.source, name); err != nil {
				return err
			}
		}
		return visit(name, &fsutil.DirEntryInfo{Stat: stat}, nil)
	})
}

// Clean returns a path in the form of fs.FS.
func Clean(target string) string {
	if target = strings.Trim(path.Clean("/"+target), "/"); target != "" {
		return target
	}
	return "."
}
