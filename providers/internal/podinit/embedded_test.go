package podinit

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// smallProgram stands in for the program of pods.
const smallProgram = "small"

// compressed returns the program of pods as .ci/build-podprogram leaves it for an architecture.
func compressed(t *testing.T, goarch string) fstest.MapFS {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(smallProgram)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"programs/linux-" + goarch + ".gz": {Data: b.Bytes()}}
}

func TestTheEmbeddedProgramComesFirst(t *testing.T) {
	for _, goarch := range []string{runtime.GOARCH, "riscv64"} {
		files, err := programFS(compressed(t, goarch), goarch)
		if err != nil {
			t.Fatalf("%s: %v", goarch, err)
		}
		if got, err := fs.ReadFile(files, Installer); err != nil || string(got) != smallProgram {
			t.Errorf("%s: the program is %.20q (%v), want the one that is embedded", goarch, got, err)
		}
	}
}

func TestADamagedEmbeddedProgramIsNotReplaced(t *testing.T) {
	whole := compressed(t, runtime.GOARCH)
	for name, file := range whole {
		file.Data = file.Data[:len(file.Data)-4]
		_, err := programFS(whole, runtime.GOARCH)
		if environment.KindOf(err) != environment.KindUnavailable || !strings.Contains(err.Error(), "the program of pods for linux/"+runtime.GOARCH) {
			t.Errorf("%s: error %v, want one that names the program", name, err)
		}
	}
}
