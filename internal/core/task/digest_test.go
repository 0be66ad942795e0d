package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDigest(t *testing.T) {
	files := map[string]string{"task.toml": "", "instruction.md": "do", "tests/test.sh": "true", "environment/Dockerfile": "FROM x"}
	fresh := func() string { return newTask(t, files) }
	original := Load(fresh()).Digest()
	if !strings.HasPrefix(original, "sha256:") || len(original) != len("sha256:")+64 {
		t.Fatalf("the digest is %q", original)
	}
	if again := Load(fresh()).Digest(); again != original {
		t.Errorf("the same files in another directory give %s, not %s", again, original)
	}
	for name, do := range map[string]func(dir string) error{
		"a changed file": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "tests/test.sh"), []byte("false"), 0o644)
		},
		"a new file":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "environment/x"), nil, 0o644) },
		"a new directory": func(dir string) error { return os.Mkdir(filepath.Join(dir, "environment/x"), 0o755) },
		"a renamed file": func(dir string) error {
			return os.Rename(filepath.Join(dir, "tests/test.sh"), filepath.Join(dir, "tests/t.sh"))
		},
		"a link":               func(dir string) error { return os.Symlink("test.sh", filepath.Join(dir, "tests/link")) },
		"an executable script": func(dir string) error { return os.Chmod(filepath.Join(dir, "instruction.md"), 0o755) },
	} {
		t.Run(name+" changes the digest", func(t *testing.T) {
			dir := fresh()
			must(t, do(dir))
			if Load(dir).Digest() == original {
				t.Error("the digest is the same")
			}
		})
	}
	if got := Load(filepath.Join(t.TempDir(), "nothing")).Digest(); got != "" {
		t.Errorf("a missing task has the digest %q", got)
	}
}
