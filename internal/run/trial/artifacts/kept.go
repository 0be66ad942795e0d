package artifacts

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
)

// MaxFiles limits the files of all artifacts of a trial together.
const MaxFiles = 50_000

// MaxList limits the file with the links or the entries of an artifact, in bytes. Source: those of
// an environment.Extracted, escaped.
const MaxList = 256 << 20

// readList reads a file that keepList has written. A user may have changed it on disk.
func readList(trialDir fs.FS, kept result.Artifact, dir, at string) ([]byte, error) {
	in := strings.Split(path.Dir(at), "/")
	if ofStep := len(in) == 3 && in[0] == result.StepsDir && in[2] == dir; !ofStep && path.Dir(at) != dir || !fs.ValidPath(at) {
		return nil, fmt.Errorf("the file %s of the artifact %s is not in %s", at, kept.Source, dir)
	}
	names := []string{at}
	for parent := path.Dir(at); parent != "."; parent = path.Dir(parent) {
		names = append(names, parent)
	}
	for _, name := range names {
		switch info, err := fs.Lstat(trialDir, name); {
		case err != nil:
			return nil, fmt.Errorf("read %s of the artifact %s: %w", at, kept.Source, environment.MarkMachineError(err))
		case name == at && (!info.Mode().IsRegular() || info.Size() > MaxList), name != at && !info.IsDir():
			return nil, fmt.Errorf("the artifact %s cannot be read: %s is a link, no file or too large", kept.Source, name)
		}
	}
	text, err := fs.ReadFile(trialDir, at)
	if err != nil {
		return nil, fmt.Errorf("read %s of the artifact %s: %w", at, kept.Source, environment.MarkMachineError(err))
	}
	return text, nil
}

// Entries reads the entries of an artifact below a trial's directory; nil if an earlier version
// of Rollout kept the artifact.
func Entries(trialDir fs.FS, kept result.Artifact) (entries []environment.Entry, err error) {
	if kept.Entries == "" {
		return nil, nil
	}
	text, err := readList(trialDir, kept, result.EntriesDir, kept.Entries)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var e environment.Entry
		if err := bounded.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", kept.Entries, err)
		}
		if entries = append(entries, e); len(entries) > 2*MaxFiles {
			return nil, fmt.Errorf("%s cannot be used: it has too many entries", kept.Entries)
		}
	}
	if err := environment.CheckEntries(entries); err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", kept.Entries, err)
	}
	return entries, nil
}

// Links reads the links of an artifact below a trial's directory.
func Links(trialDir fs.FS, kept result.Artifact) ([]environment.Link, error) {
	if kept.Links == "" {
		return nil, nil
	}
	text, err := readList(trialDir, kept, result.LinksDir, kept.Links)
	if err != nil {
		return nil, err
	}
	var links []environment.Link
	if err := bounded.Unmarshal(text, &links); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", kept.Links, err)
	}
	if err := environment.CheckLinks(links); err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", kept.Links, err)
	}
	return links, nil
}

// LinksBelow returns the links of an artifact that are in one of its directories, with their paths
// there.
func LinksBelow(links []environment.Link, dir string) (below []environment.Link, err error) {
	for _, l := range links {
		if Within(dir, l.Path) {
			return nil, fmt.Errorf("is below a link or is one: %s leads to %s", l.Path, l.Target)
		}
		inner, ok := strings.CutPrefix(l.Path, dir+"/")
		if !ok {
			continue
		}
		l.Path = inner
		if l.Kind == environment.HardLink {
			if l.Target, ok = strings.CutPrefix(l.Target, dir+"/"); !ok {
				return nil, fmt.Errorf("has a hard link to a file outside of it: %s", inner)
			}
		}
		below = append(below, l)
	}
	return below, nil
}
