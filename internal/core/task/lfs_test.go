package task

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// A task with pointers in place of its files is refused. Where git-lfs tracks nothing, a file that
// looks like a pointer is an ordinary file.
func TestPointersOfLFSAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
		warns bool
	}{
		{"pointers", map[string]string{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "set/task/tests/a.bin": pointer, "set/task/environment/b.bin": pointer, "set/task/tests/c.bin": "content"},
			"set/task: has files that are only pointers of git-lfs: environment/b.bin, tests/a.bin (run git lfs pull; ", false},
		{"attributes of the task itself", map[string]string{"set/task/.gitattributes": "*.bin filter=lfs\n", "set/task/tests/a.bin": pointer}, "only pointers of git-lfs: tests/a.bin", false},
		{"no attributes", map[string]string{"set/.git/HEAD": "x", "set/task/tests/a.bin": pointer}, "", false},
		{"no attributes, outside of a checkout", map[string]string{"set/task/tests/a.bin": pointer}, "", true},
		{"attributes outside of the checkout", map[string]string{".gitattributes": "*.bin filter=lfs\n", "set/.git/HEAD": "x", "set/task/tests/a.bin": pointer}, "", false},
		{"files that were fetched", map[string]string{".gitattributes": "*.bin filter=lfs\n", "set/task/tests/a.bin": "content"}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, text := range map[string]string{"instruction.md": "do", "task.toml": "[environment]\ndocker_image = \"debian:bookworm\"\n", "tests/test.sh": "true\n"} {
				tc.files["set/task/"+name] = text
			}
			for name, text := range tc.files {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			loaded := Load("set/task")
			if err := loaded.Err(); err != nil {
				got = err.Error()
			}
			if got == "" && tc.want != "" || !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			warned := strings.Contains(fmt.Sprint(loaded.Problems), "has files that look like pointers of git-lfs: tests/a.bin")
			if warned != tc.warns {
				t.Errorf("warned: %v, want %v", warned, tc.warns)
			}
		})
	}
}
