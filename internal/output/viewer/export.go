package viewer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/org/rollout-action/internal/output/page"
)

// Bounds of an exported site, which GitHub Pages lets have 1 GB.
const (
	maxExportedTrials = 20_000
	exportedDetails   = 400 << 20 // bytes of logs and conversations, of all trials together
	maxExportedDetail = 128 << 10 // of one trial
	minExportedDetail = 4 << 10
)

// marker is the file that marks a directory as an exported site, which another export may replace.
const marker = ".rollout-site"

// ErrNotEmpty means that a directory has files that no export wrote.
var ErrNotEmpty = errors.New("the directory is not empty, and no earlier export wrote it")

// Exported counts what an export wrote.
type Exported struct {
	Jobs, Trials int
	LeftOut      int // trials without a page
	Unreadable   int // jobs without a page: the index says why
}

// unreadable is the error of a job that cannot be read.
type unreadable struct{ error }

// Export writes a library as a site of files into a directory, which is made if it does not exist.
// An earlier export in it is replaced; anything else is ErrNotEmpty. step is called after each job.
func Export(ctx context.Context, library Library, title, dir string, now time.Time, step func()) (done Exported, err error) {
	jobs, err := library.Jobs(ctx)
	if err != nil {
		return done, err
	}
	root, err := emptied(dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	trials := 0
	for _, job := range jobs {
		trials += job.Trials
	}
	x := exporter{root: root, site: page.Site{NoJobs: library.NoJobs(), Now: now, Detail: min(max(exportedDetails/max(min(trials, maxExportedTrials), 1), minExportedDetail), maxExportedDetail)}}
	listed := jobs[:0:0]
	for _, job := range jobs {
		err := x.job(ctx, library, job.Name)
		switch {
		case ctx.Err() != nil:
			return x.done, ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // it was removed, or has not begun
			continue
		case errors.As(err, new(unreadable)):
			x.done.Unreadable++
			job.State, job.Reason, job.NoPage = "unreadable", err.Error(), true
		case err != nil:
			return x.done, fmt.Errorf("%s: %w", job.Name, err)
		}
		listed = append(listed, job)
		step()
	}
	err = x.write("index.html", func(w io.Writer) error { return x.site.WriteIndex(w, title, listed, "") })
	return x.done, err
}

// emptied opens a directory for a site, and removes an earlier one.
func emptied(dir string) (*os.Root, error) {
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s is a link: give the directory itself", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if info, err := root.Lstat(marker); len(entries) > 0 && (err != nil || !info.Mode().IsRegular()) {
		return nil, errors.Join(ErrNotEmpty, root.Close())
	}
	if err := onlyPages(root); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	err = errors.Join(
		root.RemoveAll(marker), root.RemoveAll(".nojekyll"), // each may be a link to another file
		root.WriteFile(marker, []byte("rollout view --export wrote this directory, and may replace what is in it.\n"), 0o644),
		root.RemoveAll(page.JobPages), root.RemoveAll("index.html"),
		root.WriteFile(".nojekyll", nil, 0o644), // GitHub Pages would leave out names that begin with _
	)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// onlyPages returns ErrNotEmpty if an export would remove something that is no page of an earlier
// one: anybody can commit a marker.
func onlyPages(root *os.Root) error {
	for _, name := range []string{"index.html", page.JobPages} {
		if info, err := root.Lstat(name); err == nil && info.IsDir() != (name == page.JobPages) {
			return fmt.Errorf("%s: %w", name, ErrNotEmpty)
		}
		err := fs.WalkDir(root.FS(), name, func(file string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && file == name:
				return nil
			case err != nil:
				return err
			case e.IsDir() && name == page.JobPages:
				return nil
			case !e.Type().IsRegular() || e.Name() != "index.html":
				return fmt.Errorf("%s: %w", file, ErrNotEmpty)
			}
			f, err := root.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			beginning := make([]byte, len(page.Beginning))
			if _, err := io.ReadFull(f, beginning); err != nil || string(beginning) != page.Beginning {
				return fmt.Errorf("%s: %w", file, ErrNotEmpty)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if info, err := root.Lstat(".nojekyll"); err == nil && (!info.Mode().IsRegular() || info.Size() > 0) {
		return fmt.Errorf(".nojekyll: %w", ErrNotEmpty)
	}
	return nil
}

type exporter struct {
	root *os.Root
	site page.Site
	done Exported
}

// job writes the pages of a job.
func (x *exporter) job(ctx context.Context, library Library, name string) error {
	job, err := library.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return unreadable{err}
	}
	defer job.Close()
	in, err := job.Input(ctx)
	if err != nil {
		return unreadable{err}
	}
	in.Files, in.Dir = job.Files, job.Dir
	site := x.site
	site.Parts = job.Parts
	if x.done.Trials+len(in.Trials) > maxExportedTrials {
		site.NoTrials = true
		x.done.LeftOut += len(in.Trials)
	}
	at := path.Join(page.JobPages, name)
	if err := x.write(at+"/index.html", func(w io.Writer) error { return site.WriteJob(w, in, name, "") }); err != nil {
		return err
	}
	x.done.Jobs++
	if site.NoTrials {
		return nil
	}
	site.SharePrompts(in)
	for _, packed := range in.Trials {
		t := *packed.Unpack()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if job.DirOf != nil {
			in.Dir = job.DirOf(t.Dir())
		}
		file := path.Join(at, page.TrialPages, t.Dir(), "index.html")
		if err := x.write(file, func(w io.Writer) error { return site.WriteTrial(w, in, t, name, "", page.HasResult) }); err != nil {
			return err
		}
		x.done.Trials++
	}
	return nil
}

// write writes a page.
func (x *exporter) write(file string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := x.root.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	return x.root.WriteFile(file, b.Bytes(), 0o644)
}
