package sandbox

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHiddenDirectoriesAreThoseBelowShownOnes(t *testing.T) {
	for _, tc := range []struct {
		name       string
		hide, want []string
	}{
		{"what is not shown anyway need not be hidden", []string{"/home/u/tasks", "/work", "/tmp/x", "/"}, nil},
		{"what lies below shown directories is hidden", []string{"/usr/src/app", "/opt/tasks"}, []string{"/opt/tasks", "/usr/src/app"}},
		{"what lies in hidden directories is hidden with them", []string{"/opt/a/b", "/opt/a", "/opt/ab"}, []string{"/opt/a", "/opt/ab"}},
		{"what programs need is shown all the same", []string{"/usr", "/usr/bin", "/usr/local", "/opt", "/usr/lib/x"}, []string{"/usr/lib/x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pathsToHide(tc.hide); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhiteouts(t *testing.T) {
	got := whiteouts([]string{"/opt/tasks", "/usr/src/app", "/usrx/y"}, hostPart{At: "/usr", Host: "/usr"})
	if !slices.Equal(got, []string{"src/app"}) {
		t.Errorf("got %q", got)
	}
}

func TestLayersBelowAnOpaqueOneAreHidden(t *testing.T) {
	s := &store{dir: t.TempDir()}
	for _, path := range []string{"l/a/root", "l/b/root", "l/c/root", "l/c/+usr"} {
		if err := os.MkdirAll(s.path(path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.path("l/b", opaqueMark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.layers([]string{"a", "b", "c"}, rootPart); !slices.Equal(got, []string{"l/c/root", "l/b/root"}) {
		t.Errorf("got %q", got)
	}
}

func TestOpaqueLayerIsMarked(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: ".wh..wh..opq", Mode: 0o644}), w.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root := filepath.Join(dir, rootPart)
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := findMode(networkOwn).unpack(t.Context(), &archive, root); err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(dir, opaqueMark)) {
		t.Error("nothing says that the layer hides those below")
	}
}

func TestStoreWritableByOthersIsRefused(t *testing.T) {
	open := func(t *testing.T, dir string, change func(dir string) error, want error) {
		t.Helper()
		store := filepath.Join(dir, "a", "store")
		if err := errors.Join(os.MkdirAll(filepath.Join(store, string(modeOne)), 0o700), change(dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := openStore(store, modeOne); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	public, err := os.MkdirTemp(sharedTemp, "rollout-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(public) })
	wide := func(path string) func(string) error {
		return func(dir string) error { return os.Chmod(filepath.Join(dir, path), 0o777) }
	}
	open(t, t.TempDir(), func(string) error { return nil }, nil)
	open(t, t.TempDir(), wide("a/store/one"), errForeign)
	open(t, t.TempDir(), wide("a"), nil) // the user's own choice
	open(t, public, func(string) error { return nil }, nil)
	open(t, public, wide("a"), errForeign)
	if os.Geteuid() == 0 {
		open(t, t.TempDir(), func(dir string) error { return os.Chown(filepath.Join(dir, "a/store/one"), 65534, 65534) }, errForeign)
	}
}

// Before Rollout makes its directory in a world-writable one, another user may have made a link of
// that name.
func TestStoreBehindALinkOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes links of other users")
	}
	public, err := os.MkdirTemp(sharedTemp, "rollout-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(public) })
	target, link := filepath.Join(public, "target"), filepath.Join(public, "rollout-0")
	if err := errors.Join(os.Chmod(public, 0o777|os.ModeSticky), os.Mkdir(target, 0o755), os.Chown(target, 65534, 65534), os.Symlink(target, link), os.Lchown(link, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(filepath.Join(link, "sandbox"), modeOne); !errors.Is(err, errForeign) {
		t.Errorf("the link of another user gives %v, want %v", err, errForeign)
	}
	if made, err := os.ReadDir(target); err != nil || len(made) > 0 {
		t.Errorf("where the link leads, %v was made (%v)", made, err)
	}
	elsewhere := t.TempDir()
	own := filepath.Join(elsewhere, "own")
	if err := os.Symlink(t.TempDir(), own); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(filepath.Join(own, "sandbox"), modeOne); err != nil {
		t.Errorf("the user's own link: %v", err)
	}
}

func TestHiddenPartsAreNotMounted(t *testing.T) {
	s, err := openStore(ownStoreDir(t), findMode(networkOwn))
	if err != nil {
		t.Fatal(err)
	}
	parts := []hostPart{{At: "/usr/lib", Host: "/usr/lib"}, {At: "/usr/src/app", Host: "/usr/src/app"}, {At: "/usr/src/app2", Host: "/usr/src/app2"}}
	for _, hide := range []string{"/usr/src/app", "/usr/src"} {
		p := &Provider{store: s, opts: Options{Hide: []string{hide}}}
		var got []string
		for _, m := range p.mounts(&image{Host: &hostBase{Key: "k", Parts: parts}}, "env/x") {
			got = append(got, m.At)
		}
		want := []string{"/", "/usr/lib", "/usr/src/app2"}
		if hide == "/usr/src" {
			want = want[:2]
		}
		if !slices.Equal(got, want) {
			t.Errorf("without %s: %q", hide, got)
		}
	}
}

func TestPrivateDirectoriesNextToMountsAreHidden(t *testing.T) {
	root := t.TempDir()
	for path, mode := range map[string]os.FileMode{"usr/src/m": 0o755, "usr/src/secret": 0o700, "usr/src/open": 0o755} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, path), 0o755), os.Chmod(filepath.Join(root, path), mode)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, part := range hostParts(root, []string{"/usr/src/m"}, "/nowhere") {
		got = append(got, part.At)
	}
	if !slices.Equal(got, []string{"/usr/src/m", "/usr/src/open"}) {
		t.Errorf("got %q", got)
	}
}

func TestMissingUsersAreExplained(t *testing.T) {
	for user, want := range map[string]bool{"": false, "root": false, "0": false, "0:0": false, "nobody": true, "1000": true, "0:5": true} {
		if got := modeOne.lacksUser(user); got != want {
			t.Errorf("%q: %v", user, got)
		}
		if modeRoot.lacksUser(user) || modeIDs.lacksUser(user) {
			t.Errorf("%q is missing where there are many", user)
		}
	}
}
