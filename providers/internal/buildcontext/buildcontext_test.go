package buildcontext

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tonistiigi/fsutil/types"
)

// walked returns what a walk visits: paths, and for links their targets.
func walked(t *testing.T, c Context, target string) []string {
	t.Helper()
	var seen []string
	err := c.Files.Walk(t.Context(), target, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if link := info.Sys().(*types.Stat).Linkname; link != "" {
			name += "->" + link
		}
		seen = append(seen, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestIgnoredFilesAreLeftOut(t *testing.T) {
	tree := fstest.MapFS{
		"Dockerfile": {}, "a/b": {Data: []byte("b")}, "a/x.log": {}, "keep.log": {}, "x.log": {},
		"link": {Data: []byte("/etc/shadow"), Mode: fs.ModeSymlink | 0o777},
	}
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"without an ignore file nothing is": {nil, "Dockerfile a a/b a/x.log keep.log link->/etc/shadow x.log"},
		"what the ignore file names":        {map[string]string{IgnoreFile: "**/*.log\n!keep.log\n.dockerignore\n"}, "Dockerfile a a/b keep.log link->/etc/shadow"},
		"the Dockerfile's own ignore file is read instead of the other": {
			map[string]string{IgnoreFile: "a\n", OwnIgnoreFile: "*.log\n*.dockerignore\n.dockerignore\n"}, "Dockerfile a a/b a/x.log link->/etc/shadow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := fstest.MapFS{}
			for path, file := range tree {
				all[path] = file
			}
			for path, text := range test.files {
				all[path] = &fstest.MapFile{Data: []byte(text)}
			}
			c, err := Open(all)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(walked(t, c, ""), " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if (c.Ignore == nil) != (test.files == nil) {
				t.Errorf("the ignore file is %q", c.Ignore)
			}
		})
	}
}

func TestWalkBelowATarget(t *testing.T) {
	c, err := Open(fstest.MapFS{"a/b": {}, "c": {}})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string][]string{"a": {"a", "a/b"}, "/a/": {"a", "a/b"}, "none": nil} {
		if got := walked(t, c, target); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
}

func TestInvalidIgnorePatternIsRefused(t *testing.T) {
	for name, text := range map[string]string{"a pattern that is none": "[\n"} {
		if _, err := Open(fstest.MapFS{IgnoreFile: {Data: []byte(text)}}); err == nil || !strings.Contains(err.Error(), IgnoreFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
