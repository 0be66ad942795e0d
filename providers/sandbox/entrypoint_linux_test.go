package sandbox

import (
	"archive/tar"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

// The ENTRYPOINT of an image from a file runs like that of a built one, even if an earlier version
// of this program left a record of the image without it.
func TestEntrypointOfAnArchive(t *testing.T) {
	archive := os.Getenv("ROLLOUT_TEST_IMAGE_ARCHIVE")
	if archive == "" {
		testenv.Lacks(t, "image archive", "ROLLOUT_TEST_IMAGE_ARCHIVE names none")
	}
	const ref = "rollout.test/entry:1"
	path := filepath.Join(t.TempDir(), "image.tar")
	copyImage(t, archive, path, ref, func(config *v1.Config) {
		config.Entrypoint = []string{"bash", "-c", "echo prepared >/tmp/prepared; exec \"$@\"", "entry"}
		config.Shell = []string{"/bin/bash", "-c"}
		config.Healthcheck = &v1.HealthConfig{Test: []string{"CMD-SHELL", "[[ -e /tmp/healthy ]]"}, Retries: 9}
	})

	cfg := map[string]any{"base": "image", "images": []any{path}, "dir": storeDir(t)}
	for _, when := range []string{"first", "with an old record"} {
		p := newProvider(t, cfg)
		if when != "first" {
			old := map[string]any{}
			must(t, readJSON(p.imageFile(ref), &old))
			for _, key := range []string{"form", "entrypoint", "shell", "healthcheck"} {
				delete(old, key)
			}
			text, err := json.Marshal(old)
			must(t, err)
			must(t, os.WriteFile(p.imageFile(ref), text, 0o600))
		}
		e := create(t, p, environment.CreateOptions{Image: ref})
		if got := run(t, e, "until [ -s /tmp/prepared ]; do sleep 0.02; done; cat /tmp/prepared"); got != "prepared\n" {
			t.Errorf("%s: %q", when, got)
		}
		h := environment.ReadinessOf(e).Healthcheck
		if h == nil || h.Retries != 9 || h.Interval != 30*time.Second {
			t.Fatalf("%s: healthcheck %+v", when, h)
		}
		run(t, e, "touch /tmp/healthy; "+h.Script())
	}
}

// copyImage copies the image of an archive, in the form of docker save, to a new archive with
// another name and a changed configuration. Its layers are copied unchanged: a library that writes
// images would compress them, which takes minutes.
func copyImage(t *testing.T, from, to, ref string, change func(*v1.Config)) {
	t.Helper()
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(from) })
	must(t, err)
	if len(manifest) != 1 {
		t.Fatalf("%s has %d images, want 1", from, len(manifest))
	}
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.Create(to)
	must(t, err)
	defer out.Close()
	w := tar.NewWriter(out)
	write := func(name string, v any) {
		text, err := json.Marshal(v)
		must(t, err)
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err = w.Write(text)
		must(t, err)
	}
	image := manifest[0]
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		switch {
		case header.Name == image.Config:
			var config v1.ConfigFile
			must(t, json.NewDecoder(r).Decode(&config))
			change(&config.Config)
			write("changed.json", config)
		case slices.Contains(image.Layers, header.Name):
			must(t, w.WriteHeader(header))
			_, err := io.Copy(w, r)
			must(t, err)
		}
	}
	image.Config, image.RepoTags = "changed.json", []string{ref}
	write("manifest.json", tarball.Manifest{image})
	must(t, w.Close())
}

// Snapshots of an earlier version, whose records have no ENTRYPOINT, are ignored.
func TestSnapshotsOfOldFormAreIgnored(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	e := create(t, p, environment.CreateOptions{Image: testImage})
	const key = "0123456789abcdef"
	ref, err := environment.Snapshot(t.Context(), e, environment.SnapshotOptions{Key: key})
	must(t, err)
	if found, _, err := p.FindSnapshot(t.Context(), key); err != nil || found != ref {
		t.Fatalf("%q, %v", found, err)
	}
	img := &image{}
	must(t, readJSON(p.imageFile(ref), img))
	img.Form = 0
	must(t, p.store.record(p.imageFile(ref), img))
	if found, _, err := p.FindSnapshot(t.Context(), key); err != nil || found != "" {
		t.Errorf("an old snapshot is found: %q, %v", found, err)
	}
}
