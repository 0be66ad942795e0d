package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUninitializedSubmodules(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{".git", "vendor/evals", "vendor/full", "vendor/evals-2", "with space", "plain"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const modules = "[submodule \"a\"]\n\tpath = vendor/evals\n\turl = https://example.org/evals\n[submodule \"b\"]\n\tpath = vendor/full\n" +
		"[submodule \"c\"]\n\tpath = \"with space\"\n[submodule \"d\"]\n\tpath = ../elsewhere\n[submodule \"e\"]\n\tpath = plain/../../x\n"
	for file, text := range map[string]string{".gitmodules": modules, "vendor/full/file": ""} {
		if err := os.WriteFile(filepath.Join(top, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"vendor/evals": "vendor/evals", "vendor/evals/tasks/one": "vendor/evals", "with space": "with space",
		"vendor/full": "", "vendor/full/none": "", "vendor/evals-2": "", "plain": "", "vendor": "", "none": "", ".": "",
	} {
		if got := UninitializedSubmodule(filepath.Join(top, path)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if hint := SubmoduleHint(filepath.Join(top, path)); strings.Contains(hint, "git submodule update --init") != (want != "") {
			t.Errorf("%s: %q", path, hint)
		}
	}
}
