package viewer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
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

// counted counts how often a file is opened.
type counted struct {
	fs.FS
	name string
	n    int
}

func (c *counted) Open(name string) (fs.File, error) {
	if name == c.name {
		c.n++
	}
	return c.FS.Open(name)
}

// twoFailed is a library with one job of two trials that failed.
type twoFailed struct {
	*shelf
	files *counted
}

func (l twoFailed) Open(context.Context, string) (*Job, error) {
	in := report.Input{Trials: result.PackAll([]result.Trial{
		{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: new(0.0)},
		{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 2}, Reward: new(0.0)},
	})}
	return &Job{Files: l.files, Close: func() error { return nil }, Input: func(context.Context) (report.Input, error) { return in, nil }}, nil
}

func TestExportReadsOutputsOnce(t *testing.T) {
	_, shelf := shelved(t, nil)
	line := `{"dataset_name": "d", "task_name": "t", "prompt": [{"role": "user", "content": "Do it."}]}` + "\n"
	put(t, shelf, result.OutputsFile, line)
	library := twoFailed{shelf, &counted{FS: os.DirFS(shelf.dir), name: result.OutputsFile}}
	done, err := Export(t.Context(), library, "Jobs", filepath.Join(t.TempDir(), "site"), time.Time{}, func() {})
	if err != nil || done.Trials != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	if library.files.n != 2 { // it is looked at, and then opened
		t.Errorf("%s was opened %d times for 2 trials", result.OutputsFile, library.files.n)
	}
}

// A marker may be committed by anybody: an export removes only pages that an export wrote.
func TestExportRemovesOnlyPages(t *testing.T) {
	_, shelf := shelved(t, nil)
	for name, spoil := range map[string]func(dir string) error{
		"index.html": func(dir string) error { return os.WriteFile(filepath.Join(dir, "index.html"), []byte("mine"), 0o644) },
		"job/mine/index.html": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "job/mine/index.html"), []byte("mine"), 0o644)
		},
		"job/mine/source.go": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "job/mine/source.go"), []byte(page.Beginning), 0o644)
		},
		"job/mine/link": func(dir string) error { return os.Symlink("../../index.html", filepath.Join(dir, "job/mine/link")) },
		".nojekyll":     func(dir string) error { return os.WriteFile(filepath.Join(dir, ".nojekyll"), []byte("mine"), 0o644) },
	} {
		dir := filepath.Join(t.TempDir(), "site")
		if _, err := Export(t.Context(), shelf, "Jobs", dir, time.Time{}, func() {}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "job/mine"), 0o755), spoil(dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := Export(t.Context(), shelf, "Jobs", dir, time.Time{}, func() {}); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
		for _, file := range []string{name, "job/n/index.html"} {
			if _, err := os.Lstat(filepath.Join(dir, file)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "site")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "src"), 0o755), os.WriteFile(filepath.Join(dir, marker), nil, 0o644), os.Symlink("src", filepath.Join(dir, "job"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Export(t.Context(), shelf, "Jobs", dir, time.Time{}, func() {}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a link: %v", err)
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
