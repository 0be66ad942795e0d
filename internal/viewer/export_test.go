package viewer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A site has only files that link to files, and replaces an earlier one.
func TestExportReplacesAnEarlierSite(t *testing.T) {
	_, shelf := shelved(t, map[string]string{"command/stdout.txt": "what the agent said\n"})
	dir := filepath.Join(t.TempDir(), "site")
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	steps := 0
	for range 2 {
		done, err := Export(t.Context(), shelf, "Jobs", dir, now, func() { steps++ })
		if err != nil || done.Jobs != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "job", "gone"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Export(t.Context(), shelf, "Jobs", dir, now, func() {}); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, file)
		}
		return err
	})
	if want := ".nojekyll .rollout-site index.html job/n/index.html"; err != nil || strings.Join(files, " ") != want || steps != 2 {
		t.Errorf("the files are %q, %v", files, err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil || !strings.Contains(string(index), `href="./job/n/index.html"`) || strings.Contains(string(index), "connect-src") || !strings.Contains(string(index), "Made 2026-11-20 09:30 UTC") {
		t.Errorf("the index is %s, %v", index, err)
	}
}

func TestExportTouchesNothingElse(t *testing.T) {
	_, shelf := shelved(t, nil)
	dir := t.TempDir()
	file := filepath.Join(dir, "index.html")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, link := range []bool{false, true} {
		if link { // a link is no marker
			if err := os.Symlink("index.html", filepath.Join(dir, marker)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Export(t.Context(), shelf, "Jobs", dir, time.Time{}, func() {}); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("the error is %v", err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
			t.Errorf("the file is %q, %v", text, err)
		}
	}
}
