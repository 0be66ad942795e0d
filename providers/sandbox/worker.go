//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/org/rollout-action/providers/internal/initclient"

	"github.com/org/rollout-action/providers/internal/initproc"
	"github.com/org/rollout-action/providers/sandbox/internal/oci"
)

// In modeIDs this process may neither create nor remove the files of the users in its sandboxes. A
// worker, this program in a user namespace with the same ids, may. Its environment variables name
// the work.
const (
	workKey = "ROLLOUT_SANDBOX_WORK"
	dirKey  = "ROLLOUT_SANDBOX_DIR"
	toKey   = "ROLLOUT_SANDBOX_TO"

	workRemove = "remove"
	workUnpack = "unpack" // a layer, from stdin
	workPack   = "pack"   // a layer, to stdout
	workExport = "export" // a layer, to stdout, in the form of images
	workCopy   = "copy"   // to the directory in toKey; prints the size
)

// removeAll removes a directory of the store, even with files and modes made by a sandbox.
func (m mode) removeAll(dir string) error {
	err := removeTree(dir)
	if err == nil || m != modeIDs {
		return err
	}
	return m.work(context.Background(), workRemove, dir, nil, nil)
}

// removeTree removes a directory like os.RemoveAll. It also removes directories without
// permissions, and trees deeper than this process may open files.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	flattenTree(dir)
	if again := os.RemoveAll(dir); again != nil {
		return errors.Join(err, again)
	}
	return nil
}

// flattenTree moves all directories below dir into dir itself, one level at a time, so that no path
// has more than two elements. Errors show when dir is removed.
func flattenTree(dir string) {
	_ = os.Chmod(dir, 0o700)
	for todo := subdirs(dir); len(todo) > 0; {
		var found []string
		for _, directory := range todo {
			for _, below := range subdirs(directory) {
				moved := filepath.Join(dir, newID())
				if os.Chmod(below, 0o700) == nil && os.Rename(below, moved) == nil { // a rename writes ".."
					found = append(found, moved)
				}
			}
			_ = os.RemoveAll(directory)
		}
		todo = found
	}
}

// subdirs makes a directory accessible to its owner and returns the directories in it.
func subdirs(dir string) []string {
	_ = os.Chmod(dir, 0o700)
	entries, _ := os.ReadDir(dir)
	var list []string
	for _, entry := range entries {
		if entry.IsDir() {
			list = append(list, filepath.Join(dir, entry.Name()))
		}
	}
	return list
}

// unpack unpacks a layer into dir, which must be empty.
func (m mode) unpack(ctx context.Context, layer io.Reader, dir string) error {
	if m == modeIDs {
		return m.work(ctx, workUnpack, dir, layer, nil)
	}
	return unpackLayer(ctx, layer, dir, oci.UnpackOptions{Xattr: m.xattr(), Owners: m == modeRoot})
}

// opaqueMark is a file next to the root of a layer that hides all layers below. overlayfs has no
// mark for that at the top of a layer.
const opaqueMark = "opaque"

func unpackLayer(ctx context.Context, layer io.Reader, dir string, opts oci.UnpackOptions) error {
	report, err := oci.Unpack(ctx, layer, dir, opts)
	if err != nil || !report.Opaque {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(dir), opaqueMark), nil, 0o600)
}

// hidesBelow reports whether the layer with the root directory root hides all layers below.
func hidesBelow(root string) bool { return exists(filepath.Join(filepath.Dir(root), opaqueMark)) }

// exportLayer writes the layer with the root directory root as the tar archive of an image layer.
func (m mode) exportLayer(ctx context.Context, root string, w io.Writer) error {
	if m.usesUserNamespace() {
		return m.work(ctx, workExport, root, nil, w) // sees the owners as sandboxes do
	}
	return oci.Pack(ctx, root, w, oci.PackOptions{Xattr: m.xattr(), Opaque: hidesBelow(root)})
}

// work starts a worker and waits for it. more has additional environment variables.
func (m mode) work(ctx context.Context, what, dir string, input io.Reader, output io.Writer, more ...string) error {
	cmd, release, err := m.command(roleWorker, roleWorkerMapped)
	if err != nil {
		return err
	}
	cmd.Env = append(append(cmd.Env, workKey+"="+what, dirKey+"="+dir), more...)
	var problems initclient.Tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, &problems
	if err := startProcess(cmd); err != nil {
		return errors.Join(err, release(0))
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}()
	err = release(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s %s: %w: %s", what, dir, err, strings.TrimSpace(problems.String()))
	}
	return nil
}

// work is the main function of a worker. It does not return.
func work() {
	dir, err := os.Getenv(dirKey), errors.New("unknown work")
	syscall.Umask(0o022)
	switch os.Getenv(workKey) {
	case workRemove:
		err = removeTree(dir)
	case workUnpack:
		err = unpackLayer(context.Background(), os.Stdin, dir, oci.UnpackOptions{Xattr: modeIDs.xattr(), Owners: true})
	case workPack:
		err = initproc.PackAll(dir, os.Stdout)
	case workExport:
		err = oci.Pack(context.Background(), dir, os.Stdout, oci.PackOptions{Xattr: oci.XattrUser, Opaque: hidesBelow(dir)})
	case workCopy:
		var size int64
		if size, err = copyTree(dir, os.Getenv(toKey)); err == nil {
			fmt.Println(size)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
