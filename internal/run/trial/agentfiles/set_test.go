package agentfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/cache"
)

// tree makes files in a new directory: names that end in / are directories, a text "-> x" is a link
// to x, and "#!…" is executable.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o755))
		case link:
			must(t, os.Symlink(target, path))
		case strings.HasPrefix(text, "#!"):
			must(t, os.WriteFile(path, []byte(text), 0o700))
		default:
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// load loads files as a job file in dir lists them.
func load(t *testing.T, dir string, files ...agent.File) (*Set, error) {
	t.Helper()
	entries := make([]Entry, len(files))
	for i, f := range files {
		base, _ := agent.SplitGlob(f.Source)
		entries[i] = Entry{f, filepath.Join(dir, base)}
	}
	set, _, err := Load(t.Context(), entries)
	return set, err
}

// contents returns the paths in environments, with the modes of files and their texts.
func contents(t *testing.T, set *Set) []string {
	t.Helper()
	must(t, set.Open(t.Context(), cache.New(t.TempDir(), 0)))
	defer set.Close()
	var all []string
	must(t, fs.WalkDir(set.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		must(t, err)
		if e.IsDir() {
			if below, _ := fs.ReadDir(set.FS(), name); len(below) == 0 {
				all = append(all, name+"/")
			}
			return nil
		}
		text, err := fs.ReadFile(set.FS(), name)
		must(t, err)
		info, err := e.Info()
		must(t, err)
		all = append(all, fmt.Sprintf("%s %o %s", name, info.Mode().Perm(), text))
		return nil
	}))
	return all
}

func taken(source, target string) agent.File {
	return agent.File{Source: source, Target: target, Gitignore: true}
}

func TestFilesAreFound(t *testing.T) {
	dir := tree(t, map[string]string{
		"agent/run.sh": "#!/bin/bash", "agent/lib/a.py": "a", "agent/lib/deep/b.py": "b", "agent/empty/": "", "agent/to-a": "-> lib/a.py", "agent/to-lib": "-> lib",
		"agent/lib/.git/config": "secret", "agent/.hidden": "h", "agent/out/log": "noise", ".gitignore": "out/\n", ".git/": "", "prompts/x.md": "x", "prompts/old/y.md": "y", "one.txt": "1",
	})
	all := []string{
		"agent/.hidden 644 h", "agent/empty/", "agent/lib/a.py 644 a", "agent/lib/deep/b.py 644 b", "agent/run.sh 755 #!/bin/bash", "agent/to-a 644 a",
		"agent/to-lib/a.py 644 a", "agent/to-lib/deep/b.py 644 b",
	}
	for name, c := range map[string]struct {
		files []agent.File
		want  []string
	}{
		"a directory":                    {[]agent.File{taken("agent", "")}, all},
		"a directory with ./ and /":      {[]agent.File{taken("./agent/", "")}, all},
		"a directory from a link's":      {[]agent.File{taken("agent/to-lib", "/opt/lib/")}, []string{"opt/lib/a.py 644 a", "opt/lib/deep/b.py 644 b"}},
		"what .gitignore leaves out":     {[]agent.File{taken("agent/out", "/x")}, []string{"x/log 644 noise"}},
		"a file":                         {[]agent.File{taken("one.txt", "")}, []string{"one.txt 644 1"}},
		"a file under another name":      {[]agent.File{taken("one.txt", "/etc/two")}, []string{"etc/two 644 1"}},
		"a file in a directory":          {[]agent.File{taken("one.txt", "/etc/")}, []string{"etc/one.txt 644 1"}},
		"a glob":                         {[]agent.File{taken("prompts/*.md", "")}, []string{"prompts/x.md 644 x"}},
		"a glob of any depth":            {[]agent.File{taken("prompts/**/*.md", "/p")}, []string{"p/old/y.md 644 y", "p/x.md 644 x"}},
		"a glob of directories and more": {[]agent.File{taken("agent/lib/**", "/l")}, []string{"l/a.py 644 a", "l/deep/b.py 644 b"}},
		"two entries in one directory":   {[]agent.File{taken("prompts", "/x"), taken("one.txt", "/x/")}, []string{"x/old/y.md 644 y", "x/one.txt 644 1", "x/x.md 644 x"}},
	} {
		set, err := load(t, dir, c.files...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := contents(t, set); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
	with := agent.File{Source: "agent"}
	set, err := load(t, dir, with)
	must(t, err)
	if got := contents(t, set); !slices.Contains(got, "agent/out/log 644 noise") || len(got) != len(all)+1 {
		t.Errorf("with gitignore: false: %q", got)
	}
}

func TestProblemsNameTheWayOut(t *testing.T) {
	dir := tree(t, map[string]string{
		"out/x": "-> ../secret", "absolute/x": "-> /etc/passwd", "loop/a/up": "-> ..", "dangling/x": "-> none", "empty/": "", "ignored/x": "x", "ignored/.gitignore": "*\n",
		"secret": "s", "a/x": "x", "b/x": "x", "file": "f",
	})
	must(t, os.Mkdir(filepath.Join(dir, "pipe"), 0o755))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe/p"), 0o644))
	for source, want := range map[string]string{
		"none":     "there is no none (paths begin at the job file's directory)",
		"out":      "out/x is a link to ../secret: links must stay in out, and be relative (add the link's target as another entry of files, or name the link in .gitignore)",
		"absolute": "absolute/x is a link to /etc/passwd: links must stay in absolute, and be relative (add the link's target as another entry of files, or name the link in .gitignore)",
		"loop":     "loop/a/up is a link to a directory that contains it",
		"dangling": "dangling/x is a link to none, which does not exist (remove it, or name it in .gitignore)",
		"empty":    "empty is empty",
		"ignored":  "ignored has no files but those that .gitignore leaves out (write gitignore: false to take them anyway)",
		"pipe":     "pipe/p is neither a file nor a directory (remove it, or name it in .gitignore)",
		"a/*.md":   "nothing in a matches *.md (the glob is compared with paths in that directory; ** stands for any directories)",
		"a/[":      `"a/[" is not a valid glob (use *, ?, [a-z], {a,b} and **)`,
		"file/*":   "file is not a directory",
	} {
		_, err := load(t, dir, taken(source, "/x"))
		if p := new(Problem); !errors.As(err, &p) {
			t.Errorf("%s: %v", source, err)
		} else if got := strings.TrimSuffix(fmt.Sprintf("%s (%s)", p.Message, p.Hint), " ()"); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", source, got, want)
		}
	}
	if _, err := load(t, dir, taken("a", "/x"), taken("b", "/x")); err == nil || err.Error() != "a/x and b/x are both put at /x/x" {
		t.Errorf("one place for two files: %v", err)
	}
	if _, err := load(t, dir, taken("file", "/x"), taken("a", "/x/y")); err == nil || err.Error() != "file is put at /x, where a/x needs a directory" {
		t.Errorf("a file where a directory is needed: %v", err)
	}
}

func TestTooManyFilesAreRefused(t *testing.T) {
	dir := tree(t, map[string]string{"agent/a": "a", "agent/node_modules/": ""})
	for i := range maxFiles {
		must(t, os.WriteFile(filepath.Join(dir, "agent/node_modules", fmt.Sprint(i)), nil, 0o600))
	}
	if _, err := load(t, dir, taken("agent", "")); err == nil || err.Error() != "the agent has more than 20000 files, most of it in agent/node_modules" {
		t.Errorf("many files: %v", err)
	}
	f, err := os.Create(filepath.Join(dir, "large"))
	must(t, err)
	must(t, f.Truncate(maxBytes+1))
	must(t, f.Close())
	if _, err := load(t, dir, taken("large", "")); err == nil || err.Error() != "the agent has more than 256Mi" {
		t.Errorf("a large file: %v", err)
	}
}

func TestEqualFilesHaveEqualDigests(t *testing.T) {
	files := map[string]string{"agent/run": "#!x", "agent/a": "a", "agent/e/": ""}
	digest := func(change func(map[string]string), target string) string {
		t.Helper()
		changed := map[string]string{}
		for name, text := range files {
			changed[name] = text
		}
		change(changed)
		set, err := load(t, tree(t, changed), taken("agent", target))
		must(t, err)
		return set.ID()
	}
	same := func(map[string]string) {}
	first := digest(same, "")
	if digest(same, "/agent") != first {
		t.Error("the default target makes a difference")
	}
	for name, other := range map[string]string{
		"another target":    digest(same, "/other"),
		"another name":      digest(func(f map[string]string) { f["agent/b"] = f["agent/a"]; delete(f, "agent/a") }, ""),
		"another content":   digest(func(f map[string]string) { f["agent/a"] = "b" }, ""),
		"not executable":    digest(func(f map[string]string) { f["agent/run"] = " #!x" }, ""),
		"no more directory": digest(func(f map[string]string) { delete(f, "agent/e/") }, ""),
	} {
		if other == first {
			t.Errorf("%s makes no difference", name)
		}
	}
	if (*Set)(nil).ID() != "" || (*Set)(nil).FS() != nil || (*Set)(nil).Close() != nil {
		t.Error("an agent without files has some")
	}
}

func TestTrialsGetWhatWasLoaded(t *testing.T) {
	dir := tree(t, map[string]string{"agent/a": "a"})
	set, err := load(t, dir, taken("agent", ""))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "agent/a"), []byte("changed"), 0o600))
	store := cache.New(t.TempDir(), 0)
	if err := set.Open(t.Context(), store); !errors.Is(err, errChanged) {
		t.Fatalf("changed before the copy: %v", err)
	}
	set, err = load(t, dir, taken("agent", ""))
	must(t, err)
	must(t, set.Open(t.Context(), store))
	defer set.Close()
	must(t, os.WriteFile(filepath.Join(dir, "agent/a"), []byte("once more"), 0o600))
	if text, err := fs.ReadFile(set.FS(), "agent/a"); err != nil || string(text) != "changed" {
		t.Errorf("trials get %q, %v", text, err)
	}
	if kept, err := store.List(); err != nil || len(kept) != 1 || kept[0].About != "files of an agent: 1" {
		t.Errorf("the cache lists %+v, %v", kept, err)
	}
	full := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(full, nil, 0o600))
	t.Setenv("TMPDIR", t.TempDir())
	uncached, err := load(t, tree(t, map[string]string{"agent/a": "changed"}), taken("agent", ""))
	must(t, err)
	must(t, uncached.Open(t.Context(), cache.New(full, 0))) // no directory can be made there
	if text, err := fs.ReadFile(uncached.FS(), "agent/a"); err != nil || string(text) != "changed" {
		t.Errorf("without a cache: %q, %v", text, err)
	}
	must(t, uncached.Close())
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("what is left without a cache: %v", left)
	}
	again, err := load(t, tree(t, map[string]string{"agent/a": "changed"}), taken("agent", ""))
	must(t, err)
	must(t, again.Open(t.Context(), store)) // without copying
	defer again.Close()
	if text, err := fs.ReadFile(again.FS(), "agent/a"); err != nil || string(text) != "changed" {
		t.Errorf("from the cache: %q, %v", text, err)
	}
}

func TestPointersOfLFSAreNoFilesOfAnAgent(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	dir := t.TempDir()
	for name, text := range map[string]string{".gitattributes": "*.bin filter=lfs\n", "agent/main.sh": "true\n", "agent/a.bin": pointer, "agent/sub/b.bin": pointer} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	entry := Entry{File: agent.File{Source: "./agent"}, Path: filepath.Join(dir, "agent")}
	_, _, err := Load(t.Context(), []Entry{entry})
	var refused *Problem
	if !errors.As(err, &refused) || refused.Message != "these files are only pointers of git-lfs: agent/a.bin, agent/sub/b.bin" || refused.Hint == "" {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(filepath.Join(dir, ".gitattributes")); err != nil {
		t.Fatal(err)
	}
	for _, inCheckout := range []bool{false, true} {
		if inCheckout {
			if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, ".git/HEAD"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		set, _, err := Load(t.Context(), []Entry{entry})
		if err != nil || (len(set.Pointers) == 2) == inCheckout {
			t.Errorf("without git-lfs: %v, %v", set, err)
		}
	}
}
