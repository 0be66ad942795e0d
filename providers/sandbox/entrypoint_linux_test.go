package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/testenv"
)

// An image from a file has its ENTRYPOINT run like one that was built here, also if an earlier version of this program
// kept a record of the image that did not have it.
func TestEntrypointOfAnArchive(t *testing.T) {
	archive := os.Getenv("ROLLOUT_TEST_IMAGE_ARCHIVE")
	if archive == "" {
		testenv.Lacks(t, "image archive", "ROLLOUT_TEST_IMAGE_ARCHIVE names none")
	}
	const ref = "rollout.test/entry:1"
	from, err := name.NewTag(testImage)
	must(t, err)
	plain, err := tarball.ImageFromPath(archive, &from)
	must(t, err)
	file, err := plain.ConfigFile()
	must(t, err)
	config := file.Config
	config.Entrypoint = []string{"bash", "-c", "echo prepared >/tmp/prepared; exec \"$@\"", "entry"}
	config.Shell = []string{"/bin/bash", "-c"}
	config.Healthcheck = &v1.HealthConfig{Test: []string{"CMD-SHELL", "[[ -e /tmp/healthy ]]"}, Retries: 9}
	changed, err := mutate.Config(plain, config)
	must(t, err)
	to, err := name.NewTag(ref)
	must(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	must(t, tarball.WriteToFile(path, to, changed))

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
		if got := run(t, e, "until [ -e /tmp/prepared ]; do sleep 0.02; done; cat /tmp/prepared"); got != "prepared\n" {
			t.Errorf("%s: %q", when, got)
		}
		h := environment.ReadinessOf(e).Healthcheck
		if h == nil || h.Retries != 9 || h.Interval != 30*time.Second {
			t.Fatalf("%s: healthcheck %+v", when, h)
		}
		run(t, e, "touch /tmp/healthy; "+h.Script())
	}
}

// A snapshot of an earlier version, whose record has no ENTRYPOINT, counts as none.
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
