package buildcontext

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestDigest(t *testing.T) {
	base := func() fstest.MapFS {
		return fstest.MapFS{
			"Dockerfile": {Data: []byte("FROM x"), Mode: 0o644},
			"a/b":        {Data: []byte("b"), Mode: 0o644},
			"link":       {Data: []byte("a/b"), Mode: fs.ModeSymlink | 0o777},
		}
	}
	digests := map[string]string{}
	for name, change := range map[string]func(fstest.MapFS) (map[string]string, string){
		"nothing": func(fstest.MapFS) (map[string]string, string) { return nil, "" },
		"dockerfile": func(m fstest.MapFS) (map[string]string, string) {
			m["Dockerfile"].Data = []byte("FROM y")
			return nil, ""
		},
		"content": func(m fstest.MapFS) (map[string]string, string) { m["a/b"].Data = []byte("c"); return nil, "" },
		"mode":    func(m fstest.MapFS) (map[string]string, string) { m["a/b"].Mode = 0o755; return nil, "" },
		"link":    func(m fstest.MapFS) (map[string]string, string) { m["link"].Data = []byte("a"); return nil, "" },
		"path": func(m fstest.MapFS) (map[string]string, string) {
			m["a/c"] = m["a/b"]
			delete(m, "a/b")
			return nil, ""
		},
		"directory": func(m fstest.MapFS) (map[string]string, string) {
			m["d"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			return nil, ""
		},
		"arguments": func(fstest.MapFS) (map[string]string, string) { return map[string]string{"A": "b"}, "" },
		"platform":  func(fstest.MapFS) (map[string]string, string) { return nil, "linux/arm64" },
	} {
		tree := base()
		args, platform := change(tree)
		content, err := Read(tree)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := content.Digest(t.Context(), args, platform)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := digests[digest]; taken {
			t.Errorf("a change of %s and of %s give one digest", name, other)
		}
		digests[digest] = name
	}
	tree := base()
	tree[".dockerignore"] = &fstest.MapFile{Data: []byte("*.log\n")}
	before, err := Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	tree["x.log"] = &fstest.MapFile{Data: []byte("x"), ModTime: time.Now()}
	tree["a/b"].ModTime = time.Now()
	after, err := Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	one, err1 := before.Digest(t.Context(), nil, "")
	two, err2 := after.Digest(t.Context(), nil, "")
	if one != two || errors.Join(err1, err2) != nil {
		t.Errorf("what is ignored, or times, changed the digest: %v", errors.Join(err1, err2))
	}
}

func TestContextRefusesDevices(t *testing.T) {
	content, err := Read(fstest.MapFS{"Dockerfile": {}, "p": {Mode: fs.ModeNamedPipe}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := content.Digest(t.Context(), nil, ""); err == nil || err.Error() != "p: only files, directories and links can be part of a build" {
		t.Error(err)
	}
}

func TestImageName(t *testing.T) {
	for name, want := range map[string]string{
		"": "task", "hello": "hello", "Org/My Task": "org-my-task", "-._a__b.": "a-b", "日本": "task", "../../up": "up",
		strings.Repeat("ab-", 40): strings.Repeat("ab-", 20)[:59],
	} {
		if got := ImageName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
