package sources

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/tonistiigi/fsutil"
	"github.com/tonistiigi/fsutil/types"

	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

// maxLinks bounds the links in a path; Linux has the same limit.
const maxLinks = 40

// Context holds the files that COPY sees: those not excluded by .dockerignore, owned by root.
type Context struct {
	src     fs.FS
	entries map[string]fs.FileInfo // by absolute path
	names   map[string][]string    // the entries of a directory, sorted
}

// ReadContext lists all files of a context.
func ReadContext(ctx context.Context, src fs.FS) (*Context, error) {
	opened, err := buildcontext.Open(src)
	if err != nil {
		return nil, err
	}
	f := &Context{src: src, entries: map[string]fs.FileInfo{}, names: map[string][]string{"/": nil}}
	err = opened.Files.Walk(ctx, "", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		full := "/" + name
		f.entries[full] = info
		f.names[path.Dir(full)] = append(f.names[path.Dir(full)], path.Base(full))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the directory of the Dockerfile: %w", err)
	}
	return f, nil
}

// Stat implements tree.
func (f *Context) Stat(_ context.Context, name string) (machine.Info, error) {
	real := f.follow(name)
	if real == "" {
		return machine.Info{Path: name}, nil
	}
	info, ok := f.entries[real]
	dir := real == "/" || ok && info.IsDir()
	return machine.Info{Path: real, Exists: ok || real == "/", Dir: dir, Names: f.names[real]}, nil
}

// follow resolves the links in a path within the context. It returns "" for too many links.
func (f *Context) follow(name string) string {
	var (
		done  = "/"
		rest  = strings.Split(strings.Trim(name, "/"), "/")
		links int
	)
	for len(rest) > 0 {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		info, ok := f.entries[next]
		if !ok || info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return ""
		}
		target := info.Sys().(*types.Stat).Linkname
		if path.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return done
}

// Get implements tree.
func (f *Context) Get(ctx context.Context, name string, w io.Writer) error {
	at, err := f.Stat(ctx, name)
	if err != nil {
		return err
	}
	if !at.Exists {
		return &fs.PathError{Op: "copy", Path: name, Err: fs.ErrNotExist}
	}
	archive := tar.NewWriter(w)
	if err := f.write(ctx, archive, at.Path, "."); err != nil {
		return err
	}
	return archive.Close()
}

// write writes an entry with its content.
func (f *Context) write(ctx context.Context, w *tar.Writer, full, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, ok := f.entries[full]
	if !ok {
		info = &fsutil.StatInfo{Stat: &types.Stat{Mode: uint32(fs.ModeDir | 0o755)}} // the context itself
	}
	header := &tar.Header{Name: name, Mode: permissions(info.Mode()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		header.Typeflag = tar.TypeDir
	case info.Mode()&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, info.Sys().(*types.Stat).Linkname
	case info.Mode().IsRegular():
		header.Typeflag, header.Size = tar.TypeReg, info.Size()
	default:
		return fmt.Errorf("%s: only files, directories and links can be copied", strings.TrimPrefix(full, "/"))
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeReg {
		return f.content(w, full)
	}
	for _, child := range f.names[full] {
		if err := f.write(ctx, w, path.Join(full, child), path.Join(name, child)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Context) content(w io.Writer, full string) error {
	file, err := f.Open(full)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// Open opens a file; full contains no links.
func (f *Context) Open(full string) (io.ReadCloser, error) {
	return f.src.Open(strings.TrimPrefix(full, "/"))
}

// Hidden reports whether a file exists but COPY must not see it. It follows no links, which could
// lead outside of the context.
func (f *Context) Hidden(full string) bool {
	name := "."
	for part := range strings.SplitSeq(strings.TrimPrefix(full, "/"), "/") {
		name = path.Join(name, part)
		info, err := fs.Lstat(f.src, name)
		if err != nil {
			return false
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return f.entries["/"+name] == nil && "/"+name == full
		}
	}
	return true
}

// permissions returns the permission bits of a mode in the form of tar headers.
func permissions(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}
