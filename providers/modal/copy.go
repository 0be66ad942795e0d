package modal

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
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
	b.WriteString("set -e; umask 022; mkdir " + copyDir + "; base64 -d " + copyDir + ".txt | tar -xzpf - -C " + copyDir + "; ")
	for i, s := range found {
		switch {
		case s.dir:
			fmt.Fprintf(&b, `mkdir -p "$0"; cp -a %s/%d/. "$0"; `, copyDir, i)
		case toDir:
			fmt.Fprintf(&b, `mkdir -p "$0"; cp -a %s/%d/* "$0"; `, copyDir, i)
		default:
			fmt.Fprintf(&b, `mkdir -p "$(dirname "$0")"; cp -a %s/%d/* "$0"; `, copyDir, i)
		}
	}
	b.WriteString("rm -rf " + copyDir + " " + copyDir + ".txt")
	p.script(b.String(), at)
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
		err := p.walk("", func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if matches, err := path.Match(clean, name); err != nil || !matches {
				return err
			}
			if !entry.IsDir() && !entry.Type().IsRegular() {
				return p.unfit("COPY of the link or device %s", name)
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

var errTooLarge = errors.New("too large")

// pack returns a compressed archive in which each source is below its number.
func (p *planner) pack(found []source) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i, s := range found {
		top := s.name
		if !s.dir {
			top = path.Dir(s.name)
		}
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d/", i), Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			return nil, err
		}
		err := p.walk(s.name, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if b.Len() > maxCopied {
				return errTooLarge
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			rel := strings.TrimPrefix(strings.TrimPrefix(name, top), "/")
			if top == "." {
				rel = name
			}
			h := &tar.Header{Name: path.Join(fmt.Sprint(i), rel), Mode: int64(info.Mode().Perm()), Typeflag: tar.TypeReg, Size: info.Size()}
			switch mode := info.Mode(); {
			case mode.IsDir():
				h.Typeflag, h.Size, h.Name = tar.TypeDir, 0, h.Name+"/"
				return w.WriteHeader(h)
			case !mode.IsRegular():
				return p.unfit("COPY of the link or device %s", name)
			}
			return p.packFile(w, h, name)
		})
		if errors.Is(err, errTooLarge) {
			return nil, p.unfit("COPY of more than %d KiB in all, compressed", maxCopied>>10)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (p *planner) packFile(w *tar.Writer, h *tar.Header, name string) error {
	f, err := p.context.Files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
