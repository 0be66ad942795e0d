package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Directory is what became of one path of an Export.
type Directory struct {
	// Missing: the commit has nothing there. Nearest is a directory of the commit that may be meant, or "".
	Missing bool   `json:"missing,omitempty"`
	Nearest string `json:"nearest,omitempty"`
	// Problems say why nothing was written, Warnings what was left out. They are safe to show.
	Problems []string `json:"problems,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Passing: another machine, or a later attempt, may not have the problems.
	Passing bool `json:"-"`
}

// errNotWritten: the disk is full, or the like. Fetching differently does not help.
var errNotWritten = errors.New("cannot be written")

// Export writes the directories of a commit that paths name, the i-th to the directory into/names[i], and says what became of
// each; what is wrong with one says nothing about the others. id is a whole id, and paths have passed CleanPath. Modes are 0755
// and 0644, links are written as links; they may point anywhere, as may all of the contents. There is one fetch of the commit
// and one of all the files, or as few more as the server needs. scratch is for what is needed on the way; the caller removes it.
func (g *Client) Export(ctx context.Context, r Remote, id string, paths []string, into string, names []string, scratch string) (directories []Directory, failed error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.Timeout, errTimeout)
	defer cancel()
	defer func() { failed = late(ctx, r, failed) }()
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

// export is an Export under way.
type export struct {
	source
	into        string
	names       []string
	directories []directory
}

// directory is one path of an export.
type directory struct {
	Directory
	path    string // in the commit; "" is all of it
	entries []entry
	bytes   int64
}

// entry is a file, link or submodule of a directory.
type entry struct {
	mode string // as git writes it: 100644, 100755, 120000, 160000
	blob string // its id
	name string // below the directory
}

func (f *directory) problem(format string, args ...any) {
	const most = 20 // one hostile commit could have a million
	if len(f.Problems) < most {
		f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
	}
}

// fine reports whether the directory is to be written.
func (f *directory) fine() bool { return !f.Missing && len(f.Problems) == 0 }

func (e *export) write(ctx context.Context) error {
	if err := e.list(ctx); err != nil {
		return err
	}
	for i := range e.directories {
		e.directories[i].check(e.MaxFiles)
	}
	if err := e.bring(ctx); err != nil {
		return err
	}
	if err := e.measure(ctx); err != nil {
		return err
	}
	if err := e.directoryTrees(); err != nil {
		return err
	}
	pointers, err := e.files(ctx)
	if err != nil {
		return err
	}
	if err := e.large(ctx, pointers); err != nil {
		return err
	}
	return e.nearest(ctx)
}

// results are the outcomes; directories with problems are gone.
func (e *export) results() []Directory {
	out := make([]Directory, len(e.directories))
	for i := range e.directories {
		out[i] = e.directories[i].Directory
		if !e.directories[i].fine() {
			_ = os.RemoveAll(filepath.Join(e.into, e.names[i]))
		}
	}
	return out
}
