package replay_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/model/replay"
)

// A recorder that is killed while it writes leaves a draft. The next one removes it, but no draft
// that a process may still be writing, and no other file.
func TestDraftsOfKilledRecordersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for name, stays := range map[string]bool{
		"a/d/t__1/.tmp-0a1f-1.json123":     false,
		"a/d/t__1/.tmp-0a1f-2.json4567":    false,
		"a/d/t__1/0a1f-1.json":             true,
		"a/d/t__1/.tmp-notes.json":         true,
		"a/d/t__1/.tmp-0a1f-1.json.backup": true,
		".gitkeep":                         true,
		"now/.tmp-0a1f-1.json123":          true,
	} {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(name) != "now" {
			if err := os.Chtimes(at, old, old); err != nil {
				t.Fatal(err)
			}
		}
		defer func() {
			if _, err := os.Lstat(at); (err == nil) != stays {
				t.Errorf("%s: %v, want that it stays: %v", name, err, stays)
			}
		}()
	}
	if err := os.Symlink(filepath.Join(dir, "now"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.NewRecorder(dir, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// Drafts of any origin are not replayed.
func TestDraftsAreNotReplayed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".tmp-0a1f-1.json123", ".tmp-0a1f-1.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := replay.Open(dir, func(b []byte) []byte { return b }); !errors.Is(err, replay.ErrEmpty) {
		t.Error(err)
	}
	empty, err := replay.Digest(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := replay.Digest(dir); err != nil || got != empty {
		t.Errorf("%s, %v, want %s", got, err, empty)
	}
}
