package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
)

// keepOutcome keeps the outcome of an environment.
func keepOutcome(t *testing.T, e environment.Environment) environment.Outcome {
	t.Helper()
	kept, err := environment.KeepOutcome(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// An outcome takes no more space than the files, and has the special properties of files: holes,
// attributes, sockets, deep directories.
func TestOutcomesAreComplete(t *testing.T) {
	p := newProvider(t, map[string]any{"base": "host", "dir": storeDir(t)})
	labels := environment.Labels{Owner: environment.Self()}
	e := create(t, p, environment.CreateOptions{Image: testImage, Labels: labels})
	run(t, e, `mkdir /made && cd /made && truncate -s 1T sparse && printf end | dd of=sparse bs=1 seek=1000000 conv=notrunc 2>/dev/null
for i in {1..300}; do mkdir d; cd d; done; echo deep >file`)
	attribute := writeAttribute(t, filepath.Join(e.(*sandboxEnv).dir(), "up", rootPart, "made"))
	kept := keepOutcome(t, e)
	if kept.Size > 16<<20 {
		t.Errorf("it takes %d bytes", kept.Size)
	}
	restored, err := p.Restore(t.Context(), kept.ID, environment.CreateOptions{Image: testImage, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = restored.Destroy(t.Context()) })
	if got := run(t, restored, `cd /made; stat -c %s sparse; dd if=sparse bs=1 skip=1000000 count=3 2>/dev/null; for i in {1..300}; do cd d; done; cat file`); got != "1099511627776\nenddeep\n" {
		t.Errorf("restored: %q", got)
	}
	if attribute && readAttribute(t, filepath.Join(p.store.path("env", kept.ID), "up", rootPart, "made")) != "value" {
		t.Error("an extended attribute is missing")
	}
	if _, err := environment.KeepOutcome(t.Context(), restored); environment.KindOf(err) != environment.KindSnapshot || !strings.Contains(err.Error(), kept.ID) {
		t.Errorf("an outcome of what continues with another's files, which are not its own: %v", err)
	}
	// A stopped environment of this kind cannot be restored either.
	if err := restored.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Restore(t.Context(), restored.ID(), environment.CreateOptions{Image: testImage, Labels: labels}); environment.KindOf(err) != environment.KindStart {
		t.Errorf("what continued with another's files is continued without them: %v", err)
	}
	if drafts, err := os.ReadDir(p.store.path("tmp")); err != nil || len(drafts) > 0 {
		t.Errorf("drafts are left: %v, %v", drafts, err)
	}
}

const attributeName = "user.rollout-test"

// writeAttribute sets an extended attribute of a file, and reports whether the file system supports
// it.
func writeAttribute(t *testing.T, path string) bool {
	t.Helper()
	err := unix.Setxattr(path, attributeName, []byte("value"), 0)
	if err != nil {
		t.Logf("without extended attributes: %v", err)
	}
	return err == nil
}

func readAttribute(t *testing.T, path string) string {
	t.Helper()
	value := make([]byte, 100)
	n, err := unix.Getxattr(path, attributeName, value)
	if err != nil {
		t.Error(err)
	}
	return string(value[:max(n, 0)])
}
