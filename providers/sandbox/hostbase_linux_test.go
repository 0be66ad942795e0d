package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// machineRoot makes a root file system: names that end in / are directories, "a -> b" are links,
// the others are files that contain their name. A mode may follow: "etc/secret 600".
func machineRoot(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		mode := fs.FileMode(0o644)
		if link, to, ok := strings.Cut(name, " -> "); ok {
			must(t, os.Symlink(to, filepath.Join(root, link)))
			continue
		}
		name, private := strings.CutSuffix(name, " 600")
		if private {
			mode = 0o600
		}
		path := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			must(t, os.Chmod(path, mode|mode>>2&0o111|0o100))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(name), mode))
		must(t, os.Chmod(path, mode))
	}
	return root
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHostParts(t *testing.T) {
	merged := []string{"usr/bin/", "usr/lib/", "usr/local/bin/", "usr/share/x/", "opt/tool/", "bin -> usr/bin", "lib -> usr/lib", "home/u/", "data/"}
	for _, tc := range []struct {
		name   string
		files  []string
		mounts []string
		store  string
		want   []string
	}{
		{"programs, and what is optional", merged, []string{"/", "/proc"}, "/home/u/store", []string{"/usr", "/.host/opt"}},
		{"directories of the root that are no links", append([]string{"sbin/x", "nix/store/"}, merged...), nil, "/s", []string{"/usr", "/sbin", "/nix", "/.host/opt"}},
		{"no part has mounts in it", merged, []string{"/usr/local/bin"}, "/s", []string{"/usr/bin", "/usr/lib", "/usr/local/bin", "/usr/share", "/.host/opt"}},
		{"a part may be a mount", merged, []string{"/usr"}, "/s", []string{"/usr", "/.host/opt"}},
		{"no part has the store in it", merged, nil, "/usr/local/store", []string{"/usr/bin", "/usr/lib", "/usr/local/bin", "/usr/share", "/.host/opt"}},
		{"nothing of the store is a part", append([]string{"usr/share/x/l/", "usr/share/y/"}, merged...), nil, "/usr/share/x", []string{"/usr/bin", "/usr/lib", "/usr/local", "/usr/share/y", "/.host/opt"}},
		{"a store in /opt is not shown", merged, nil, "/opt/store", []string{"/usr"}},
		{"a mount in /opt is not shown", merged, []string{"/opt/tool"}, "/s", []string{"/usr"}},
		{"/opt may be a mount", merged, []string{"/opt"}, "/s", []string{"/usr", "/.host/opt"}},
		{"a machine without /opt", []string{"usr/"}, nil, "/s", []string{"/usr"}},
		{"an empty /opt is nothing to show", []string{"usr/", "opt/"}, nil, "/s", []string{"/usr"}},
		{"what is private in /opt is nothing to show", []string{"usr/", "opt/x/ 600"}, nil, "/s", []string{"/usr"}},
		{"names that begin alike are not the same", merged, []string{"/usrs/x"}, "/usrstore", []string{"/usr", "/.host/opt"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parts := hostParts(machineRoot(t, tc.files...), tc.mounts, tc.store)
			var got []string
			for _, p := range parts {
				got = append(got, p.At)
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestHostKeyDependsOnTheMachine(t *testing.T) {
	root := machineRoot(t, "usr/bin/x", "usr/local/bin/", "etc/passwd", "etc/group", "etc/alternatives/", "opt/tool/x", "var/lib/dpkg/status", "home/u/x")
	parts := hostParts(root, nil, "/store")
	before := hostKey(root, modeRoot, parts)
	if again := hostKey(root, modeRoot, hostParts(root, nil, "/store")); again != before {
		t.Errorf("the same machine has the keys %s and %s", before, again)
	}
	if other := hostKey(root, modeOne, parts); other == before {
		t.Error("another mode has the same key")
	}
	must(t, os.WriteFile(filepath.Join(root, "home/u/y"), nil, 0o644))
	if other := hostKey(root, modeRoot, parts); other != before {
		t.Error("a file in a home directory changes the key")
	}
	for _, change := range []string{"usr/bin/y", "usr/local/bin/y", "etc/passwd", "etc/group", "etc/new", "etc/alternatives/y", "opt/other", "var/lib/dpkg/status"} {
		t.Run(change, func(t *testing.T) {
			before := hostKey(root, modeRoot, parts)
			must(t, os.WriteFile(filepath.Join(root, change), []byte("it is another one"), 0o644))
			if hostKey(root, modeRoot, parts) == before {
				t.Error("the key stays the same")
			}
		})
	}
}

// makeBase makes the base of a simulated machine in a new directory.
func makeBase(t *testing.T, ctx context.Context, root string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	b := baseMaker{root: root, dir: dir, mode: modeOne}
	return dir, b.make(ctx, hostParts(root, nil, "/store"))
}

func TestBaseContents(t *testing.T) {
	root := machineRoot(t, "usr/bin/tool", "usr/bin/secret 600", "usr/share/private/ 600", "bin -> usr/bin", "etc/passwd", "etc/group", "etc/shadow 600",
		"etc/ssl/private/ 600", "etc/ssl/certs/ca", "etc/docker/key", "etc/apt/apt.conf.d/1", "var/lib/dpkg/status", "var/lib/secret", "opt/tool/x", "opt/private/ 600",
		"home/u/x", "root/.ssh/id", "srv/data")
	must(t, os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\nu:x:1:1::/home/u:/bin/sh\n"), 0o644))
	dir, err := makeBase(t, t.Context(), root)
	must(t, err)
	for _, there := range []string{"root/etc/passwd", "root/etc/group", "root/etc/ssl/certs/ca", "root/etc/apt/apt.conf.d/99rollout-own", "root/etc/apt/rollout-own", "root/var/lib/dpkg/status",
		"root/home", "root/tmp", "root/srv", "root/opt/tool", "root/bin", "+usr/bin", "+usr/bin/secret", "+usr/share/private"} {
		if !exists(filepath.Join(dir, there)) {
			t.Errorf("%s is missing", there)
		}
	}
	for _, hidden := range []string{"root/etc/docker/key", "root/var/lib/secret", "root/home/u", "root/root/.ssh", "root/srv/data", "root/opt/private", "+usr/bin/tool"} {
		if exists(filepath.Join(dir, hidden)) {
			t.Errorf("%s is there", hidden)
		}
	}
	for _, marked := range []string{"+usr/bin/secret", "+usr/share/private"} {
		var stat unix.Stat_t
		must(t, unix.Lstat(filepath.Join(dir, marked), &stat))
		if stat.Mode&unix.S_IFMT != unix.S_IFCHR || stat.Rdev != 0 {
			t.Errorf("%s is no whiteout: mode %o, device %d", marked, stat.Mode, stat.Rdev)
		}
	}
	shadow, err := os.ReadFile(filepath.Join(dir, "root/etc/shadow"))
	must(t, err)
	if want := "root:*:19000:0:99999:7:::\nu:*:19000:0:99999:7:::\n"; string(shadow) != want {
		t.Errorf("etc/shadow is %q, want %q", shadow, want)
	}
	if modeOf(t, filepath.Join(dir, "root/tmp")) != 0o777|fs.ModeSticky {
		t.Errorf("tmp has mode %v", modeOf(t, filepath.Join(dir, "root/tmp")))
	}
}

func TestBaseHasFilesNextToMounts(t *testing.T) {
	root := machineRoot(t, "usr/bin/tool", "usr/local/bin/tool", "usr/local/share/man/", "usr/local/man -> share/man", "usr/note", "usr/secret 600", "etc/passwd", "etc/group")
	dir := t.TempDir()
	b := baseMaker{root: root, dir: dir, mode: modeOne}
	must(t, b.make(t.Context(), hostParts(root, []string{"/usr/local/share/man"}, "/store")))
	target, err := os.Readlink(filepath.Join(dir, "root/usr/local/man"))
	if err != nil || target != "share/man" || !exists(filepath.Join(dir, "root/usr/note")) || exists(filepath.Join(dir, "root/usr/secret")) {
		t.Errorf("usr/local/man leads to %q (%v), usr/note: %v, usr/secret: %v", target, err,
			exists(filepath.Join(dir, "root/usr/note")), exists(filepath.Join(dir, "root/usr/secret")))
	}
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return info.Mode() &^ fs.ModeType
}

func TestBaseNeedsAccounts(t *testing.T) {
	for _, name := range requiredFiles {
		t.Run(name, func(t *testing.T) {
			_, err := makeBase(t, t.Context(), machineRoot(t, "usr/bin/", "etc/hosts", name+" 600"))
			if err == nil || !strings.Contains(err.Error(), "/"+name) {
				t.Errorf("error %v, want one that names /%s", err, name)
			}
		})
	}
	t.Run("a machine that has none", func(t *testing.T) {
		_, err := makeBase(t, t.Context(), machineRoot(t, "usr/bin/", "etc/hosts"))
		must(t, err)
	})
}

// Files appear and vanish in /etc during the copy: the base is made without them, and without an
// error.
func TestFilesThatVanishWhileTheyAreCopied(t *testing.T) {
	root := machineRoot(t, "usr/bin/", "etc/passwd", "etc/group", "etc/z/")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, name := range []string{"etc/a", "etc/z/b", "usr/bin/c"} {
				path := filepath.Join(root, name)
				_ = os.WriteFile(path, nil, 0o600)
				_ = os.Chmod(path, 0o644)
				_ = os.Remove(path)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for range 50 {
		dir, err := makeBase(t, t.Context(), root)
		must(t, err)
		for _, name := range requiredFiles {
			if !exists(filepath.Join(dir, rootPart, name)) {
				t.Fatalf("%s is missing", name)
			}
		}
		must(t, removeTree(dir))
	}
}

func TestCancelledBaseLeavesNothing(t *testing.T) {
	s, err := openStore(ownStoreDir(t), findMode(networkOwn))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.hostBase(ctx, func(string) { cancel() }) // said just before it is made
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want one of the context", err)
	}
	for _, sub := range []string{"bases", "tmp"} {
		if entries, err := os.ReadDir(s.path(sub)); err != nil || len(entries) > 0 {
			t.Errorf("%s holds %v, error %v", sub, entries, err)
		}
	}
}

// Concurrent makers and removers of drafts never remove another's draft: a base once lost its
// accounts this way.
func TestSweepKeepsDraftsOfLivingProcesses(t *testing.T) {
	s, err := openStore(ownStoreDir(t), findMode(networkOwn))
	must(t, err)
	var makers, sweepers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		sweepers.Go(func() {
			for {
				s.sweepDrafts()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		makers.Go(func() {
			for range 200 {
				d, err := s.draft()
				if err != nil {
					t.Error(err)
					return
				}
				file := filepath.Join(d.dir, "file")
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Errorf("a draft is removed while it is filled: %v", err)
				}
				for range 5 {
					if !exists(file) || !exists(d.lock.Path()) {
						t.Error("a draft is removed while its maker lives")
					}
				}
				d.discard()
			}
		})
	}
	makers.Wait()
	close(stop)
	sweepers.Wait()
	if entries, err := os.ReadDir(s.path("tmp")); err != nil || len(entries) > 0 {
		t.Errorf("%v are left, error %v", entries, err)
	}
}

func TestSweepRemovesDraftsOfDeadProcesses(t *testing.T) {
	s, err := openStore(ownStoreDir(t), findMode(networkOwn))
	must(t, err)
	must(t, os.MkdirAll(s.path("tmp", "abandoned", "deep"), 0o755))
	must(t, os.WriteFile(s.path("tmp", "abandoned.lock"), nil, 0o600))
	must(t, os.MkdirAll(s.path("tmp", "withoutlock", "deep"), 0o755))
	must(t, os.Mkdir(s.path("tmp", "closed"), 0o700))
	must(t, os.Mkdir(s.path("tmp", "closed", "work"), 0o000))
	must(t, os.WriteFile(s.path("tmp", "onlylock.lock"), nil, 0o600))
	d, err := s.draft()
	must(t, err)
	defer d.discard()
	s.sweepDrafts()
	entries, err := os.ReadDir(s.path("tmp"))
	must(t, err)
	if len(entries) != 2 || !exists(d.dir) || !exists(d.lock.Path()) {
		t.Errorf("%v are left, want the living draft %s and its lock", entries, filepath.Base(d.dir))
	}
}
