package environmenttest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

var copyToMutants = []broken{
	{"makes every file executable by all", []string{"files arrive with their modes and belong to root"},
		changeFiles(func(name string, f *fstest.MapFile) string { f.Mode |= 0o777; return name })},
	{"gives all files to root", []string{"files arrive with the owners, modes, times and names that they had"}, changeFiles(nil, func(c *environment.Copy) {
		for i := range c.Entries {
			c.Entries[i].UID, c.Entries[i].GID = 0, 0
		}
	})},
	{"knows only names on disk", []string{"files arrive with the owners, modes, times and names that they had"}, changeFiles(nil, func(c *environment.Copy) { c.Entries = nil })},
	{"loses odd names", []string{"file names with any characters arrive"},
		changeFiles(func(name string, _ *fstest.MapFile) string { return strings.ReplaceAll(name, "\n", "") })},
	{"cuts big files", []string{"a file of 64 MiB arrives whole"},
		changeFiles(func(name string, f *fstest.MapFile) string { f.Data = f.Data[:min(len(f.Data), 32<<20)]; return name })},
	{"loses some of many files", []string{"2,000 files arrive"},
		changeFiles(func(name string, _ *fstest.MapFile) string { return strings.TrimPrefix(name, "d39/f1999") })},
	{"leaves out empty directories", []string{"empty directories arrive"},
		changeFiles(func(name string, f *fstest.MapFile) string {
			if f.Mode.IsDir() {
				return ""
			}
			return name
		})},
	{"always cleans", []string{"a copy keeps files that exist"}, changeFiles(nil, func(c *environment.Copy) { c.Clean = true })},
	{"never cleans", []string{"a clean copy removes files that existed"}, changeFiles(nil, func(c *environment.Copy) { c.Clean = false })},
	{"makes no links", []string{"links are made where a copy has them, and lead nowhere else"}, changeFiles(nil, func(c *environment.Copy) { c.Links = nil })},
	{"ignores the mode of the destination", []string{"the mode of the destination is as asked for"},
		changeFiles(nil, func(c *environment.Copy) { c.Mode = 0 })},
	{"copies in another order", []string{"copies are made in order"}, hooks{
		copyTo: func(e *brokenEnv, ctx context.Context, files []environment.Copy) error {
			slices.Reverse(files)
			return e.Environment.CopyTo(ctx, files...)
		}}},
	{"cleans what a link points to", []string{"a clean copy removes a planted link and spares its target"}, hooks{
		copyTo: func(e *brokenEnv, ctx context.Context, files []environment.Copy) error {
			for i := range files {
				files[i].Clean = false
				if _, err := e.Environment.Exec(ctx, "rm -rf "+files[i].Dst+"/*", environment.ExecOptions{}); err != nil {
					return err
				}
			}
			return e.Environment.CopyTo(ctx, files...)
		}}},
	{"resolves links outside", []string{"a destination below a link is inside the environment"}, hooks{
		programs: true,
		copyTo: func(e *brokenEnv, ctx context.Context, files []environment.Copy) error {
			for _, c := range files {
				var target suite.Buffer
				if _, err := e.Environment.Exec(ctx, "readlink "+filepath.Dir(c.Dst), environment.ExecOptions{Stdout: &target}); err != nil {
					return err
				}
				if dir := strings.TrimSpace(target.String()); strings.HasPrefix(dir, os.TempDir()) {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						return err
					}
				}
			}
			return e.Environment.CopyTo(ctx, files...)
		}}},
	{"runs the environment's tar", []string{"a copy is not made by programs of the environment"}, hooks{
		copyTo: func(e *brokenEnv, ctx context.Context, files []environment.Copy) error {
			if _, err := e.Environment.Exec(ctx, "/bin/tar", environment.ExecOptions{}); err != nil {
				return err
			}
			return e.Environment.CopyTo(ctx, files...)
		}}},
	{"leaves out what it cannot copy", []string{"links and devices in a source are refused"},
		changeFiles(func(name string, f *fstest.MapFile) string {
			if !f.Mode.IsDir() && !f.Mode.IsRegular() {
				return ""
			}
			return name
		})},
	{"wants something to copy", []string{"a copy of nothing is fine"}, hooks{
		copyTo: func(e *brokenEnv, ctx context.Context, files []environment.Copy) error {
			if len(files) == 0 {
				return errors.New("nothing to copy")
			}
			return e.Environment.CopyTo(ctx, files...)
		}}},
	{"forgets the files of a creation", []string{"files are there before the first command"},
		changeCreate(func(o *environment.CreateOptions) { o.Files = nil })},
	{"leaves an environment behind when its files cannot be copied", []string{"files that cannot be copied fail the creation"}, hooks{
		create: func(m *mutant, ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
			files := o.Files
			o.Files = nil
			env, err := m.make(ctx, o)
			if err == nil {
				err = env.CopyTo(ctx, files...)
			}
			return env, err
		}}},
	{"keeps copies for root alone", []string{"a user who is not root can read copied files"},
		changeFiles(func(name string, f *fstest.MapFile) string { f.Mode &^= 0o077; return name })},
}

var copyFromMutants = []broken{
	{"puts what it copies one level deeper", []string{"the content of a directory lands in the destination", "a single file lands in the destination"}, hooks{
		copyFrom: func(e *brokenEnv, ctx context.Context, src, dst string, o environment.ExtractOptions) (environment.Extracted, error) {
			deeper := filepath.Join(dst, "deeper")
			return environment.Extracted{}, errors.Join(os.Mkdir(deeper, 0o755), fetchInto(e, ctx, src, deeper, o))
		}}},
	{"does not know empty directories", []string{"an empty directory is no error"}, afterFetch(func(_ string, out *environment.Extracted, err *error) {
		if out.Files == 0 {
			*err = fs.ErrNotExist
		}
	})},
	{"does not say why it failed", []string{"a missing path is fs.ErrNotExist"}, afterFetch(func(_ string, _ *environment.Extracted, err *error) {
		if *err != nil {
			*err = errors.New("failed")
		}
	})},
	{"keeps setuid bits", []string{"files without read permission are copied out"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = os.Chmod(filepath.Join(dst, "setuid"), 0o755|fs.ModeSetuid)
	})},
	{"forgets the filter", []string{"a filter sees every byte and may change it"}, changeFetch(func(o *environment.ExtractOptions) { o.Filter = nil })},
	{"forgets to make names safe", []string{"names are made safe and the changes listed"}, changeFetch(func(o *environment.ExtractOptions) { o.SafeName = nil })},
	{"fails when a file grows", []string{"a file that grows while it is read does no harm"}, afterFetch(func(_ string, _ *environment.Extracted, err *error) {
		*err = errors.New("archive/tar: write too long")
	})},
	{"gives an environment up after a timeout", []string{"files come out after a timeout"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			if err != nil {
				_ = e.Environment.Destroy(context.WithoutCancel(ctx))
			}
			return code, err
		}}},
	{"makes links", []string{"links on their way out are left behind and listed"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = os.Symlink("/etc/passwd", filepath.Join(dst, "passwd"))
	})},
	{"does not say what it left behind", []string{"links on their way out are left behind and listed",
		"pipes, devices and sockets are left behind and listed", "lists of omitted entries are cut at 100"},
		afterFetch(func(_ string, out *environment.Extracted, _ *error) { out.Omitted = nil })},
	{"makes hard links", []string{"hard links on their way out are no links any more"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = os.Link(filepath.Join(dst, "fine"), filepath.Join(dst, "linked"))
	})},
	{"forgets modes on the way out", []string{"files arrive with the owners, modes, times and names that they had"}, afterFetch(func(_ string, out *environment.Extracted, _ *error) {
		for i := range out.Entries {
			out.Entries[i].Mode = 0o755
		}
	})},
	{"makes pipes", []string{"pipes, devices and sockets are left behind and listed"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = syscall.Mkfifo(filepath.Join(dst, "pipe"), 0o644)
	})},
	{"follows links to the host", []string{"a source that is a link shows nothing of the host"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = os.WriteFile(filepath.Join(dst, "secret"), nil, 0o644)
	})},
	{"loses files with a colon", []string{"names of every sort come out, or are listed"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = os.Remove(filepath.Join(dst, "d", "a:b"))
	})},
	{"gives up on deep trees", []string{"a tree of 300 levels does no harm"}, hooks{
		copyFrom: func(*brokenEnv, context.Context, string, string, environment.ExtractOptions) (environment.Extracted, error) {
			return environment.Extracted{}, errors.New("too deep")
		}}},
	{"copies nothing and says nothing", []string{"more than 50,000 files stop at the default limit"}, hooks{
		exec: func(*brokenEnv, context.Context, string, environment.ExecOptions) (int, error) { return 0, nil }, // makes no files, to save time
		copyFrom: func(*brokenEnv, context.Context, string, string, environment.ExtractOptions) (environment.Extracted, error) {
			return environment.Extracted{}, nil
		}}},
	{"does not tell of limits", []string{"more files than the limit stop at the limit",
		"a sparse file of 10 GiB stops at the limit", "many files together stop at the limit of bytes"},
		afterFetch(func(_ string, _ *environment.Extracted, err *error) { *err = nil })},
	{"has no limit of files", []string{"more files than the limit stop at the limit"}, changeFetch(func(o *environment.ExtractOptions) { o.MaxFiles = 1 << 30 })},
	{"has no limit of bytes", []string{"many files together stop at the limit of bytes"}, changeFetch(func(o *environment.ExtractOptions) { o.MaxBytes = 1 << 40 })},
	{"lets paths lead upwards", []string{"a malicious tar program does no harm"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = os.WriteFile(filepath.Join(dst, "..", "up"), nil, 0o644)
	})},
	{"overwrites a file next to the destination", []string{"a malicious tar program does no harm"}, afterFetch(func(dst string, _ *environment.Extracted, _ *error) {
		_ = os.WriteFile(filepath.Join(dst, "..", "canary"), []byte("escaped"), 0o644)
	})},
}

func fetchInto(e *brokenEnv, ctx context.Context, src, dst string, o environment.ExtractOptions) error {
	_, err := e.Environment.CopyFrom(ctx, src, dst, o)
	return err
}

// changeFetch returns a copyFrom hook that changes the options.
func changeFetch(change func(o *environment.ExtractOptions)) hooks {
	return hooks{copyFrom: func(e *brokenEnv, ctx context.Context, src, dst string, o environment.ExtractOptions) (environment.Extracted, error) {
		change(&o)
		return e.Environment.CopyFrom(ctx, src, dst, o)
	}}
}
