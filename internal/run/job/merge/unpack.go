package merge

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/org/rollout-action/internal/run/job/linktree"
)

// Limits of all archives of a merge together.
const (
	maxUnpackedBytes = 64 << 30
	maxUnpackedFiles = 4_000_000
	maxUnpackedDepth = 64
)

// unpackLimits counts the files and bytes that were unpacked.
type unpackLimits struct {
	bytes int64
	files int
}

// errArchiveTooLarge ends the unpacking of an archive.
var errArchiveTooLarge = fmt.Errorf("it has more than %d files or %d bytes", maxUnpackedFiles, int64(maxUnpackedBytes))

// archiveKind returns the suffix of an archive's name that identifies its format, and "" for other
// names.
func archiveKind(name string) string {
	name = strings.ToLower(filepath.Base(name))
	for _, suffix := range []string{".tar", ".tar.gz", ".tgz", ".zip"} {
		if strings.HasSuffix(name, suffix) {
			return suffix
		}
	}
	return ""
}

// unpack unpacks an archive into dir. The archive is hostile: unpack writes nothing outside of dir,
// creates no link, does not rely on the sizes in the archive, and leaves out names that no run
// would have written. An *fs.PathError means that this machine failed; any other error is the
// archive's fault.
func (m *merge) unpack(ctx context.Context, file, dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := unpacker{root: root, limits: &m.limits, made: map[string]bool{".": true}, skipped: &m.skipped}
	if archiveKind(file) == ".zip" {
		return u.zip(ctx, file)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var stream io.Reader = f
	if archiveKind(file) != ".tar" {
		packed, err := gzip.NewReader(f)
		if err != nil {
			return archiveError(err)
		}
		defer packed.Close()
		stream = packed
	}
	if err := u.tar(ctx, tar.NewReader(stream)); err != nil {
		return err
	}
	return u.drain(stream)
}

// drain reads the rest of the stream after the end of a tar, so that gzip verifies its checksum,
// which is at the very end.
func (u *unpacker) drain(stream io.Reader) error {
	left := maxUnpackedBytes - u.limits.bytes
	n, err := io.Copy(io.Discard, contentReader{io.LimitReader(stream, left+1)})
	if u.limits.bytes += n; n > left {
		return errArchiveTooLarge
	}
	return err
}

type unpacker struct {
	root    *os.Root
	limits  *unpackLimits
	made    map[string]bool // directories
	skipped *omissions
}

func (u *unpacker) tar(ctx context.Context, archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // such paths are left out below
			return archiveError(err)
		}
		switch header.Typeflag {
		case tar.TypeXGlobalHeader:
		case tar.TypeReg:
			err = u.file(ctx, header.Name, archive)
		case tar.TypeDir:
			err = u.dir(ctx, header.Name)
		default:
			u.skipped.add(header.Name)
			err = u.count(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacker) zip(ctx context.Context, file string) error {
	archive, err := zip.OpenReader(file)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return archiveError(err)
	}
	defer archive.Close()
	for _, entry := range archive.File {
		if err := u.zipped(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) zipped(ctx context.Context, entry *zip.File) error {
	name := strings.ReplaceAll(entry.Name, `\`, "/") // some writers on Windows
	switch mode := entry.Mode(); {
	case mode.IsDir() || strings.HasSuffix(name, "/"):
		return u.dir(ctx, name)
	case !mode.IsRegular():
		u.skipped.add(name)
		return u.count(ctx)
	}
	content, err := entry.Open()
	if err != nil {
		return archiveError(err)
	}
	defer content.Close()
	return u.file(ctx, name, content)
}

// count counts an entry, even if it is left out. It fails at the limit and when ctx ends.
func (u *unpacker) count(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u.limits.files++; u.limits.files > maxUnpackedFiles {
		return errArchiveTooLarge
	}
	return nil
}

// clean returns the path of an entry below the directory, and false if no run would have written
// it.
func (u *unpacker) clean(name string) (string, bool) {
	if strings.HasPrefix(name, "/") {
		return "", false
	}
	var elements []string
	for element := range strings.SplitSeq(name, "/") {
		switch {
		case element == "" || element == ".":
		case !linktree.OrdinaryName(element):
			return "", false
		default:
			elements = append(elements, element)
		}
	}
	on := path.Join(elements...)
	return on, len(elements) > 0 && len(elements) <= maxUnpackedDepth && len(on) <= linktree.MaxPath
}

func (u *unpacker) dir(ctx context.Context, name string) error {
	if err := u.count(ctx); err != nil {
		return err
	}
	on, ok := u.clean(name)
	if !ok {
		if strings.Trim(name, "./") != "" { // the directory itself may be named
			u.skipped.add(name)
		}
		return nil
	}
	return entryError(u.makeDir(on))
}

func (u *unpacker) makeDir(on string) error {
	if u.made[on] {
		return nil
	}
	if err := u.root.MkdirAll(on, 0o755); err != nil {
		return err
	}
	u.made[on] = true
	return nil
}

func (u *unpacker) file(ctx context.Context, name string, content io.Reader) error {
	if err := u.count(ctx); err != nil {
		return err
	}
	on, ok := u.clean(name)
	if !ok {
		u.skipped.add(name)
		return nil
	}
	if err := u.makeDir(path.Dir(on)); err != nil {
		return entryError(err)
	}
	f, err := u.root.OpenFile(on, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return entryError(err)
	}
	left := maxUnpackedBytes - u.limits.bytes
	n, err := io.Copy(f, contentReader{io.LimitReader(content, left+1)})
	err = errors.Join(err, f.Close())
	if u.limits.bytes += n; n > left {
		return errArchiveTooLarge
	}
	return err
}

// entryError returns an error that blames the archive for two entries with one name.
func entryError(err error) error {
	if errors.Is(err, os.ErrExist) || errors.Is(err, syscall.ENOTDIR) {
		return archiveError(err)
	}
	return err
}

// contentReader blames the archive for errors of reading it; errors of writing are this machine's.
type contentReader struct{ io.Reader }

func (r contentReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = archiveError(err)
	}
	return n, err
}

// archiveError returns an error with the same text that is no *fs.PathError.
func archiveError(err error) error { return errors.New(err.Error()) }
