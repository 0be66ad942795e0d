package fake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/excerpt"
)

// builtRef begins every reference that BuildImage returns.
const builtRef = "fake.local/"

// BuildImage implements environment.Provider. It knows Dockerfiles of one stage; see builder.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	if err := p.begin(ctx, "build"); err != nil {
		return "", err
	}
	files, err := readContext(opts.Context)
	if err != nil {
		return "", buildError(err, "")
	}
	ref := builtRef + safeName(opts.Name) + ":" + contentHash(files, opts.Args)
	return ref, p.world.buildOnce(ctx, ref, opts.NoCache, func() (*image, error) {
		b := &builder{ctx: ctx, provider: p, files: files, opts: opts}
		return b.build()
	})
}

// buildOnce builds what is not there yet. Of several at once, one builds and the others wait.
func (w *World) buildOnce(ctx context.Context, ref string, again bool, build func() (*image, error)) error {
	for {
		w.mu.Lock()
		under := w.builds[ref]
		if under == nil && w.images[ref] != nil && !again {
			w.images[ref].used = time.Now()
			w.mu.Unlock()
			return nil
		}
		if under == nil {
			break
		}
		w.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ended := make(chan struct{})
	w.builds[ref] = ended
	w.mu.Unlock()

	img, err := build()

	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.builds, ref)
	close(ended)
	if err == nil {
		w.kept++
		img.id, img.used = fmt.Sprintf("build %d", w.kept), time.Now()
		w.images[ref] = img
	}
	return err
}

func buildError(err error, output string) error {
	return &environment.Error{Kind: environment.KindBuild, Output: output, Err: fmt.Errorf("build image: %w", err)}
}

// contextFile is a file or folder of a build context.
type contextFile struct {
	path string
	mode fs.FileMode
	data []byte
	sent bool // not ignored: can be copied into the image
}

// readContext reads a build context in the order of its paths. Of what .dockerignore names, only the
// Dockerfile is kept.
func readContext(context fs.FS) ([]contextFile, error) {
	var patterns []string
	if f, err := context.Open(".dockerignore"); err == nil {
		patterns, err = ignorefile.ReadAll(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf(".dockerignore: %w", err)
		}
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf(".dockerignore: %w", err)
	}
	var files []contextFile
	err = fs.WalkDir(context, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		skip, err := ignored.MatchesOrParentMatches(path)
		if err != nil || skip && path != "Dockerfile" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := contextFile{path: path, mode: info.Mode(), sent: !skip}
		if info.Mode().IsRegular() {
			f.data, err = fs.ReadFile(context, path)
		}
		files = append(files, f)
		return err
	})
	return files, err
}

// contentHash tells contents apart: paths, modes, data and build arguments.
func contentHash(files []contextFile, args map[string]string) string {
	h := sha256.New()
	for _, f := range files {
		field(h, f.path)
		field(h, f.mode.String())
		field(h, string(f.data))
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		field(h, name)
		field(h, args[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func field(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:", len(s))
	_, _ = io.WriteString(h, s)
}

// safeName is a name as it may stand in a reference.
func safeName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	safe = strings.Trim(safe[:min(len(safe), 60)], "-")
	if safe == "" {
		return "image"
	}
	return safe
}

// printed keeps the beginning and the end of what a build prints, and hands all lines on.
type printed struct {
	progress func(string)
	kept     excerpt.Ends
	rest     string
}

func (t *printed) Write(p []byte) (int, error) {
	t.rest += string(p)
	for {
		line, rest, ok := strings.Cut(t.rest, "\n")
		if !ok {
			return len(p), nil
		}
		t.add(line)
		t.rest = rest
	}
}

func (t *printed) add(line string) {
	if t.progress != nil {
		t.progress(line)
	}
	_, _ = io.WriteString(&t.kept, line+"\n") // never fails
}

func (t *printed) String() string { return t.kept.String() + t.rest }
