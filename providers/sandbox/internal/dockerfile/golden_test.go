package dockerfile

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

var update = flag.Bool("update", false, "write what builds do to testdata")

// TestBuilds builds each archive of testdata/builds. Its files are the context. Its comment
// describes the test; lines "arg K=V", "target NAME", "link NAME TARGET", "mode 0755 NAME" and
// "prints TEXT" in it configure the build, "files" shows the files that a command sees. Its file
// "golden" has the expected result.
func TestBuilds(t *testing.T) {
	names, err := filepath.Glob("testdata/builds/*.txtar")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d builds, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			for i, file := range archive.Files {
				if file.Name == "golden" {
					want = string(file.Data)
					archive.Files = archive.Files[:i]
				}
			}
			got := describeBuild(t, archive)
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			archive.Files = append(archive.Files, txtar.File{Name: "golden", Data: []byte(got)})
			if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// describeBuild returns a description of all actions of a build.
func describeBuild(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	var (
		m    = newMemory()
		text strings.Builder
		seen = false
		opts = Options{Platform: "linux/amd64", Args: map[string]string{}, Progress: func(line string) { fmt.Fprintln(&text, line) }}
		dir  = fstest.MapFS{}
	)
	for _, file := range archive.Files {
		dir[file.Name] = &fstest.MapFile{Data: file.Data, Mode: 0o644}
	}
	for line := range strings.Lines(string(archive.Comment)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "arg":
			key, value, _ := strings.Cut(words[1], "=")
			opts.Args[key] = value
		case words[0] == "target":
			opts.Target = words[1]
		case words[0] == "link":
			dir[words[1]] = &fstest.MapFile{Data: []byte(words[2]), Mode: fs.ModeSymlink | 0o777}
		case words[0] == "mode":
			var mode uint32
			if _, err := fmt.Sscanf(words[1], "%o", &mode); err != nil {
				t.Fatal(err)
			}
			dir[words[2]].Mode = fs.FileMode(mode & 0o777)
			if mode&0o4000 != 0 {
				dir[words[2]].Mode |= fs.ModeSetuid
			}
		case line == "files\n":
			seen = true
		case words[0] == "prints":
			m.run = func(_ *memoryRoot, c machine.Command) (int, error) {
				_, err := fmt.Fprintln(c.Stdout, strings.Join(words[1:], " "))
				return 0, err
			}
		}
	}
	opts.Context = dir
	shown := 0
	say := m.run
	m.run = func(b *memoryRoot, c machine.Command) (int, error) {
		shown++
		fmt.Fprintf(&text, "  run %q\n  as %q in %s, offline %t, env %q\n", c.Args, c.User, c.Dir, c.Offline, c.Env)
		if script, ok := b.files[scriptPath]; ok {
			fmt.Fprintf(&text, "  script %04o %q\n", script.mode, script.content)
		}
		if seen {
			for line := range strings.Lines(b.files.minus(m.images["debian:12"].files)) {
				text.WriteString("  finds " + line)
			}
		}
		if say != nil {
			return say(b, c)
		}
		return 0, nil
	}
	res, err := Build(t.Context(), m, opts)
	for _, note := range res.Notes {
		fmt.Fprintln(&text, "note:", note)
	}
	if err != nil {
		if p, ok := errors.AsType[*Problem](err); ok && p.Line == 0 {
			fmt.Fprintln(&text, "of the whole file:")
		}
		fmt.Fprintln(&text, "error:", err)
		return text.String()
	}
	fmt.Fprintf(&text, "env %q\nin %s as %q with %q\n", res.Image.Env, res.Image.WorkDir, res.Image.User, res.Image.Shell)
	if entry := res.Image.Entrypoint; entry != nil {
		fmt.Fprintf(&text, "entrypoint %q\n", entry)
	}
	if h := res.Image.Healthcheck; h != nil {
		fmt.Fprintf(&text, "healthcheck %q %s %s %s %d\n", h.Test, h.Interval, h.Timeout, h.StartPeriod, h.Retries)
	}
	text.WriteString(m.root(res.Image).minus(m.images["debian:12"].files))
	return text.String()
}
