package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Errors of files for another system are found, in packages and in tests; those of this system's
// files are not.
func TestTypesOnAnotherSystem(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.com/m\n\ngo 1.26\n",
		"a.go":               "package m\n\nimport \"os\"\n\nfunc A() error { return os.Chdir(name) }\n",
		"a_linux.go":         "package m\n\nconst name = \"linux\"\n",
		"b/b.go":             "package b\n",
		"b/b_darwin_test.go": "package b\n\nvar _ = missing\n",
		"c/c_linux.go":       "package c\n\nvar _ = missing\n",
		"c/c.go":             "package c\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := run(dir, []string{"darwin/arm64", "./..."})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"a.go:5:34: undefined: name", "b_darwin_test.go:3:9: undefined: missing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "c_linux.go") || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v, want two errors", err)
	}
	if err := run(dir, []string{"darwin/arm64", "./c"}); err != nil {
		t.Error(err)
	}
}
