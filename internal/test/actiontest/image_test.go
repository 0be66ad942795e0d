package actiontest

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// maxOurs is the size limit of our additions to the base image, in compressed bytes. Alpine with
// git has some 15 million more, and the release workflow limits the whole image to 60 million.
const maxOurs = 40_000_000

func TestTheImageIsSmall(t *testing.T) {
	name := needImage(t)
	saved := filepath.Join(t.TempDir(), "image.tar")
	docker(t, "save", "--output", saved, name)
	base := strings.Fields(docker(t, "image", "inspect", "--format", "{{range .RootFS.Layers}}{{println .}}{{end}}", testenv.Image))
	all := strings.Fields(docker(t, "image", "inspect", "--format", "{{range .RootFS.Layers}}{{println .}}{{end}}", name))
	if len(all) <= len(base) || !slices.Equal(all[:len(base)], base) {
		t.Fatalf("the image's layers %q do not begin with its base's %q", all, base)
	}
	sizes := compressed(t, saved)
	var manifest []struct{ Layers []string }
	must(t, json.Unmarshal(sizes.manifest, &manifest))
	ours := 0
	for _, layer := range manifest[0].Layers[len(base):] {
		size, ok := sizes.layers[layer]
		if !ok {
			t.Fatalf("docker save has no layer %s", layer)
		}
		ours += size
	}
	t.Logf("%d bytes are added to the base image", ours)
	if ours > maxOurs || ours < 1_000_000 {
		t.Errorf("%d bytes are added to the base image, want at most %d and a program", ours, maxOurs)
	}
}

type savedImage struct {
	manifest []byte
	layers   map[string]int // name -> size after gzip
}

// compressed reads the output of docker save.
func compressed(t *testing.T, path string) savedImage {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	saved := savedImage{layers: map[string]int{}}
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return saved
		}
		must(t, err)
		switch {
		case header.Name == "manifest.json":
			saved.manifest, err = io.ReadAll(r)
			must(t, err)
		case header.Size > 100_000_000: // none of our layers; it takes long
			saved.layers[header.Name] = int(header.Size)
		case header.Typeflag == tar.TypeReg:
			count := &counter{}
			z := gzip.NewWriter(count)
			_, err := io.Copy(z, r)
			must(t, errors.Join(err, z.Close()))
			saved.layers[header.Name] = count.n
		}
	}
}

type counter struct{ n int }

func (c *counter) Write(b []byte) (int, error) { c.n += len(b); return len(b), nil }

func TestTheImageIsAlsoTheCommand(t *testing.T) {
	name := needImage(t)
	if said := docker(t, "run", "--rm", "--entrypoint", "rollout", name, "version"); !strings.HasPrefix(said, "rollout ") {
		t.Errorf("rollout version says %q", said)
	}
	if said := docker(t, "run", "--rm", "--entrypoint", "git", name, "--version"); !strings.HasPrefix(said, "git version") {
		t.Errorf("git says %q", said)
	}
	docker(t, "run", "--rm", "--entrypoint", "test", name, "-s", "/etc/ssl/certs/ca-certificates.crt")
	config := docker(t, "image", "inspect", "--format", "{{json .Config.Entrypoint}} {{.Config.WorkingDir}}|{{.Config.User}}", name)
	if config != `["/rollout-action"] |` {
		t.Errorf("the image starts %s: want one path, and neither a directory nor a user", config)
	}
}
