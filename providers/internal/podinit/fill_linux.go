package podinit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// fill copies directories into empty ones: pairs has one after the other. What an image has where a
// new volume is mounted becomes the volume's content, as with Docker.
func fill(pairs []string) error {
	if len(pairs)%2 != 0 {
		return errors.New("each directory needs the one to fill")
	}
	for ; len(pairs) > 0; pairs = pairs[2:] {
		if err := fillOne(pairs[0], pairs[1]); err != nil {
			return fmt.Errorf("copy the image's %s into its volume: %w", pairs[0], err)
		}
	}
	return nil
}

func fillOne(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	if there, err := os.ReadDir(to); err != nil || len(there) > 0 {
		return err
	}
	from, err = filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return duplicate(path, filepath.Join(to, below))
	})
}

// duplicate copies one file, link or directory without its content, with its owner and mode.
func duplicate(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case mode.IsRegular():
		if err := copyFile(from, to); err != nil {
			return err
		}
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, to); err != nil {
			return err
		}
	default: // sockets and pipes belong to processes
		return nil
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := os.Lchown(to, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	return os.Chmod(to, info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)) // after the owner, who would lose bits
}

func copyFile(from, to string) error {
	source, err := os.Open(from) // #nosec G304 -- of an image
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- of a new volume
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
