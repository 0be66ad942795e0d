package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Directory is the outcome of one path of an Export.
type Directory struct {
	// Missing: the commit has no such path. Nearest is a similar directory of the commit, or "".
	Missing bool   `json:"missing,omitempty"`
	Nearest string `json:"nearest,omitempty"`
	// Problems are the reasons why nothing was written, Warnings name left-out files. Both are safe
	// to print.
	Problems []string `json:"problems,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Transient: the problems may not occur on another machine, or later.
	Transient bool `json:"-"`
}

// errNotWritten means that the disk is full or broken. Another way to fetch does not help.
var errNotWritten = errors.New("cannot be written")

// Export writes directories of a commit: paths[i] to into/names[i]. It returns the outcome of each;
// a problem with one does not affect the others. id is a full commit id, and paths have passed
// CleanPath. Modes are 0755 and 0644. Links are written as links and may point anywhere; contents
// are not trusted either. It fetches the commit once and all files once, or in as few more requests
// as the server needs. scratch is a directory for temporary files, which the caller removes.
func (g *Client) Export(ctx context.Context, r Remote, id string, paths []string, into string, names []string, scratch string) (directories []Directory, failed error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.Timeout, errTimeout)
	defer cancel()
	defer func() { failed = timeoutError(ctx, r, failed) }()
	var done []Directory
	err := g.withCommit(ctx, r, id, scratch, func(s source) error {
		e := &export{source: s, into: into, names: names, directories: make([]directory, len(paths))}
		for i, p := range paths {
			e.directories[i].path = p
		}
		if err := e.write(ctx); err != nil {
			for _, name := range names {
				_ = os.RemoveAll(filepath.Join(into, name))
			}
			return err
		}
		done = e.results()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// export is a running Export.
type export struct {
	source
	into        string
	names       []string
	directories []directory
	keep        func(name string) bool // which files to write, by their names in the commit; nil: all
	stored      string                 // the directory of the files that git-lfs keeps on this machine; "": ask git-lfs
}

// directory is one path of an export.
type directory struct {
	Directory
	path    string // in the commit; "" is the root
	entries []entry
	bytes   int64
}

// entry is a file, link or submodule of a directory.
type entry struct {
	mode string // as git writes it: 100644, 100755, 120000, 160000
	blob string // its id
	name string // relative to the directory
}

func (f *directory) problem(format string, args ...any) {
	const most = 20 // a hostile commit could have a million
	if len(f.Problems) < most {
		f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
	}
}

// ok reports whether to write the directory.
func (f *directory) ok() bool { return !f.Missing && len(f.Problems) == 0 }

func (e *export) write(ctx context.Context) error {
	if err := e.list(ctx); err != nil {
		return err
	}
	e.filter()
	for i := range e.directories {
		e.directories[i].check(e.MaxFiles)
	}
	if err := e.fetchBlobs(ctx); err != nil {
		return err
	}
	if err := e.checkSizes(ctx); err != nil {
		return err
	}
	if err := e.makeDirs(); err != nil {
		return err
	}
	pointers, err := e.files(ctx)
	if err != nil {
		return err
	}
	if err := e.replacePointers(ctx, pointers); err != nil {
		return err
	}
	return e.nearest(ctx)
}

// results returns the outcomes, after removing the directories that have problems.
func (e *export) results() []Directory {
	out := make([]Directory, len(e.directories))
	for i := range e.directories {
		out[i] = e.directories[i].Directory
		if !e.directories[i].ok() {
			_ = os.RemoveAll(filepath.Join(e.into, e.names[i]))
		}
	}
	return out
}
