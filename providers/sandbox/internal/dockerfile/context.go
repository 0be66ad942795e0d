package dockerfile

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
)

// maxLinks is how many links a path may lead through before it is taken for a circle; Linux' own limit.
const maxLinks = 40

// folder is the context as COPY sees it: without what .dockerignore hides, everything root's.
type folder struct {
	src     fs.FS
	entries map[string]fs.FileInfo // by absolute path
	names   map[string][]string    // what is in a folder, sorted
}

// readFolder looks at everything that a context has in it.
func readFolder(ctx context.Context, src fs.FS) (*folder, error) {
	opened, err := buildcontext.Open(src)
	if err != nil {
		return nil, err
	}
	f := &folder{src: src, entries: map[string]fs.FileInfo{}, names: map[string][]string{"/": nil}}
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
		return nil, fmt.Errorf("read the folder of the Dockerfile: %w", err)
	}
	return f, nil
}

// Look implements tree.
func (f *folder) Look(_ context.Context, name string) (Info, error) {
	real := f.follow(name)
	if real == "" {
		return Info{Path: name}, nil
	}
	info, ok := f.entries[real]
	dir := real == "/" || ok && info.IsDir()
	return Info{Path: real, Exists: ok || real == "/", Dir: dir, Names: f.names[real]}, nil
}

// follow resolves the links in a path, which lead nowhere out of the context. A circle gives "".
func (f *folder) follow(name string) string {
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
func (f *folder) Get(ctx context.Context, name string, w io.Writer) error {
	at, err := f.Look(ctx, name)
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

// write writes an entry and all that is beneath.
func (f *folder) write(ctx context.Context, w *tar.Writer, full, name string) error {
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
		return fmt.Errorf("%s: only files, folders and links can be copied", strings.TrimPrefix(full, "/"))
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

func (f *folder) content(w io.Writer, full string) error {
	file, err := f.open(full)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// open opens a file; full has no links in it.
func (f *folder) open(full string) (io.ReadCloser, error) {
	return f.src.Open(strings.TrimPrefix(full, "/"))
}

// hidden tells that a file is there, but not for COPY. It follows no links: they could lead out of the context.
func (f *folder) hidden(full string) bool {
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

// permissions are a mode's as archives have them.
func permissions(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}
