package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// kept returns the IDs of the entries in a provider's store, and of those in use.
func kept(t *testing.T, p *Provider) (all, used []string) {
	t.Helper()
	images, err := p.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range images {
		if all = append(all, img.ID); img.InUse {
			used = append(used, img.ID)
		}
		for _, id := range img.Needs {
			if !slices.ContainsFunc(images, func(i environment.Image) bool { return i.ID == id }) {
				t.Errorf("%s needs %s, which is not listed", img.ID, id)
			}
		}
		if img.Size < 0 || strings.HasPrefix(img.ID, "l/") && img.Size == 0 {
			t.Errorf("the size of %s is %d", img.ID, img.Size)
		}
	}
	return all, used
}

// TestRemoveImage: every entry that no sandbox needs can be removed, step by step, and is made
// again on demand.
func TestRemoveImage(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	build := func() string {
		t.Helper()
		ref, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "kept", Context: fstest.MapFS{
			"Dockerfile": {Data: []byte("FROM debian\nRUN echo one >/one\nRUN echo two >/two\n")},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	ref := build()
	env := create(t, p, environment.CreateOptions{Image: ref})
	all, used := kept(t, p)
	t.Log(all)
	for _, id := range all {
		err := p.RemoveImage(t.Context(), id)
		if slices.Contains(used, id) != (err != nil) {
			t.Errorf("RemoveImage(%s) with it in use (%v): %v", id, slices.Contains(used, id), err)
		}
	}
	var said strings.Builder
	if code, err := env.Exec(t.Context(), "cat /one /two && ls /usr/bin/env", environment.ExecOptions{Stdout: &said}); code != 0 || err != nil {
		t.Fatalf("a sandbox lost what it stands on: %d, %v, %s", code, err, said.String())
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range all {
		if err := p.RemoveImage(t.Context(), id); err != nil && !slices.Contains(used, id) {
			t.Errorf("RemoveImage(%s): %v", id, err)
		}
	}
	left, stillUsed := kept(t, p)
	if !slices.Equal(left, stillUsed) {
		t.Errorf("left %q, of which are in use %q", left, stillUsed)
	}
	if _, err := os.Stat(p.store.path("images")); err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(p.store.path("images", "*"))
	if err != nil || len(records) > 0 {
		t.Errorf("records are left: %q, %v", records, err)
	}
	again := create(t, p, environment.CreateOptions{Image: build()})
	if code, err := again.Exec(t.Context(), "cat /one /two", environment.ExecOptions{}); code != 0 || err != nil {
		t.Errorf("after building again: %d, %v", code, err)
	}
}

// TestRemoveIgnoresForeignNames: an ID is only a name in the store, never a path.
func TestRemoveIgnoresForeignNames(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	victim := filepath.Join(p.store.dir, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "l", "l/", "l/..", "l/../victim", "images/../../victim", "env/x", "tmp/x", "locks/x", "victim", "/etc", "l//etc"} {
		if err := p.RemoveImage(t.Context(), id); err != nil {
			t.Errorf("RemoveImage(%q): %v", id, err)
		}
	}
	for _, name := range []string{"victim", "l", "images", "bases", "env"} {
		if _, err := os.Stat(p.store.path(name)); err != nil {
			t.Error(err)
		}
	}
}

// TestSnapshotsNeedADisk: changes in memory cannot be kept.
func TestSnapshotsNeedADisk(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t), "scratch": "memory"})
	env := create(t, p, environment.CreateOptions{Image: testImage})
	_, err := environment.Snapshot(t.Context(), env, environment.SnapshotOptions{Key: "0123456789abcdef"})
	if environment.KindOf(err) != environment.KindSnapshot || !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v", err)
	}
}

func TestPathInSandbox(t *testing.T) {
	for name, want := range map[string]string{
		"root/etc/passwd": "/etc/passwd", "root/": "", "root": "", "+usr": "", "+usr/lib/x": "/usr/lib/x", "+.host+opt/tool": "/.host/opt/tool",
		"root/a name\nwith a line": "/a name\nwith a line",
	} {
		if got := pathInSandbox(name); got != want {
			t.Errorf("pathInSandbox(%q) = %q, want %q", name, got, want)
		}
	}
}
