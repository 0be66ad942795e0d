package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesThatATestReads(t *testing.T) {
	log := "# test log\ngetenv HOME\nopen testdata/a\nstat /top/b\nopen ../../../etc/passwd\nopen /elsewhere\nchdir /top\nopen c\nchdir d\nopen e\nopen /top/b\n"
	if got := fmt.Sprint(filesRead(log, "/top/p/q", "/top")); got != "[b c d/e p/q/testdata/a]" {
		t.Errorf("they are %s", got)
	}
}

func TestAFileThatIsNoInputIsReported(t *testing.T) {
	t.Chdir("../../..")
	top, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ log, want string }{
		{"open plural.go\nopen ../../../nowhere\nopen .\n", ""},
		{"open ../../../README.md\n", "the tests of internal/lib/plural read README.md"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"1.log": "# test log\n" + tc.log, "1.dir": filepath.Join(top, "internal/lib/plural") + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		err := checkReads(dir, &out)
		if (err != nil) != (tc.want != "") || !strings.HasPrefix(out.String(), tc.want) {
			t.Errorf("with the log %q it prints %q, %v", tc.log, out.String(), err)
		}
	}
}
