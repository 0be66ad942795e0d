package podinit

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// listed returns the files of an environment by their paths, and the paths in their order.
func listed(t *testing.T, e *Environment) (files map[string]initwire.File, paths []string) {
	t.Helper()
	files = map[string]initwire.File{}
	for f, err := range e.Files(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		files[string(f.Path)] = f
		paths = append(paths, string(f.Path))
	}
	return files, paths
}

func TestFilesOfAContainer(t *testing.T) {
	t.Parallel()
	c := startContainer(t, "--tmpfs", "/in memory")
	e := c.start(t, Options{})
	before, _ := listed(t, e)
	for path, f := range before {
		if f.Recent {
			t.Errorf("%s has changed before anything ran", path)
		}
	}
	if len(before) < 1000 {
		t.Fatalf("only %d files", len(before))
	}
	run(t, e, `cat /etc/passwd >/dev/null; echo x >"/in memory/file"; touch -d 2001-01-01 /etc/group; chmod 0700 /etc/motd; chown 7:8 /etc/issue; rm /etc/debian_version
		mkdir -p /opt/a /opt/a.b && echo >/opt/a/1 && echo >/opt/a.b/2 && printf new >/opt/in && touch -d 1999-01-01 /opt/in; touch $'/opt/\xff'
		ln -s /proc /opt/link; mkfifo /opt/pipe; chmod 4755 /opt/in`, environment.ExecOptions{})
	after, paths := listed(t, e)
	var recent []string
	for path, f := range after {
		if f.Recent && f.Mode&0o170000 != 0o040000 {
			recent = append(recent, path)
		}
	}
	slices.Sort(recent)
	if want := []string{"etc/group", "etc/issue", "etc/motd", "opt/a.b/2", "opt/a/1", "opt/in", "opt/link", "opt/pipe", "opt/\xff"}; !slices.Equal(recent, want) {
		t.Errorf("changed: %q, want %q", recent, want)
	}
	if f := after["opt/in"]; f.Mode != 0o104755 || f.Size != 3 || f.Modified/1e9 > 1e9 {
		t.Errorf("/opt/in: %+v", f)
	}
	if f := after["etc/issue"]; f.UID != 7 || f.GID != 8 {
		t.Errorf("/etc/issue: %+v", f)
	}
	for _, path := range []string{"etc/debian_version", "etc/hosts", "in memory", "in memory/file", ".rollout", "proc", "proc/1", "dev/null"} {
		if _, ok := after[path]; ok {
			t.Errorf("%s is listed", path)
		}
	}
	if !slices.IsSortedFunc(paths, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	}) {
		t.Error("the list is not in order")
	}
	for range e.Files(t.Context()) {
		break // and the connection goes on
	}
	run(t, e, "true", environment.ExecOptions{})
}

// packed returns a line for each entry that PackFiles writes.
func packed(ctx context.Context, e *Environment, paths ...string) (lines []string, err error) {
	err = e.PackFiles(ctx, slices.Values(paths), func(r io.Reader) error {
		for archive := tar.NewReader(r); ; {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			content, err := io.ReadAll(archive)
			if err != nil {
				return err
			}
			if len(content) > 20 {
				content = fmt.Appendf(nil, "%d bytes", len(content))
			}
			lines = append(lines, fmt.Sprintf("%c %s %o %d:%d %s%s%s", h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid, h.Linkname, content, h.PAXRecords["SCHILY.xattr.user.a"]))
		}
	})
	return lines, err
}

func TestPackFilesOfAContainer(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	e := c.start(t, Options{})
	run(t, e, `mkdir -m 0 /opt/d && echo one >/opt/d/one && ln /opt/d/one /opt/two && chown 5:6 /opt/two && chmod 4000 /opt/two && head -c 100000000 /dev/zero >/opt/large
		touch $'/opt/\xff'; ln -s /etc /opt/link; mkfifo /opt/pipe
		python3 -c 'import os, socket; os.setxattr("/opt/large", "user.a", b"b"); s = socket.socket(socket.AF_UNIX); s.bind("/opt/socket")'`, environment.ExecOptions{})
	got, err := packed(t.Context(), e, "opt/d", "opt/d/one", "opt/gone", "opt/large", "opt/link", "opt/pipe", "opt/socket", "opt/two", "opt/\xff")
	want := []string{
		"5 opt/d/ 0 0:0 ", "0 opt/d/one 4000 5:6 one\n", "0 opt/large 644 0:0 100000000 bytesb", "2 opt/link 777 0:0 /etc", "6 opt/pipe 644 0:0 ",
		"1 opt/two 4000 5:6 opt/d/one", "0 opt/\xff 644 0:0 ",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	var many []string
	for range 50_000 {
		many = append(many, "etc/passwd")
	}
	if got, err := packed(t.Context(), e, many...); err != nil || len(got) != len(many) {
		t.Errorf("%d of %d files, %v", len(got), len(many), err)
	}
	refusal := errors.New("no more")
	err = e.PackFiles(t.Context(), slices.Values([]string{"opt/large", "opt/two"}), func(r io.Reader) error {
		_, _ = r.Read(make([]byte, 1000))
		return refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("a reader that refuses: %v", err)
	}
	run(t, e, "true", environment.ExecOptions{})
}
