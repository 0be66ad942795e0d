package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRoot(t *testing.T) {
	for _, tc := range []struct{ xdg, home, want string }{
		{"/x", "/home/u", "/x/rollout"},
		{"", "/home/u", "/home/u/.cache/rollout"},
		{"relative", "/home/u", "/home/u/.cache/rollout"},
		{"", "", ""}, {"", "relative", ""},
	} {
		got, err := Root(func(name string) (string, bool) {
			return map[string]string{"XDG_CACHE_HOME": tc.xdg, "HOME": tc.home}[name], true
		})
		if got != tc.want || errors.Is(err, ErrNoRoot) != (tc.want == "") {
			t.Errorf("%+v: %q, %v", tc, got, err)
		}
	}
}

var thing = Key{Kind: "git", Text: "text\x00secret", About: "a thing"}

// put makes a part with one file.
func put(t *testing.T, f *Dir, part string, size int) {
	t.Helper()
	err := f.Fill(t.Context(), []string{part}, func(_ context.Context, draft string, missing []string) error {
		if err := os.WriteFile(filepath.Join(draft, "scratch"), nil, 0o600); err != nil {
			return err
		}
		for _, m := range missing {
			if err := os.Mkdir(filepath.Join(draft, m), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(draft, m, "file"), make([]byte, size), 0o444); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, c *Cache, key Key) *Dir {
	t.Helper()
	f, err := c.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestDirGrowsByParts(t *testing.T) {
	c := New(filepath.Join(t.TempDir(), "cache"), 0)
	f := open(t, c, thing)
	put(t, f, "a", 10)
	put(t, f, "b", 10)
	if !f.Has("a") || !f.Has("b") || f.Has("scratch") {
		t.Error("want the parts that were made, and no others")
	}
	err := f.Fill(t.Context(), []string{"a", "c", "d"}, func(_ context.Context, draft string, missing []string) error {
		if !slices.Equal(missing, []string{"c", "d"}) {
			t.Errorf("missing %v", missing)
		}
		return errors.Join(os.Mkdir(filepath.Join(draft, "c"), 0o755), errors.New("no"))
	})
	if err == nil || f.Has("c") {
		t.Errorf("a failed Fill added a part: %v", err)
	}
	all, err := c.List()
	if err != nil || len(all) != 1 || all[0].About != "a thing" || !all[0].InUse || all[0].Size != 4*block {
		t.Errorf("%+v, %v", all, err)
	}
	left, _ := os.ReadDir(c.path("drafts"))
	if len(left) > 0 {
		t.Errorf("drafts are left: %v", left)
	}
	text, err := os.ReadFile(filepath.Join(f.Path(), aboutFile))
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestFiles(t *testing.T) {
	c := New(filepath.Join(t.TempDir(), "cache"), 0)
	if _, err := c.ReadFile(thing); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, text := range []string{"one\ntwo", ""} {
		if err := c.WriteFile(thing, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if f, err := c.ReadFile(thing); err != nil || string(f.Data) != text || time.Since(f.At) > time.Hour {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if err := os.WriteFile(c.filePath(thing), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadFile(thing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestPrune(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fill := func(t *testing.T) *Cache {
		c := New(filepath.Join(t.TempDir(), "cache"), -1)
		c.now = func() time.Time { return now }
		for i := range 4 {
			now = now.Add(time.Hour)
			f := open(t, c, Key{Kind: "git", Text: fmt.Sprint(i), About: fmt.Sprint("thing ", i)})
			put(t, f, "p", 100*block)
			if i != 1 {
				_ = f.Close() // the second is in use
			}
		}
		now = now.Add(time.Hour)
		if err := c.WriteFile(Key{Kind: "registry", Text: "x", About: "file"}, []byte("x")); err != nil {
			t.Fatal(err)
		}
		return c
	}
	limit := int64(250 * block)
	for _, tc := range []struct {
		name   string
		policy Policy
		want   string
	}{
		{"nothing selected", Policy{}, "[] kept [thing 0 thing 1 thing 2 thing 3 file]"},
		{"all", Policy{All: true}, "[thing 0 thing 2 thing 3 file] kept [thing 1]"},
		{"dry run", Policy{All: true, DryRun: true}, "[thing 0 thing 2 thing 3 file] kept [thing 0 thing 1 thing 2 thing 3 file]"},
		{"old", Policy{OlderThan: 150 * time.Minute}, "[thing 0] kept [thing 1 thing 2 thing 3 file]"},
		{"large", Policy{MaxSize: &limit}, "[thing 0 thing 2] kept [thing 1 thing 3 file]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fill(t)
			pruned, err := c.Prune(t.Context(), tc.policy)
			if err != nil {
				t.Fatal(err)
			}
			left, err := c.List()
			if got := fmt.Sprintf("%v kept %v", abouts(pruned.Removed), abouts(left)); got != tc.want || err != nil {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
			for _, sub := range []string{"drafts"} {
				if entries, _ := os.ReadDir(c.path(sub)); len(entries) > 0 {
					t.Errorf("%s: %v", sub, entries)
				}
			}
		})
	}
}

func abouts(all []Entry) []string {
	out := []string{}
	for _, e := range all {
		out = append(out, e.About)
	}
	return out
}

func TestCacheStaysWithinItsBound(t *testing.T) {
	c := New(filepath.Join(t.TempDir(), "cache"), 250*block)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.now = func() time.Time { now = now.Add(time.Minute); return now }
	for i := range 6 {
		f := open(t, c, Key{Kind: "git", Text: fmt.Sprint(i), About: fmt.Sprint(i)})
		put(t, f, "p", 100*block)
		if i != 0 {
			_ = f.Close()
		}
	}
	all, err := c.List()
	if got := fmt.Sprint(abouts(all)); got != "[0 5]" || err != nil {
		t.Errorf("%s, %v: want the one in use, and the last", got, err)
	}
}

// TestOneOfManyFills lets goroutines of this and of other processes fill the same part.
func TestOneOfManyFills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	log := filepath.Join(t.TempDir(), "log")
	var group sync.WaitGroup
	var failed atomic.Int32
	for range 5 {
		group.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMain$")
			cmd.Env = append(os.Environ(), "CACHE_CHILD="+dir, "CACHE_LOG="+log)
			if out, err := cmd.CombinedOutput(); err != nil {
				failed.Add(1)
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for range 20 {
		group.Go(func() { makeOnce(t, dir, log) })
	}
	group.Wait()
	text, err := os.ReadFile(log)
	if err != nil || string(text) != "made\n" || failed.Load() > 0 {
		t.Errorf("%q, %v", text, err)
	}
}

func makeOnce(t testing.TB, dir, log string) {
	c := New(dir, 1) // everyone also tries to remove everything
	f, err := c.Open(context.Background(), thing)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	err = f.Fill(context.Background(), []string{"p"}, func(_ context.Context, draft string, _ []string) error {
		l, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer l.Close()
		if _, err := l.WriteString("made\n"); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(draft, "p"), []byte("whole"), 0o644)
	})
	text, readErr := os.ReadFile(f.Part("p"))
	if err != nil || readErr != nil || string(text) != "whole" {
		t.Errorf("%v, %v, %q", err, readErr, text)
	}
}

// TestMain also runs the other processes of TestOneOfManyFills and TestFillAfterMakerWasKilled.
func TestMain(m *testing.M) {
	dir := os.Getenv("CACHE_CHILD")
	switch {
	case dir == "":
		os.Exit(m.Run())
	case os.Getenv("CACHE_HANG") != "":
		f, err := New(dir, 0).Open(context.Background(), thing)
		if err == nil {
			err = f.Fill(context.Background(), []string{"p"}, func(_ context.Context, draft string, _ []string) error {
				_ = os.WriteFile(filepath.Join(draft, "half"), nil, 0o644)
				fmt.Println("hanging")
				time.Sleep(time.Hour) // select {} would be a deadlock, which ends the process
				return nil
			})
		}
		fmt.Println(err)
		os.Exit(1)
	}
	var t child
	makeOnce(&t, dir, os.Getenv("CACHE_LOG"))
	if t.failed {
		os.Exit(1)
	}
}

// child runs a test in another process.
type child struct {
	testing.TB
	failed bool
}

func (c *child) Error(args ...any) { fmt.Println(args...); c.failed = true }

func (c *child) Errorf(format string, args ...any) { fmt.Printf(format, args...); c.failed = true }

func TestFillAfterMakerWasKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	cmd := exec.Command(os.Args[0], "-test.run=^TestMain$")
	cmd.Env = append(os.Environ(), "CACHE_CHILD="+dir, "CACHE_HANG=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 8)
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	c := New(dir, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	f := open(t, c, thing)
	if err := f.Fill(ctx, []string{"p"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("did not wait for the other process: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if drafts, _ := os.ReadDir(c.path("drafts")); len(drafts) == 0 {
		t.Fatal("the killed process left no draft, so nothing is tested")
	}
	put(t, f, "p", 1)
	if drafts, _ := os.ReadDir(c.path("drafts")); len(drafts) > 0 || !f.Has("p") {
		t.Errorf("drafts are left, or the part is missing: %v", drafts)
	}
}

func TestReadOnlyCacheNamesTheRemedy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := New(filepath.Join(dir, "rollout"), 0) // not even root can create directories there
	_, err := c.Open(t.Context(), thing)
	want := "the cache cannot be written: mkdir " + dir + ": not a directory (set XDG_CACHE_HOME to a directory that can be written)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := c.WriteFile(thing, nil); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
