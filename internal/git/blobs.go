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

// wanted are the ids of all contents that are to be written, each once, sorted.
func (e *export) wanted() []string {
	ids := map[string]bool{}
	for i := range e.directories {
		if f := &e.directories[i]; f.fine() {
			for _, entry := range f.entries {
				if entry.mode != "160000" {
					ids[entry.blob] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// bring fetches what a partial fetch left out: everything at once, which git by itself would do file by file.
func (e *export) bring(ctx context.Context) error {
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

// measure refuses directories that are too large, before anything is written.
func (e *export) measure(ctx context.Context) error {
	ids := e.wanted()
	if len(ids) == 0 {
		return nil
	}
	out, err := e.git(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return err
	}
	sizes := make(map[string]int64, len(ids))
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[1] != "blob" {
			return fmt.Errorf("%s: a file of commit %s was not sent: %s", e.remote.shown, e.id, safe(line))
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return err
		}
		sizes[words[0]] = size
	}
	for i := range e.directories {
		f := &e.directories[i]
		if !f.fine() {
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

// directoryTrees makes the directories that are to be written, and those in them that no file makes.
func (e *export) directoryTrees() error {
	for i := range e.directories {
		f := &e.directories[i]
		if !f.fine() {
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

// place is where a content goes.
type place struct {
	directory *directory
	dir       string // of the directory
	entry     entry
}

// files writes all files, then all links, and returns those files that look like pointers of git-lfs.
func (e *export) files(ctx context.Context) ([]pointer, error) {
	places := map[string][]place{}
	var links []place
	for i := range e.directories {
		f := &e.directories[i]
		if !f.fine() {
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
	// Links come last, so that no file is written through one.
	for _, l := range links {
		if err := w.link(l); err != nil {
			return nil, err
		}
	}
	return w.pointers, nil
}

// contents has git write the contents of ids, and gives each to take.
func (e *export) contents(ctx context.Context, ids []string, take func(id string, size int64, r io.Reader) error) error {
	reader, writer := io.Pipe()
	taken := make(chan error, 1)
	go func() {
		err := takeAll(bufio.NewReaderSize(reader, 64<<10), len(ids), take)
		reader.CloseWithError(err) // ends git, if it was not done
		taken <- err
	}()
	_, err := e.run(ctx, call{
		dir: e.repo, remote: e.remote, stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"),
		stdout: writer, args: []string{"cat-file", "--batch"},
	})
	writer.Close()
	failed := <-taken
	if failed == nil || err != nil && (errors.Is(failed, io.EOF) || errors.Is(failed, io.ErrUnexpectedEOF)) {
		return err // git ended early, and says why
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

// writer puts contents into their places.
type writer struct {
	places   map[string][]place
	links    *[]place
	pointers []pointer
}

func (w *writer) content(id string, size int64, r io.Reader) error {
	places := w.places[id]
	var small []byte // a content that is kept in memory
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

// writeCopy makes the file from one that is written.
func (p place) writeCopy(from string, size int64) (written bool, err error) {
	f, err := os.Open(from)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errNotWritten, err)
	}
	defer f.Close()
	return p.write(f, size)
}

// write makes the file. A name that this system cannot have, or takes for another's, is the directory's problem.
func (p place) write(r io.Reader, size int64) (written bool, err error) {
	mode := os.FileMode(0o644)
	if p.entry.mode == "100755" {
		mode = 0o755
	}
	var f *os.File
	var nameless error // the failure to make a file of that name
	err = inside(p.dir, func(root *os.Root) error {
		if nameless = mkdirAll(root, filepath.Dir(p.entry.name)); nameless == nil {
			f, nameless = root.OpenFile(p.entry.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		}
		if f == nil {
			return nil
		}
		n, err := io.Copy(f, r)
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		// The container's users are not ours: what the umask takes away may be what they need.
		return errors.Join(err, f.Chmod(mode), f.Close())
	})
	if nameless != nil && !noRoom(nameless) {
		p.directory.problem("%s cannot be written: %s", safe(p.entry.name), safe(reason(nameless)))
		return false, nil
	}
	if err = errors.Join(err, nameless); err != nil {
		return false, fmt.Errorf("%w: %w", errNotWritten, err)
	}
	return true, nil
}

func (w *writer) link(p place) error {
	if !p.directory.fine() {
		return nil
	}
	var failed error
	err := inside(p.dir, func(root *os.Root) error {
		if failed = mkdirAll(root, filepath.Dir(p.entry.name)); failed == nil {
			failed = root.Symlink(p.entry.blob, p.entry.name)
		}
		return nil
	})
	if err != nil || noRoom(failed) {
		return fmt.Errorf("%w: %w", errNotWritten, errors.Join(err, failed))
	}
	if failed != nil {
		p.directory.problem("the link %s cannot be written: %s", safe(p.entry.name), safe(reason(failed)))
	}
	return nil
}

// inside opens dir so that nothing gets out of it.
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
