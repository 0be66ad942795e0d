package dockerfile

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
	"github.com/org/rollout-action/providers/sandbox/internal/sources"
)

// add plans an ADD instruction.
func (p *planner) add(c config, cmd *instructions.AddCommand, line int) (operation, error) {
	op := &copyFiles{name: "ADD", line: line, context: true, chown: cmd.Chown, chmod: cmd.Chmod, exclude: cmd.ExcludePatterns, unpack: sources.UnpackLocal}
	if cmd.Unpack != nil {
		op.unpack = sources.UnpackNever
		if *cmd.Unpack {
			op.unpack = sources.UnpackAlways
		}
	}
	for _, src := range cmd.SourcePaths {
		if isGit(src) {
			return nil, fmt.Errorf("ADD %s: repositories are not fetched: RUN git clone, or put the files next to the Dockerfile and COPY them", src)
		}
	}
	if err := op.setPaths(c, cmd.SourcesAndDest); err != nil {
		return nil, err
	}
	err := op.setChecksum(cmd.Checksum)
	return op, err
}

var sha256Sum = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// setChecksum sets the digest that a download must have.
func (op *copyFiles) setChecksum(sum string) error {
	switch {
	case sum == "":
	case len(op.urls) != 1 || len(op.sources)+len(op.texts) > 0:
		return errors.New("ADD --checksum needs one address to download as its only source")
	case !sha256Sum.MatchString(sum):
		return fmt.Errorf("ADD --checksum=%s: want sha256: and 64 hexadecimal digits", sum)
	}
	op.sum = sum
	return nil
}

func isURL(src string) bool {
	return (strings.HasPrefix(src, "http://") || strings.HasPrefix(src, "https://")) && !isGit(src)
}

var scpLike = regexp.MustCompile(`^[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:`)

// isGit reports whether BuildKit treats src as a repository.
func isGit(src string) bool {
	if strings.HasPrefix(src, "git://") || strings.HasPrefix(src, "ssh://") || scpLike.MatchString(src) {
		return true
	}
	u, err := url.Parse(src)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.HasSuffix(u.Path, ".git")
}

// download is a file that ADD fetches, once per build. Without a checksum it is fetched to compute
// the key, because that depends on the content; otherwise only when the layer is made.
type download struct {
	url  string
	sum  string
	file string // path after the download
	time time.Time
	hash string
}

// downloads returns the files that an ADD fetches, and adds them to the key.
func (b *builder) downloads(ctx context.Context, op *copyFiles, k key) ([]item, error) {
	k.number(int64(len(op.urls)))
	var items []item
	for _, address := range op.urls {
		d := &download{url: address, sum: op.sum}
		k.text(address)
		if op.sum != "" && op.unpack != sources.UnpackAlways {
			k.text(op.sum)
		} else {
			if err := b.fetch(ctx, d); err != nil {
				return nil, fmt.Errorf("ADD: %w", err)
			}
			k.text("sha256:" + d.hash)
		}
		it := item{base: d.name(), tree: fetched{b, d}, path: "/"}
		if op.unpack == sources.UnpackAlways {
			var err error
			if it.archive, err = sources.IsArchive(ctx, it.tree, it.path); err != nil {
				return nil, fmt.Errorf("ADD: %s: %w", address, err)
			}
		}
		items = append(items, it)
	}
	return items, nil
}

// name returns the file's name in the destination directory.
func (d *download) name() string {
	if u, err := url.Parse(d.url); err == nil {
		if base := path.Base(u.Path); base != "." && base != "/" {
			return base
		}
	}
	return "__unnamed__" // like BuildKit
}

// fetch downloads a file, unless it was downloaded before.
func (b *builder) fetch(ctx context.Context, d *download) error {
	if d.file != "" {
		return nil
	}
	err := b.download(ctx, d)
	if err != nil {
		return fmt.Errorf("%s: %w: without a network, put the file next to the Dockerfile and COPY it", d.url, err)
	}
	if d.sum != "" && d.sum != "sha256:"+d.hash {
		return fmt.Errorf("%s: its checksum is sha256:%s, not %s", d.url, d.hash, d.sum)
	}
	return nil
}

func (b *builder) download(ctx context.Context, d *download) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := b.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", response.Status)
	}
	d.time = fixedTime
	if changed, err := http.ParseTime(response.Header.Get("Last-Modified")); err == nil {
		d.time = changed
	}
	return b.store(response.Body, d)
}

// store writes a download to a temporary file that is removed when the build ends.
func (b *builder) store(r io.Reader, d *download) (err error) {
	if b.scratch == "" {
		if b.scratch, err = os.MkdirTemp("", "dockerfile-add-"); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(b.scratch, "")
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), r)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	d.file, d.hash = file.Name(), hex.EncodeToString(sum.Sum(nil))
	return nil
}

// fetched is a download as a tree: a file at "/" with mode 0600, as in BuildKit.
type fetched struct {
	b *builder
	d *download
}

// Stat implements tree.
func (f fetched) Stat(context.Context, string) (machine.Info, error) {
	return machine.Info{Path: "/", Exists: true}, nil
}

// Get implements tree.
func (f fetched) Get(ctx context.Context, _ string, w io.Writer) error {
	if err := f.b.fetch(ctx, f.d); err != nil {
		return err
	}
	file, err := os.Open(f.d.file)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ".", Mode: 0o600, Size: info.Size(), ModTime: f.d.time, Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := io.Copy(archive, file); err != nil {
		return err
	}
	return archive.Close()
}

func (f fetched) Open(string) (io.ReadCloser, error) { return os.Open(f.d.file) }

// textFile is a heredoc of COPY as a tree: a file at "/".
type textFile string

// Stat implements tree.
func (f textFile) Stat(context.Context, string) (machine.Info, error) {
	return machine.Info{Path: "/", Exists: true}, nil
}

// Get implements tree.
func (f textFile) Get(_ context.Context, _ string, w io.Writer) error {
	archive := tar.NewWriter(w)
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ".", Mode: 0o644, Size: int64(len(f)), ModTime: fixedTime, Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := io.WriteString(archive, string(f)); err != nil {
		return err
	}
	return archive.Close()
}
