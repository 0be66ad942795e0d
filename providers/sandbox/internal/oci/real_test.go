//go:build linux

package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/test/testenv"
)

// unpackAs, if set, is the directory into which this process only unpacks its standard input.
const unpackAs = "ROLLOUT_TEST_UNPACK_INTO"

func TestMain(m *testing.M) {
	dir := os.Getenv(unpackAs)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Unpack(context.Background(), os.Stdin, dir, UnpackOptions{Xattr: XattrUser}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// nobody is the id of an ordinary user.
const nobody = 65534

// listing prints the output of find and sha256sum, which are independent of this package, for each
// file in the current directory: "ABOUT\tNAME\0" and "DIGEST  ./NAME\0".
const listing = `set -e
find . -xdev '(' -type d -printf 'd %m owner=%U:%G %T@\t%P\0' -o -type f -printf 'f %m owner=%U:%G %n links %s bytes %T@\t%P\0' \
	-o -type l -printf 'l owner=%U:%G %T@ %l\t%P\0' -o -printf '%y %m owner=%U:%G %T@\t%P\0' ')'
find . -xdev -type f -print0 | xargs -0 sha256sum -z
`

// changes makes an image's second layer: every way in which it can differ from the first.
const changes = `set -e
rm /etc/issue                                   # a whiteout
rm -r /usr/share/doc; mkdir /usr/share/doc      # an opaque directory
echo new >/usr/share/doc/new
rm -r /var/cache; ln -s /tmp /var/cache         # a directory becomes a link
rm /etc/os-release; mkdir /etc/os-release; echo x >/etc/os-release/x # a link becomes a directory
rm -r /etc/skel; echo x >/etc/skel              # a directory becomes a file
chmod 2700 /opt; chown 33:42 /srv               # only the mode or the owner
echo more >>/etc/profile
mkdir /t; cd /t
echo a >a; ln a b; mkdir d; ln a d/c; ln -s nowhere l; mkfifo p
cp /bin/true setuid; chown 1:2 setuid; chmod 6751 setuid
truncate -s 8M holes; printf end >>holes; : >empty
mkdir -m 1777 sticky; mkdir closed; echo x >closed/x; chmod 0500 closed; chmod 0 a; chmod 0444 empty
printf x >"$(printf 'line\nbreak')"; printf x >"$(printf 'invalid\377')"; printf x >./-rf; printf x >'back\slash'; printf x >' '
printf x >"$(printf '%0255d' 1)"
touch -d '2001-02-03 04:05:06.789012345Z' empty; touch -h -d '1999-01-01 00:00:00.5Z' l; touch -d '1970-01-01 00:00:00Z' d
`

// parseListing returns the output of listing by file, without the files that engines put into every
// container.
func parseListing(t *testing.T, out []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		about, name, ok := strings.Cut(record, "\t")
		if !ok {
			if about, name, ok = strings.Cut(record, "  ./"); !ok {
				t.Fatalf("the listing has %q", record)
			}
		}
		first, _, _ := strings.Cut(name, "/")
		switch {
		case slices.Contains([]string{"dev", "proc", "sys", ".dockerenv", ".listing"}, first):
		case slices.Contains([]string{"", "etc", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab"}, name):
		default:
			files[name] += about + "\n"
		}
	}
	return files
}

func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(want) < 1000 {
		t.Fatalf("the image has %d files only", len(want))
	}
	differ := 0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			if differ++; differ < 20 {
				t.Errorf("%q is\n%swant\n%s", name, got[name], want[name])
			}
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q should not be there: %s", name, got[name])
		}
	}
	t.Logf("%d files, %d differ", len(want), differ)
}

// ownedBy returns a listing in which all files belong to one user.
func ownedBy(files map[string]string, uid int) map[string]string {
	out := map[string]string{}
	for name, about := range files {
		out[name] = owner.ReplaceAllLiteralString(about, fmt.Sprintf(" owner=%d:%d ", uid, uid))
	}
	return out
}

var owner = regexp.MustCompile(` owner=\d+:\d+ `)

// realImage is an image that a Docker engine made, of at least two layers.
type realImage struct {
	engine *client.Client
	id     string
}

func newRealImage(t *testing.T) realImage {
	t.Helper()
	testenv.NeedDocker(t)
	testenv.NeedRoot(t, "to give files to others and to mount")
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must(t, err)
	t.Cleanup(func() { engine.Close() })
	r := realImage{engine: engine, id: testenv.Image}
	changed := r.run(t, changes)
	made, err := engine.ContainerCommit(t.Context(), changed, container.CommitOptions{})
	must(t, err)
	r.id = made.ID
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := engine.ImageRemove(ctx, made.ID, image.RemoveOptions{Force: true}); err != nil {
			t.Errorf("remove the test's image: %v", err)
		}
	})
	return r
}

// run runs a script in a container of the image, which exists until the test ends.
func (r realImage) run(t *testing.T, script string) (id string) {
	t.Helper()
	ctx := t.Context()
	config := &container.Config{Image: r.id, Cmd: []string{"sh", "-c", script}, WorkingDir: "/", User: "0"}
	made, err := r.engine.ContainerCreate(ctx, config, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.engine.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Errorf("remove the test's container: %v", err)
		}
	})
	waited, failed := r.engine.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	must(t, r.engine.ContainerStart(ctx, made.ID, container.StartOptions{}))
	select {
	case err := <-failed:
		t.Fatal(err)
	case end := <-waited:
		if end.StatusCode != 0 {
			t.Fatalf("the script in the container ended with %d", end.StatusCode)
		}
	}
	return made.ID
}

// listed returns the listing of a container of the image. It is copied out as a file, because logs
// lose invalid UTF-8.
func (r realImage) listed(t *testing.T) map[string]string {
	t.Helper()
	id := r.run(t, "exec >/.listing\n"+listing)
	from, _, err := r.engine.CopyFromContainer(t.Context(), id, "/.listing")
	must(t, err)
	defer from.Close()
	archive := tar.NewReader(from)
	_, err = archive.Next()
	must(t, err)
	out, err := io.ReadAll(archive)
	must(t, err)
	return parseListing(t, out)
}

// mounted runs a script in an overlay of layers, bottom first, in a new mount namespace.
func mounted(t *testing.T, layers []string, script string, options ...string) []byte {
	t.Helper()
	testenv.NeedRoot(t, "to mount")
	lower := append([]string{t.TempDir()}, layers...) // overlayfs wants two at least
	slices.Reverse(lower)
	options = append(options, "lowerdir="+strings.Join(lower, ":"))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `mount -t overlay overlay -o "$1" /mnt && cd /mnt && eval "$2"`, "sh", strings.Join(options, ","), script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // Go makes it private
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return out
}

// emptyLayerDir returns an empty directory that uid owns and can reach.
func emptyLayerDir(t *testing.T, uid int) string {
	t.Helper()
	dir := layerDir(t)
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chown(dir, uid, uid))
	return dir
}

// unpackAsUser unpacks in a process of an ordinary user.
func unpackAsUser(t *testing.T, layer io.Reader, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // the binary may lie where only root can go
	cmd.Env = append(os.Environ(), unpackAs+"="+dir)
	cmd.Stdin = layer
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestRealImage unpacks an image made by a Docker engine and compares every file with a container
// of the image.
func TestRealImage(t *testing.T) {
	r := newRealImage(t)
	img, err := Find(t.Context(), r.id, FindOptions{Docker: r.engine, TempDir: t.TempDir()})
	must(t, err)
	defer img.Close()
	if len(img.Layers) < 2 {
		t.Fatalf("%d layers", len(img.Layers))
	}
	want := r.listed(t)
	t.Run("as root", func(t *testing.T) {
		var layers []string
		for _, l := range img.Layers {
			dir := emptyLayerDir(t, 0)
			from, err := l.Open(t.Context())
			must(t, err)
			report, err := Unpack(t.Context(), from, dir, UnpackOptions{Xattr: XattrTrusted, Owners: true})
			must(t, err)
			must(t, from.Close())
			if report.SkippedCount > 0 {
				t.Errorf("skipped %d: %q", report.SkippedCount, report.Skipped)
			}
			layers = append(layers, dir)
		}
		got := parseListing(t, mounted(t, layers, listing))
		compare(t, got, want)
	})
	t.Run("as an ordinary user", func(t *testing.T) {
		var layers []string
		for _, l := range img.Layers {
			dir := emptyLayerDir(t, nobody)
			from, err := l.Open(t.Context())
			must(t, err)
			unpackAsUser(t, from, dir)
			must(t, from.Close())
			layers = append(layers, dir)
		}
		got := parseListing(t, mounted(t, layers, listing, "userxattr"))
		compare(t, got, ownedBy(want, nobody))
	})
}

// TestOverlay mounts layers and checks that overlayfs understands their marks.
func TestOverlay(t *testing.T) {
	testenv.NeedRoot(t, "to mount")
	below := archive(t, file("gone", "x", 0o644), file("kept", "x", 0o644), file("d/old", "x", 0o644), file("e/old", "x", 0o644),
		file("f/old", "x", 0o644), file("g/old", "x", 0o644), file("deep/er/gone", "x", 0o644), file("deep/er/kept", "x", 0o644), directory("mode", 0o700))
	above := archive(t, file(".wh.gone", "", 0), directory("d", 0o755), file("d/.wh..wh..opq", "", 0), file("d/new", "x", 0o644),
		file(".wh.e", "", 0), file("e/new", "x", 0o644), // gone and made again
		file("f/new", "x", 0o644),
		file("g/.wh.old", "", 0), file("deep/er/.wh.gone", "", 0), directory("mode", 0o711), file(".wh.never-was", "", 0))
	const want = "d\nd/new\ndeep\ndeep/er\ndeep/er/kept\ne\ne/new\nf\nf/new\nf/old\ng\nkept\nmode\n"
	const script = "find . -mindepth 1 -printf '%P\\n' | LC_ALL=C sort; stat -c %a mode"
	t.Run("trusted", func(t *testing.T) {
		var layers []string
		for _, data := range [][]byte{below, above} {
			dir := emptyLayerDir(t, 0)
			_, err := Unpack(t.Context(), bytes.NewReader(data), dir, UnpackOptions{Xattr: XattrTrusted, Owners: true})
			must(t, err)
			layers = append(layers, dir)
		}
		if got := string(mounted(t, layers, script)); got != want+"711\n" {
			t.Errorf("the overlay has\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("user", func(t *testing.T) {
		var layers []string
		for _, data := range [][]byte{below, above} {
			dir := emptyLayerDir(t, nobody)
			unpackAsUser(t, bytes.NewReader(data), dir)
			layers = append(layers, dir)
		}
		if got := string(mounted(t, layers, script, "userxattr")); got != want+"711\n" {
			t.Errorf("the overlay has\n%s\nwant\n%s", got, want)
		}
	})
}
