package sandbox

import (
	"compress/gzip"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

const runsHere = "linux/" + runtime.GOARCH

// registryWithImage returns a registry in this process with the test image, and the image's name
// there.
func registryWithImage(t *testing.T) (host, base string) {
	t.Helper()
	server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	base = host + "/debian:bookworm"
	archive := testenv.ImageArchive()
	if archive == "" {
		testenv.NeedDocker(t)
		archive = filepath.Join(t.TempDir(), "image.tar")
		engine := dockerEngine(t.Context())
		if engine == nil {
			t.Fatal("no engine answers")
		}
		defer engine.Close()
		saved, err := engine.ImageSave(t.Context(), []string{testImage})
		must(t, err)
		defer saved.Close()
		to, err := os.Create(archive)
		must(t, err)
		_, err = io.Copy(to, saved)
		must(t, errors.Join(err, to.Close()))
	}
	img, err := tarball.ImageFromPath(archive, nil)
	must(t, err)
	file, err := img.ConfigFile()
	must(t, err)
	file = file.DeepCopy()
	file.Config.Cmd, file.Config.Labels, file.Config.StopSignal = []string{"bash"}, map[string]string{"of": "the base"}, "SIGINT"
	img, err = mutate.ConfigFile(stored(t, img), file)
	must(t, err)
	must(t, remote.Write(reference(t, base), img))
	return host, base
}

// stored returns an image of the same layers, not compressed: to compress them for their digest and
// again for the registry takes longer than all else that a test does, with the race detector.
func stored(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	layers, err := img.Layers()
	must(t, err)
	for n, l := range layers {
		layers[n], err = tarball.LayerFromOpener(l.Uncompressed, tarball.WithCompressionLevel(gzip.NoCompression), tarball.WithCompressedCaching)
		must(t, err)
	}
	img, err = mutate.AppendLayers(empty.Image, layers...)
	must(t, err)
	return img
}

func reference(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	must(t, err)
	return parsed
}

// The sandbox provider of this machine pulls and runs the pushed image, from a store without traces
// of the build.
func TestImageBuilder(t *testing.T) {
	t.Parallel()
	host, base := registryWithImage(t)
	p := newProvider(t, map[string]any{"dir": ownStoreDir(t)}) // reports a machine that can make no sandboxes
	one := p.store.mode == modeOne
	images := func() *registryimage.Images {
		i, err := registryimage.New(registryimage.Config{
			Registry: host + "/evals", Platform: runsHere, Builders: []registryimage.Builder{ImageBuilder(map[string]any{"dir": ownStoreDir(t)}, Options{})},
		})
		must(t, err)
		return i
	}
	owner := "3:4"
	if one {
		owner = "0:0"
	}
	opts := environment.BuildOptions{Name: "Built", Context: fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM scratch AS other\nCOPY script /other\n" +
			"FROM " + base + "\n" +
			"RUN rm /etc/issue && rm -r /usr/share/doc && mkdir /usr/share/doc && echo new >/usr/share/doc/new && chown " + owner + " /usr/share/doc/new && chmod 2751 /usr/share/doc/new\n" +
			"RUN mv /usr/share/man /moved && ln /moved/../etc/passwd /hard && ln -s /nowhere /soft && mkfifo /pipe && touch -d 2001-02-03T04:05:06Z /old\n" +
			"RUN true\n" +
			"COPY --chmod=700 script /bin/script\n" +
			"COPY --from=other /other /other\n" +
			"ENV A=b\nUSER root\nWORKDIR /work\nENTRYPOINT [\"/bin/script\"]\nHEALTHCHECK --start-interval=3s CMD true\n"), Mode: 0o644},
		"script": {Data: []byte("#!/bin/sh\nexec \"$@\"\n"), Mode: 0o644},
	}}
	i := images()
	ref, err := i.Build(t.Context(), opts)
	must(t, err)
	if builder, about, err := i.Builder(t.Context()); builder != registryimage.Sandbox || !strings.Contains(about, "sandboxes of this machine") {
		t.Errorf("built by %s (%s), %v", builder, about, err)
	}
	img, err := remote.Image(reference(t, ref))
	must(t, err)
	must(t, validate.Image(img))

	about, err := i.Config(t.Context(), ref)
	must(t, err)
	s := about.Settings
	if strings.Join(s.Entrypoint, " ") != "/bin/script" || s.Cmd != nil || s.WorkingDir != "/work" || s.User != "root" || s.Healthcheck == nil ||
		s.Healthcheck.StartInterval.Seconds() != 3 || s.Labels["of"] != "the base" || !strings.Contains(strings.Join(s.Env, " "), "A=b") {
		t.Errorf("the image is %+v", about)
	}
	before, err := remote.Image(reference(t, base))
	must(t, err)
	wantOnTop(t, before, img, 5) // RUN true makes none

	e := create(t, newProvider(t, map[string]any{"base": "image", "dir": ownStoreDir(t)}), environment.CreateOptions{Image: ref})
	script := "pwd; echo $A; ls -A /usr/share/doc; stat -c '%u:%g %a' /usr/share/doc/new; test ! -e /etc/issue && test ! -e /usr/share/man && ls /moved | head -n 1; " +
		"stat -c %h /hard; readlink /soft; test -p /pipe; stat -c %Y /old; stat -c %a /bin/script /etc; cat /other | head -n 1; grep -c root /etc/passwd"
	want := "/work\nb\nnew\n" + owner + " 2751\n" + "cs\n" + "2\n/nowhere\n981173106\n700\n755\n#!/bin/sh\n1\n"
	if got := run(t, e, script); got != want {
		t.Errorf("in the image:\n%s, want\n%s", got, want)
	}

	// Another machine that builds the same without looking pushes the same base, and finds the
	// image by its key.
	if again, err := images().Build(t.Context(), opts); again != ref || err != nil {
		t.Errorf("again: %s, %v, want %s", again, err, ref)
	}
	fresh := opts
	fresh.NoCache = true
	if rebuilt, err := i.Build(t.Context(), fresh); err != nil || !strings.HasPrefix(rebuilt, host+"/evals/built@sha256:") {
		t.Errorf("built again: %s, %v", rebuilt, err)
	}
}

// wantOnTop checks that an image has the layers of its base and additional ones.
func wantOnTop(t *testing.T, base, img v1.Image, more int) {
	t.Helper()
	below, err := base.Manifest()
	must(t, err)
	manifest, err := img.Manifest()
	must(t, err)
	if len(manifest.Layers) != len(below.Layers)+more {
		t.Errorf("it has %d layers, the base has %d", len(manifest.Layers), len(below.Layers))
		return
	}
	for n, l := range below.Layers {
		if manifest.Layers[n].Digest != l.Digest {
			t.Errorf("layer %d is not the base's", n)
		}
	}
}

func TestImageBuilderErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	newProvider(t, map[string]any{"dir": ownStoreDir(t)})
	b := ImageBuilder(map[string]any{"dir": ownStoreDir(t)}, Options{})
	i, err := registryimage.New(registryimage.Config{Registry: host + "/evals", Platform: runsHere, Builders: []registryimage.Builder{b}})
	must(t, err)
	build := func(dockerfile string) (string, error) {
		return i.Build(t.Context(), environment.BuildOptions{Name: "x", Context: fstest.MapFS{"Dockerfile": {Data: []byte(dockerfile)}, "f": {Data: []byte("f")}}})
	}
	for _, tc := range []struct {
		dockerfile string
		transient  bool
		says       string
	}{
		{"FROM " + host + "/none", false, "404 Not Found"},
		{"FROM scratch\nRUN true\n", false, "Dockerfile:2"},
		{"FROM scratch\nNONSENSE\n", false, "Dockerfile:2"},
		{"FROM 127.0.0.1:1/x\n", true, "refused"},
	} {
		_, err := build(tc.dockerfile)
		kind := environment.KindBuild
		if tc.transient { // the registry's fault, not the Dockerfile's
			kind = environment.KindPull
		}
		if environment.KindOf(err) != kind || environment.IsTransient(err) != tc.transient || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q: kind %q, transient %t: %v", tc.dockerfile, environment.KindOf(err), environment.IsTransient(err), err)
		}
	}
	ref, err := build("FROM scratch\nCOPY f /f\n")
	must(t, err)
	img, err := remote.Image(reference(t, ref))
	must(t, err)
	must(t, validate.Image(img))
	if _, err := b.Check(t.Context(), "linux/none"); err == nil || !strings.Contains(err.Error(), "linux/none is wanted") {
		t.Errorf("another platform: %v", err)
	}
}
