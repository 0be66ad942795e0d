package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxLink bounds the text of a link, in bytes; systems allow 4096.
const maxLink = 4095

// wanted returns the ids of all contents to write, sorted and without duplicates.
func (e *export) wanted() []string {
	ids := map[string]bool{}
	for i := range e.directories {
		if f := &e.directories[i]; f.ok() {
			for _, entry := range f.entries {
				if entry.mode != "160000" {
					ids[entry.blob] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// fetchBlobs fetches the contents that a partial fetch left out, in one request. git itself would
// fetch them one by one.
func (e *export) fetchBlobs(ctx context.Context) error {
	ids := e.wanted()
	if !e.partial || len(ids) == 0 {
		return nil
	}
	_, err := e.run(ctx, call{
		dir: e.repo, remote: e.remote, network: true, grows: e.repo,
		stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"),
		args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
			"--no-recurse-submodules", "--no-auto-maintenance", "--filter=blob:none", "--stdin", "origin"},
	})
	return err
}

// checkSizes records a problem for each directory that is too large, before anything is written.
func (e *export) checkSizes(ctx context.Context) error {
	ids := e.wanted()
	if len(ids) == 0 {
		return nil
	}
	sizes, err := e.sizes(ctx, ids)
	if err != nil {
		return err
	}
	for i := range e.directories {
		f := &e.directories[i]
		if !f.ok() {
			continue
		}
		for _, entry := range f.entries {
			size := sizes[entry.blob]
			f.bytes += size
			if entry.mode == "120000" && size > maxLink {
				f.problem("the link %s is longer than %d bytes", safe(entry.name), maxLink)
			}
			if f.bytes > e.MaxBytes {
				f.problem("is larger than the %d MiB that are allowed", e.MaxBytes>>20)
				break
			}
		}
	}
	return nil
}

// sizes returns the sizes of contents in bytes, by their ids.
func (s source) sizes(ctx context.Context, ids []string) (map[string]int64, error) {
	out, err := s.git(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64, len(ids))
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[1] != "blob" {
			return nil, fmt.Errorf("%s: a file of commit %s was not sent: %s", s.remote.shown, s.id, safe(line))
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return nil, err
		}
		sizes[words[0]] = size
	}
	return sizes, nil
}

// makeDirs creates the directories to write, and an empty directory for each submodule.
func (e *export) makeDirs() error {
	for i := range e.directories {
		f := &e.directories[i]
		if !f.ok() {
			continue
		}
		dir := filepath.Join(e.into, e.names[i])
		if err := makeDir(dir); err != nil {
			return err
		}
		for _, entry := range f.entries {
			if entry.mode == "160000" {
				if err := inside(dir, func(root *os.Root) error { return mkdirAll(root, entry.name) }); err != nil {
					f.problem("%s: %s", safe(entry.name), safe(err.Error()))
				}
			}
		}
	}
	return nil
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	return nil
}

// place is the destination of a content.
type place struct {
	directory *directory
	dir       string // of the directory
	entry     entry
}

// files writes all files, then all links. It returns the files that look like git-lfs pointers.
func (e *export) files(ctx context.Context) ([]pointer, error) {
	places := map[string][]place{}
	var links []place
	for i := range e.directories {
		f := &e.directories[i]
		if !f.ok() {
			continue
		}
		for _, entry := range f.entries {
			if entry.mode != "160000" {
				places[entry.blob] = append(places[entry.blob], place{f, filepath.Join(e.into, e.names[i]), entry})
			}
		}
	}
	ids := slices.Sorted(maps.Keys(places))
	if len(ids) == 0 {
		return nil, nil
	}
	w := &writer{places: places, links: &links}
	if err := e.contents(ctx, ids, w.content); err != nil {
		return nil, err
	}
	// Write links last, so that no file is written through one.
	for _, l := range links {
		if err := w.link(l); err != nil {
			return nil, err
		}
	}
	return w.pointers, nil
}

// contents makes git write the contents of ids, in that order, and calls take for each.
func (s source) contents(ctx context.Context, ids []string, take func(id string, size int64, r io.Reader) error) error {
	return s.stream(ctx, strings.Join(ids, "\n")+"\n", []string{"cat-file", "--batch"}, func(r *bufio.Reader) error {
		return takeAll(r, len(ids), take)
	})
}

// stream runs git and calls take with its output, while git writes it. If take fails, git is ended.
func (s source) stream(ctx context.Context, stdin string, args []string, take func(r *bufio.Reader) error) error {
	reader, writer := io.Pipe()
	taken := make(chan error, 1)
	go func() {
		err := take(bufio.NewReaderSize(reader, 64<<10))
		reader.CloseWithError(err) // ends git if it is still writing
		taken <- err
	}()
	_, err := s.run(ctx, call{dir: s.repo, remote: s.remote, stdin: strings.NewReader(stdin), stdout: writer, args: args, memory: s.memory})
	writer.Close()
	failed := <-taken
	if failed == nil || err != nil && (errors.Is(failed, io.EOF) || errors.Is(failed, io.ErrUnexpectedEOF)) {
		return err // git ended early, and err has the reason
	}
	return failed
}

func takeAll(r *bufio.Reader, count int, take func(id string, size int64, r io.Reader) error) error {
	for range count {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read what git writes: %w", err)
		}
		words := strings.Fields(string(line))
		if len(words) != 3 || words[1] != "blob" {
			return fmt.Errorf("git did not find a file: %s", safe(string(line)))
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return err
		}
		body := &io.LimitedReader{R: r, N: size}
		if err := take(words[0], size, body); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		if _, err := r.Discard(1); err != nil {
			return err
		}
	}
	return nil
}

// writer writes contents to their places.
type writer struct {
	places   map[string][]place
	links    *[]place
	pointers []pointer
}

func (w *writer) content(id string, size int64, r io.Reader) error {
	places := w.places[id]
	var small []byte // the content, if it fits in memory
	if size <= 1<<20 {
		var err error
		if small, err = io.ReadAll(r); err != nil {
			return err
		}
		if int64(len(small)) != size {
			return io.ErrUnexpectedEOF
		}
	}
	first := ""
	for _, p := range places {
		if p.entry.mode == "120000" {
			p.entry.blob = string(small) // the text of the link
			*w.links = append(*w.links, p)
			continue
		}
		var written bool
		var err error
		switch {
		case small != nil:
			if oid, length, ok := parsePointer(small); ok {
				w.pointers = append(w.pointers, pointer{place: p, oid: oid, size: length, text: string(small)})
			}
			written, err = p.write(strings.NewReader(string(small)), size)
		case first != "":
			written, err = p.writeCopy(first, size)
		default:
			written, err = p.write(r, size)
		}
		if err != nil {
			return err
		}
		if written {
			first = filepath.Join(p.dir, filepath.FromSlash(p.entry.name))
		}
	}
	return nil
}

// writeCopy writes the file as a copy of from, a file that is already written.
func (p place) writeCopy(from string, size int64) (written bool, err error) {
	f, err := os.Open(from)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errNotWritten, err)
	}
	defer f.Close()
	return p.write(f, size)
}

// write writes the file. A name that the file system rejects, or treats as equal to another one, is
// recorded as a problem of the directory.
func (p place) write(r io.Reader, size int64) (written bool, err error) {
	mode := os.FileMode(0o644)
	if p.entry.mode == "100755" {
		mode = 0o755
	}
	var f *os.File
	var nameErr error // the failure to make a file of that name
	err = inside(p.dir, func(root *os.Root) error {
		if nameErr = mkdirAll(root, filepath.Dir(p.entry.name)); nameErr == nil {
			f, nameErr = root.OpenFile(p.entry.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		}
		if f == nil {
			return nil
		}
		n, err := io.Copy(f, r)
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		// Undo the umask: the users in the container are others, and may need these bits.
		return errors.Join(err, f.Chmod(mode), f.Close())
	})
	if nameErr != nil && !isDiskError(nameErr) {
		p.directory.problem("%s cannot be written: %s", safe(p.entry.name), safe(reason(nameErr)))
		return false, nil
	}
	if err = errors.Join(err, nameErr); err != nil {
		return false, fmt.Errorf("%w: %w", errNotWritten, err)
	}
	return true, nil
}

func (w *writer) link(p place) error {
	if !p.directory.ok() {
		return nil
	}
	var failed error
	err := inside(p.dir, func(root *os.Root) error {
		if failed = mkdirAll(root, filepath.Dir(p.entry.name)); failed == nil {
			failed = root.Symlink(p.entry.blob, p.entry.name)
		}
		return nil
	})
	if err != nil || isDiskError(failed) {
		return fmt.Errorf("%w: %w", errNotWritten, errors.Join(err, failed))
	}
	if failed != nil {
		p.directory.problem("the link %s cannot be written: %s", safe(p.entry.name), safe(reason(failed)))
	}
	return nil
}

// inside calls do with dir opened as an os.Root, which no path can leave.
func inside(dir string, do func(*os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root)
}

func mkdirAll(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	return root.MkdirAll(dir, 0o755)
}
