package modal

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tonistiigi/fsutil"
	"github.com/tonistiigi/fsutil/types"
)

const (
	// maxCopied bounds what the COPYs of a Dockerfile add to the request that describes the image.
	maxCopied = 512 << 10
	// maxChunk bounds an argument of a command: Linux takes 128 KiB.
	maxChunk = 64 << 10
	// copyDir is where files lie in the image until they are at their place.
	copyDir = "/.rollout-copy"
)

// copy translates a COPY from the context: Modal's client sends no context. The files come as text
// in commands.
func (p *planner) copy(patterns []string, dest string) error {
	found, err := p.sources(patterns)
	if err != nil {
		return err
	}
	packed, err := p.pack(found)
	if err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(packed)
	if p.copied += len(text); p.copied > maxCopied {
		return p.unfit("COPY of more than %d KiB in all, compressed", maxCopied>>10)
	}
	for rest := text; rest != ""; {
		n := min(len(rest), maxChunk)
		p.script(`printf %s "$0" >>`+copyDir+`.txt`, rest[:n])
		rest = rest[n:]
	}
	at := p.absolute(dest)
	toDir := strings.HasSuffix(dest, "/") || dest == "." || strings.HasSuffix(dest, "/.") || len(found) > 1
	if toDir {
		at += "/"
	}
	var b strings.Builder
	args := []string{at}
	b.WriteString("set -e; umask 022; mkdir " + copyDir + "; base64 -d " + copyDir + ".txt | tar -xzpf - -C " + copyDir + "; ")
	for i, s := range found {
		args = append(args, s.name)
		switch {
		case s.dir:
			fmt.Fprintf(&b, `mkdir -p "$0"; cp -a %s/"${%d}"/. "$0"; `, copyDir, i+1)
		case toDir:
			fmt.Fprintf(&b, `mkdir -p "$0"; cp -a %s/"${%d}" "$0"; `, copyDir, i+1)
		default:
			fmt.Fprintf(&b, `mkdir -p "$(dirname "$0")"; cp -a %s/"${%d}" "$0"; `, copyDir, i+1)
		}
	}
	b.WriteString("rm -rf " + copyDir + " " + copyDir + ".txt")
	p.script(b.String(), args...)
	return nil
}

// source is a file or directory of the context that a COPY names.
type source struct {
	name string
	dir  bool
}

// sources returns what patterns match, in order.
func (p *planner) sources(patterns []string) ([]source, error) {
	var found []source
	for _, pattern := range patterns {
		clean := strings.TrimPrefix(path.Clean("/"+pattern), "/")
		if clean == "" {
			found = append(found, source{".", true})
			continue
		}
		before := len(found)
		err := p.walk(func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if matches, err := path.Match(clean, name); err != nil || !matches {
				return err
			}
			found = append(found, source{name, entry.IsDir()})
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(found) == before {
			return nil, fmt.Errorf("COPY: the context has no %s", pattern)
		}
	}
	return slices.Compact(found), nil
}

// pack returns a compressed archive of the sources.
func (p *planner) pack(found []source) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	files := copied{p.context.Files, p, func(name string) bool {
		return slices.ContainsFunc(found, func(s source) bool {
			return s.name == "." || name == s.name || strings.HasPrefix(name, s.name+"/") || strings.HasPrefix(s.name, name+"/")
		})
	}, &b}
	if err := errors.Join(fsutil.WriteTar(context.Background(), files, z), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// copied are the entries of a context that a COPY takes.
type copied struct {
	fsutil.FS
	p    *planner
	has  func(name string) bool
	into *bytes.Buffer
}

// Walk implements fsutil.FS. Times are left out, which differ between checkouts, so that an image
// is built once.
func (c copied) Walk(_ context.Context, _ string, visit fs.WalkDirFunc) error {
	return c.p.walk(func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !c.has(name):
			return nil
		case !entry.IsDir() && !entry.Type().IsRegular():
			return c.p.unfit("COPY of the link or device %s", name)
		case c.into.Len() > maxCopied:
			return c.p.unfit("COPY of more than %d KiB in all, compressed", maxCopied>>10)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return visit(name, &fsutil.DirEntryInfo{Stat: &types.Stat{Path: name, Mode: uint32(info.Mode()), Size: info.Size()}}, nil)
	})
}
