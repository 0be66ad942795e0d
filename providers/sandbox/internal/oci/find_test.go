package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/org/rollout-action/providers/internal/distribution"
)

// tarOf returns a layer with one file.
func tarOf(t *testing.T, file, data string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o600, Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, data)
	w.Close()
	return out.Bytes()
}

// testImage returns an image of two layers for a platform. text distinguishes it from others.
func testImage(t *testing.T, text, arch string) v1.Image {
	t.Helper()
	var layers []v1.Layer
	for _, file := range []string{"one", "two"} {
		data := tarOf(t, file, text)
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, layer)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config = v1.Config{Env: []string{"A=" + text}, WorkingDir: "/w", User: "u:g"}
	file.Config.Entrypoint, file.Config.Shell = []string{"/entry", text}, []string{"/bin/bash", "-c"}
	file.Config.Healthcheck = &v1.HealthConfig{Test: []string{"CMD-SHELL", "true"}, Interval: 1, Timeout: 2, StartPeriod: 3, Retries: 4}
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	return img
}

// otherArch returns an architecture other than this machine's.
func otherArch() string {
	if runtime.GOARCH == "s390x" {
		return "amd64"
	}
	return "s390x"
}

// testIndex returns an index of images for several platforms, with this machine's if img is not
// nil.
func testIndex(t *testing.T, img v1.Image) v1.ImageIndex {
	t.Helper()
	platforms := []struct {
		img v1.Image
		p   v1.Platform
	}{
		{testImage(t, "other", otherArch()), v1.Platform{OS: "linux", Architecture: otherArch()}},
		{testImage(t, "attestation", ""), v1.Platform{OS: "unknown", Architecture: "unknown"}},
		{img, v1.Platform{OS: "linux", Architecture: runtime.GOARCH}},
	}
	index := v1.ImageIndex(empty.Index)
	for _, p := range platforms {
		if p.img != nil {
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: p.img, Descriptor: v1.Descriptor{Platform: &p.p}})
		}
	}
	return index
}

func digest(t *testing.T, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	d, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func idOf(t *testing.T, img v1.Image) string {
	t.Helper()
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// check compares the found image with img: description, layers, and their content.
func check(t *testing.T, got *Image, img v1.Image, text, source string) {
	t.Helper()
	defer got.Close()
	if got.ID != idOf(t, img) || got.Source != source {
		t.Errorf("found %s in %q, want %s in %q", got.ID, got.Source, idOf(t, img), source)
	}
	want := Config{Env: []string{"A=" + text}, WorkingDir: "/w", User: "u:g", OS: "linux", Architecture: runtime.GOARCH,
		Entrypoint: []string{"/entry", text}, Shell: []string{"/bin/bash", "-c"},
		Healthcheck: &dockerspec.HealthcheckConfig{Test: []string{"CMD-SHELL", "true"}, Interval: 1, Timeout: 2, StartPeriod: 3, Retries: 4},
	}
	if !reflect.DeepEqual(got.Config, want) {
		t.Errorf("configuration %+v, want %+v", got.Config, want)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Layers) != len(file.RootFS.DiffIDs) {
		t.Fatalf("%d layers, want %d", len(got.Layers), len(file.RootFS.DiffIDs))
	}
	for i, name := range []string{"one", "two"} {
		if got.Layers[i].DiffID != file.RootFS.DiffIDs[i].String() {
			t.Errorf("layer %d is %s, want %s", i, got.Layers[i].DiffID, file.RootFS.DiffIDs[i])
		}
		for range 2 {
			if data := readLayer(t, got.Layers[i]); !bytes.Equal(data, tarOf(t, name, text)) {
				t.Errorf("layer %d holds %d bytes: %.60q", i, len(data), data)
			}
		}
	}
}

func readLayer(t *testing.T, l Layer) []byte {
	t.Helper()
	r, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return data
}

// found returns the image ref, which must exist.
func found(t *testing.T, ref string, opts FindOptions) *Image {
	t.Helper()
	img, err := Find(t.Context(), ref, opts)
	if err != nil {
		t.Fatalf("%s: %v", ref, err)
	}
	if img.Ref != ref {
		t.Errorf("Ref is %q, want %q", img.Ref, ref)
	}
	return img
}

// missing checks that searching ref fails with kind, in an error of one line that contains all of
// want.
func missing(t *testing.T, ref string, opts FindOptions, kind error, want ...string) {
	t.Helper()
	img, err := Find(t.Context(), ref, opts)
	if err == nil {
		t.Errorf("%s: found %s in %s", ref, img.ID, img.Source)
		return
	}
	for _, k := range []error{ErrInvalidRef, ErrNotFound, ErrPlatform, ErrDenied, ErrUnreachable} {
		if errors.Is(err, k) != (k == kind) {
			t.Errorf("%s: errors.Is(err, %q) is %v: %v", ref, k, errors.Is(err, k), err)
		}
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v\nlacks %q", ref, err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: more than a line: %q", ref, err)
	}
}

// dockerArchive writes an archive in the form of docker save.
func dockerArchive(t *testing.T, images map[string]v1.Image) string {
	t.Helper()
	refs := map[name.Reference]v1.Image{}
	for n, img := range images {
		ref, err := name.NewTag(n)
		if err != nil {
			t.Fatal(err)
		}
		refs[ref] = img
	}
	file := filepath.Join(t.TempDir(), "images.tar")
	if err := tarball.MultiRefWriteToFile(file, refs); err != nil {
		t.Fatal(err)
	}
	return file
}

// ociLayout returns the path of a layout to which add adds images.
func ociLayout(t *testing.T, add func(layout.Path)) string {
	t.Helper()
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	add(p)
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func reference(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := parse(ref)
	must(t, err)
	return parsed
}

func annotated(key, value string) layout.Option {
	return layout.WithAnnotations(map[string]string{key: value})
}

// packed returns the path of an archive of a directory, compressed by to if that is set.
func packed(t *testing.T, dir string, to func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var out bytes.Buffer
	var under io.Writer = &out
	var done io.Closer = io.NopCloser(nil)
	if to != nil {
		c := to(&out)
		under, done = c, c
	}
	w := tar.NewWriter(under)
	must(t, w.AddFS(os.DirFS(dir)))
	must(t, w.Close())
	must(t, done.Close())
	file := filepath.Join(t.TempDir(), "archive.tar")
	must(t, os.WriteFile(file, out.Bytes(), 0o600))
	return file
}

func TestFindInDockerArchive(t *testing.T) {
	a, b := testImage(t, "a", runtime.GOARCH), testImage(t, "b", runtime.GOARCH)
	file := dockerArchive(t, map[string]v1.Image{"debian:latest": a, "example.com/x/y:1": b})
	opts := FindOptions{Local: []string{file}}
	source := "docker archive " + file
	for _, ref := range []string{"debian", "debian:latest", "library/debian", "docker.io/debian", "docker.io/library/debian:latest", "index.docker.io/library/debian"} {
		check(t, found(t, ref, opts), a, "a", source)
	}
	check(t, found(t, "example.com/x/y:1", opts), b, "b", source)
	check(t, found(t, "docker-archive:"+file+":example.com/x/y:1", FindOptions{}), b, "b", source)
	check(t, found(t, "docker-archive:"+file+":debian", FindOptions{}), a, "a", source)
	missing(t, "debian:12", opts, ErrNotFound, "image debian:12: no such image", source+": ", "debian:latest", "example.com/x/y:1")
	missing(t, "example.com/x/y", opts, ErrNotFound)
	missing(t, "docker-archive:"+file, FindOptions{}, ErrNotFound, "several", ":NAME", "example.com/x/y:1")
	missing(t, "docker-archive:"+file+":none", FindOptions{}, ErrNotFound, "debian:latest")
	missing(t, "docker-archive:/no/such/file", FindOptions{}, ErrNotFound, "/no/such/file")

	one := dockerArchive(t, map[string]v1.Image{"x": a, "y": a})
	check(t, found(t, "docker-archive:"+one, FindOptions{}), a, "a", "docker archive "+one)
}

func TestFindInLayout(t *testing.T) {
	a, b, c := testImage(t, "a", runtime.GOARCH), testImage(t, "b", runtime.GOARCH), testImage(t, "c", runtime.GOARCH)
	index := testIndex(t, c)
	dir := ociLayout(t, func(p layout.Path) {
		must(t, p.AppendImage(a, annotated(annotationName, "docker.io/library/debian:bookworm")))
		must(t, p.AppendImage(b, annotated(annotationRef, "example.com/b:2")))
		must(t, p.AppendIndex(index, annotated(annotationRef, "many")))
		must(t, p.AppendImage(testImage(t, "d", runtime.GOARCH)))
	})
	archives := map[string]string{
		"OCI layout " + dir: dir,
	}
	plain := packed(t, dir, nil)
	archives["OCI archive "+plain] = plain
	squeezed := packed(t, dir, func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z })
	archives["OCI archive "+squeezed] = squeezed
	for source, file := range archives {
		opts := FindOptions{Local: []string{file}}
		check(t, found(t, "debian:bookworm", opts), a, "a", source)
		check(t, found(t, "example.com/b:2", opts), b, "b", source)
		check(t, found(t, "many", opts), c, "c", source)
		check(t, found(t, "debian@"+digest(t, a), opts), a, "a", source)
		check(t, found(t, "anything:else@"+digest(t, index), opts), c, "c", source)
		check(t, found(t, "many@"+digest(t, c), opts), c, "c", source)
		check(t, found(t, "oci:"+file+":many", FindOptions{}), c, "c", source)
		check(t, found(t, "oci:"+file+":debian:bookworm", FindOptions{}), a, "a", source)
		missing(t, "debian", opts, ErrNotFound, source)
		missing(t, "debian@sha256:"+strings.Repeat("0", 64), opts, ErrNotFound, source)
		missing(t, "oci:"+file, FindOptions{}, ErrNotFound, "several")
	}
}

func TestFindTheOnlyImageOfALayout(t *testing.T) {
	a := testImage(t, "a", runtime.GOARCH)
	dir := ociLayout(t, func(p layout.Path) { must(t, p.AppendImage(a)) })
	check(t, found(t, "oci:"+dir, FindOptions{}), a, "a", "OCI layout "+dir)
	missing(t, "debian", FindOptions{Local: []string{dir}}, ErrNotFound, "no image in it has a name")

	colons := filepath.Join(t.TempDir(), "a:b")
	must(t, os.CopyFS(colons, os.DirFS(dir)))
	check(t, found(t, "oci:"+colons, FindOptions{}), a, "a", "OCI layout "+colons)

	none := ociLayout(t, func(layout.Path) {})
	missing(t, "oci:"+none, FindOptions{}, ErrNotFound, "there is none")
}

func TestFindByTagAloneOnlyDirectly(t *testing.T) {
	a := testImage(t, "a", runtime.GOARCH)
	dir := ociLayout(t, func(p layout.Path) {
		must(t, p.AppendImage(a, layout.WithAnnotations(map[string]string{annotationName: "docker.io/library/x:v1", annotationRef: "v1"})))
	})
	missing(t, "v1", FindOptions{Local: []string{dir}}, ErrNotFound)
	check(t, found(t, "x:v1", FindOptions{Local: []string{dir}}), a, "a", "OCI layout "+dir)
}

func TestFindForOtherPlatforms(t *testing.T) {
	other := "linux/" + otherArch()
	dir := ociLayout(t, func(p layout.Path) {
		must(t, p.AppendIndex(testIndex(t, nil), annotated(annotationRef, "many")))
		must(t, p.AppendImage(testImage(t, "a", otherArch()), annotated(annotationRef, "one")))
	})
	opts := FindOptions{Local: []string{dir}}
	missing(t, "many", opts, ErrPlatform, "linux/"+runtime.GOARCH, "there is "+other+")")
	missing(t, "one", opts, ErrPlatform, "it is for "+other)
}

func TestSelectPlatformPrefersBaselineVariant(t *testing.T) {
	of := func(variant string) v1.Descriptor {
		return v1.Descriptor{Size: int64(len(variant)), Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH, Variant: variant}}
	}
	for _, tc := range []struct {
		from []v1.Descriptor
		want string
	}{
		{[]v1.Descriptor{of("v333"), of("")}, ""},
		{[]v1.Descriptor{of("v999"), of("v8")}, "v8"},
		{[]v1.Descriptor{of("v333")}, "v333"},
	} {
		got, err := selectPlatform(tc.from)
		if err != nil || got.Platform.Variant != tc.want {
			t.Errorf("chose %q, %v; want %q", got.Platform.Variant, err, tc.want)
		}
	}
}

func TestFindContinuesAfterBrokenFile(t *testing.T) {
	a := testImage(t, "a", runtime.GOARCH)
	good := dockerArchive(t, map[string]v1.Image{"x": a})
	empty := t.TempDir()
	garbage := filepath.Join(t.TempDir(), "garbage")
	must(t, os.WriteFile(garbage, bytes.Repeat([]byte("garbage"), 1000), 0o600))
	bad := []string{empty, garbage, "/no/such/file"}
	check(t, found(t, "x", FindOptions{Local: append(bad, good)}), a, "a", "docker archive "+good)
	missing(t, "y", FindOptions{Local: append(bad, good)}, nil, empty+": this is neither", garbage+": ", "/no/such/file: ", good)
}

func TestFindOldDockerArchiveWithLinks(t *testing.T) {
	a := testImage(t, "a", runtime.GOARCH)
	raw, err := a.RawConfigFile()
	must(t, err)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name, link string, data []byte) {
		h := &tar.Header{Name: name, Linkname: link, Size: int64(len(data)), Mode: 0o600, Typeflag: tar.TypeReg}
		if link != "" {
			h.Typeflag = tar.TypeSymlink
		}
		must(t, w.WriteHeader(h))
		w.Write(data)
	}
	add("1/layer.tar", "../2/layer.tar", nil)
	add("2/layer.tar", "", tarOf(t, "one", "a"))
	add("3/layer.tar", "", tarOf(t, "two", "a"))
	add("c.json", "", raw)
	add("4/layer.tar", "../4/layer.tar", nil)
	add("manifest.json", "", []byte(`[{"Config":"c.json","RepoTags":["x:latest"],"Layers":["1/layer.tar","3/layer.tar"]},
		{"Config":"c.json","RepoTags":["circle:latest"],"Layers":["4/layer.tar","3/layer.tar"]}]`))
	must(t, w.Close())
	file := filepath.Join(t.TempDir(), "old.tar")
	must(t, os.WriteFile(file, out.Bytes(), 0o600))
	check(t, found(t, "x", FindOptions{Local: []string{file}}), a, "a", "docker archive "+file)
	if _, err := found(t, "circle", FindOptions{Local: []string{file}}).Layers[0].Open(t.Context()); err == nil || !strings.Contains(err.Error(), "too many links") {
		t.Errorf("error %v", err)
	}
}

func TestDamage(t *testing.T) {
	a := testImage(t, "a", runtime.GOARCH)
	layers, err := a.Layers()
	must(t, err)
	config, err := a.ConfigName()
	must(t, err)
	blob, err := layers[1].Digest()
	must(t, err)
	damaged := func(t *testing.T, h v1.Hash, change func(string)) string {
		dir := ociLayout(t, func(p layout.Path) { must(t, p.AppendImage(a, annotated(annotationRef, "x"))) })
		change(filepath.Join(dir, filepath.FromSlash(blobName(h))))
		return dir
	}
	t.Run("a layer with other contents", func(t *testing.T) {
		dir := damaged(t, blob, func(p string) { must(t, os.WriteFile(p, tarOf(t, "two", "evil"), 0o600)) })
		img := found(t, "x", FindOptions{Local: []string{dir}})
		r, err := img.Layers[1].Open(t.Context())
		must(t, err)
		if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "layer "+img.Layers[1].DiffID+" is damaged") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a layer that was cut off", func(t *testing.T) {
		dir := damaged(t, blob, func(p string) { must(t, os.Truncate(p, 50)) })
		r, err := found(t, "x", FindOptions{Local: []string{dir}}).Layers[1].Open(t.Context())
		must(t, err)
		if _, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a layer that is not there", func(t *testing.T) {
		dir := damaged(t, blob, func(p string) { must(t, os.Remove(p)) })
		if _, err := found(t, "x", FindOptions{Local: []string{dir}}).Layers[1].Open(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a layer compressed by what is not supported", func(t *testing.T) {
		dir := damaged(t, blob, func(p string) { must(t, os.WriteFile(p, []byte("\xfd7zXZ\x00"), 0o600)) })
		if _, err := found(t, "x", FindOptions{Local: []string{dir}}).Layers[1].Open(t.Context()); err == nil || !strings.Contains(err.Error(), "xz") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("another configuration", func(t *testing.T) {
		dir := damaged(t, config, func(p string) { must(t, os.WriteFile(p, []byte("{}"), 0o600)) })
		missing(t, "x", FindOptions{Local: []string{dir}}, nil, config.String()+" is damaged")
	})
	t.Run("a reader that was cancelled", func(t *testing.T) {
		dir := damaged(t, blob, func(string) {})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := found(t, "x", FindOptions{Local: []string{dir}}).Layers[1].Open(ctx)
		must(t, err)
		cancel()
		if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestLayersCompressedByZstd(t *testing.T) {
	var squeezed bytes.Buffer
	z, err := zstd.NewWriter(&squeezed)
	must(t, err)
	z.Write(tarOf(t, "one", "a"))
	must(t, z.Close())
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: static.NewLayer(squeezed.Bytes(), types.OCILayerZStd)})
	must(t, err)
	file, err := img.ConfigFile()
	must(t, err)
	file = file.DeepCopy()
	sum, _, err := v1.SHA256(bytes.NewReader(tarOf(t, "one", "a")))
	must(t, err)
	file.RootFS.DiffIDs = []v1.Hash{sum}
	img, err = mutate.ConfigFile(img, file)
	must(t, err)
	dir := ociLayout(t, func(p layout.Path) { must(t, p.AppendImage(img)) })
	if data := readLayer(t, found(t, "oci:"+dir, FindOptions{}).Layers[0]); !bytes.Equal(data, tarOf(t, "one", "a")) {
		t.Errorf("the layer holds %d bytes", len(data))
	}
}

func TestFindWithInvalidRef(t *testing.T) {
	for _, ref := range []string{"", " ", "UPPER", "a b", "a:b:c", "a@sha256:12", "a\nb", "http://x/y"} {
		missing(t, ref, FindOptions{}, ErrInvalidRef, "use NAME")
	}
}

func TestFindNowhere(t *testing.T) {
	missing(t, "debian", FindOptions{}, ErrNotFound, "image debian: no such image (there is no place to look for it)")
}

// engine is a Docker engine with one image.
type engine struct {
	t      *testing.T
	ref    string
	img    v1.Image
	arch   string
	err    error // of ImageInspect
	cut    bool  // the archive breaks off
	saves  atomic.Int64
	during func() // called while an archive is written
}

func (e *engine) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	if e.err != nil {
		return image.InspectResponse{}, e.err
	}
	if ref != e.ref {
		return image.InspectResponse{}, fmt.Errorf("no such image: %s: %w", ref, errdefs.ErrNotFound)
	}
	file, err := e.img.ConfigFile()
	must(e.t, err)
	out := image.InspectResponse{ID: idOf(e.t, e.img), Os: "linux", Architecture: e.arch}
	config, err := json.Marshal(file.Config)
	must(e.t, err)
	must(e.t, json.Unmarshal(config, &out.Config))
	for _, l := range file.RootFS.DiffIDs {
		out.RootFS.Layers = append(out.RootFS.Layers, l.String())
	}
	return out, nil
}

func (e *engine) ImageSave(ctx context.Context, refs []string, _ ...client.ImageSaveOption) (io.ReadCloser, error) {
	e.saves.Add(1)
	if len(refs) != 1 || refs[0] != idOf(e.t, e.img) {
		return nil, fmt.Errorf("no such image: %v: %w", refs, errdefs.ErrNotFound)
	}
	var out bytes.Buffer
	must(e.t, tarball.Write(reference(e.t, "x"), e.img, &out))
	if e.during != nil {
		e.during()
	}
	if e.cut {
		out.Truncate(out.Len() / 2)
		return io.NopCloser(io.MultiReader(&out, failingReader{io.ErrUnexpectedEOF})), nil
	}
	return io.NopCloser(&out), ctx.Err()
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestFindInEngine(t *testing.T) {
	a := testImage(t, "a", runtime.GOARCH)
	e := &engine{t: t, ref: "debian", img: a, arch: runtime.GOARCH}
	temp := t.TempDir()
	opts := FindOptions{Docker: e, TempDir: temp}
	files := func() int {
		entries, err := os.ReadDir(temp)
		must(t, err)
		return len(entries)
	}
	img := found(t, "debian", opts)
	if e.saves.Load() != 0 || files() != 0 {
		t.Error("the image was saved before a layer was opened")
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { readLayer(t, img.Layers[i%2]) })
	}
	wg.Wait()
	if e.saves.Load() != 1 || files() != 1 {
		t.Errorf("saved %d times, %d files", e.saves.Load(), files())
	}
	check(t, img, a, "a", engineStore)
	must(t, img.Close())
	must(t, img.Close())
	if files() != 0 {
		t.Error("Close left the archive")
	}
	if _, err := img.Layers[0].Open(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error %v", err)
	}

	missing(t, "other", opts, ErrNotFound, engineStore+": not there")
	e.cut = true
	img = found(t, "debian", opts)
	if _, err := img.Layers[0].Open(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) || files() != 0 {
		t.Errorf("a transfer that broke off: %v, %d files left", err, files())
	}
	e.cut = false
	check(t, img, a, "a", engineStore) // once more

	ctx, cancel := context.WithCancel(t.Context())
	e.during = cancel
	img = found(t, "debian", opts)
	if _, err := img.Layers[0].Open(ctx); !errors.Is(err, context.Canceled) || files() != 0 {
		t.Errorf("cancelled: %v, %d files left", err, files())
	}
	e.arch = otherArch()
	missing(t, "debian", opts, ErrPlatform, engineStore, otherArch())
	e.err = errors.New("odd\nthings")
	missing(t, "debian", opts, nil, engineStore+": odd things")

	gone, err := client.NewClientWithOpts(client.WithHost("unix://" + filepath.Join(temp, "socket")))
	must(t, err)
	defer gone.Close()
	missing(t, "debian", FindOptions{Docker: gone}, ErrUnreachable, engineStore)
}

func nopLogger() *log.Logger { return log.New(io.Discard, "", 0) }

// testRegistry returns the address of a registry on the loopback interface. before may answer
// requests itself.
func testRegistry(t *testing.T, before func(http.ResponseWriter, *http.Request) bool) (host string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	inner := ggcr.New(ggcr.Logger(nopLogger()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	must(t, err)
	return at.Host
}

func push(t *testing.T, ref string, img v1.Image) {
	t.Helper()
	must(t, remote.Write(reference(t, ref), img))
}

// quick returns options that use registries and retry without pauses.
func quick() FindOptions {
	return FindOptions{Registry: true, pause: func(ctx context.Context, _ int) error { return ctx.Err() }}
}

func TestFindInRegistry(t *testing.T) {
	host := testRegistry(t, nil)
	a, b := testImage(t, "a", runtime.GOARCH), testImage(t, "b", runtime.GOARCH)
	push(t, host+"/a:1", a)
	index := testIndex(t, b)
	must(t, remote.WriteIndex(reference(t, host+"/many"), index))
	must(t, remote.WriteIndex(reference(t, host+"/others"), testIndex(t, nil)))
	push(t, host+"/other", testImage(t, "c", otherArch()))
	source := "registry " + host
	check(t, found(t, host+"/a:1", quick()), a, "a", source)
	check(t, found(t, host+"/a@"+digest(t, a), quick()), a, "a", source)
	check(t, found(t, host+"/many", quick()), b, "b", source)
	check(t, found(t, host+"/many@"+digest(t, index), quick()), b, "b", source)
	check(t, found(t, host+"/many@"+digest(t, b), quick()), b, "b", source)
	missing(t, host+"/a:2", quick(), ErrNotFound, source+": 404 Not Found, MANIFEST_UNKNOWN")
	missing(t, host+"/none", quick(), ErrNotFound, source+": 404 Not Found, NAME_UNKNOWN")
	missing(t, host+"/a@sha256:"+strings.Repeat("0", 64), quick(), ErrNotFound)
	missing(t, host+"/others", quick(), ErrPlatform, "there is linux/"+otherArch()+")")
	missing(t, host+"/other", quick(), ErrPlatform)
	missing(t, host+"/a:1", FindOptions{}, ErrNotFound)
}

func TestFindAsksPlacesInOrder(t *testing.T) {
	host := testRegistry(t, nil)
	local, stored, distant := testImage(t, "local", runtime.GOARCH), testImage(t, "stored", runtime.GOARCH), testImage(t, "distant", runtime.GOARCH)
	ref := host + "/x:1"
	push(t, ref, distant)
	opts := quick()
	opts.Local = []string{dockerArchive(t, map[string]v1.Image{ref: local})}
	e := &engine{t: t, ref: ref, img: stored, arch: runtime.GOARCH}
	opts.Docker = e
	check(t, found(t, ref, opts), local, "local", "docker archive "+opts.Local[0])
	opts.Local = nil
	check(t, found(t, ref, opts), stored, "stored", engineStore)
	e.arch = otherArch()
	check(t, found(t, ref, opts), distant, "distant", "registry "+host)
	e.err = errors.New("broken")
	check(t, found(t, ref, opts), distant, "distant", "registry "+host)
	missing(t, host+"/x:2", opts, nil, engineStore+": broken; registry "+host+": 404")
}

func TestRegistryThatRefuses(t *testing.T) {
	var asked atomic.Int64
	for _, tc := range []struct {
		name     string
		status   int
		body     string
		kind     error
		attempts int64
		want     string
	}{
		{"unauthorized", 401, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, ErrDenied, 1, "401 Unauthorized, UNAUTHORIZED: authentication required"},
		{"forbidden", 403, "<html>\n<body>", ErrDenied, 1, "403 Forbidden: if the image exists"},
		{"denied by its code", 400, `{"errors":[{"code":"DENIED"}]}`, ErrDenied, 1, "400 Bad Request, DENIED: if"},
		{"no such image", 404, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, ErrNotFound, 1, "404 Not Found, MANIFEST_UNKNOWN"},
		{"no such thing", 404, "<html>", ErrNotFound, 1, "404 Not Found)"},
		{"broken", 500, "<html>", ErrUnreachable, 3, "500 Internal Server Error)"},
		{"behind a proxy that is not there", 502, "", ErrUnreachable, 3, "502 Bad Gateway"},
		{"too many requests", 429, `{"errors":[{"code":"TOOMANYREQUESTS","message":"slow\u001b[1m down\nnow"}]}`, ErrUnreachable, 3, "TOOMANYREQUESTS: slow [1m down now: it limits the rate of requests; wait, or run `docker login "},
		{"another answer", 418, "", nil, 1, "418 I'm a teapot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked.Store(0)
			host := testRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/manifests/") {
					return false
				}
				asked.Add(1)
				w.WriteHeader(tc.status)
				io.WriteString(w, tc.body)
				return true
			})
			missing(t, host+"/a", quick(), tc.kind, "registry "+host, tc.want)
			if asked.Load() != tc.attempts {
				t.Errorf("asked %d times, want %d", asked.Load(), tc.attempts)
			}
			if errors.Is(tc.kind, ErrDenied) {
				missing(t, host+"/a", quick(), tc.kind, "`docker login "+host+"`", "names that do not exist")
			}
		})
	}
}

func TestRegistryThatRecovers(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	var bad atomic.Bool
	host := testRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path]++
		if !bad.Load() || r.URL.Path == "/v2/" || asked[r.URL.Path]%3 == 0 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	a := testImage(t, "a", runtime.GOARCH)
	push(t, host+"/a", a)
	clear(asked)
	bad.Store(true)
	check(t, found(t, host+"/a", quick()), a, "a", "registry "+host)
}

func TestRegistryThatWantsALogin(t *testing.T) {
	const header = "Basic dTpw" // u:p
	host := testRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == header {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	missing(t, host+"/a", quick(), ErrDenied, "docker login "+host)
	must(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(`{"auths":{"`+host+`":{"auth":"dTpw"}}}`), 0o600))
	missing(t, host+"/a", quick(), ErrNotFound)
}

func TestRegistryThatBreaksOff(t *testing.T) {
	var cut atomic.Bool
	host := testRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !cut.Load() || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		w.Header().Set("Content-Length", "1000000")
		w.Write([]byte("the beginning"))
		panic(http.ErrAbortHandler)
	})
	push(t, host+"/a", testImage(t, "a", runtime.GOARCH))
	img := found(t, host+"/a", quick())
	cut.Store(true)
	r, err := img.Layers[0].Open(t.Context())
	if err == nil {
		_, err = io.ReadAll(r)
	}
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	missing(t, host+"/a", quick(), ErrUnreachable)
}

func TestFindStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	host := testRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	})
	_, err := Find(ctx, host+"/a", quick())
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

func TestCancelledBetweenAttempts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	host := testRegistry(t, func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	opts := quick()
	opts.pause = func(ctx context.Context, nth int) error {
		cancel()
		return distribution.Pause(ctx, nth+20, 0) // would take years
	}
	if _, err := Find(ctx, host+"/a", opts); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestRegistryThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	host := l.Addr().String()
	l.Close()
	opts := quick()
	opts.pause = func(context.Context, int) error {
		t.Error("asked again, which costs time on a machine without a network")
		return nil
	}
	missing(t, host+"/a", opts, ErrUnreachable, "registry "+host, "refused")
}

func TestNamesThatNeverExist(t *testing.T) {
	for _, ref := range []string{"registry.invalid/a", "REGISTRY.INVALID/a", "x.invalid:5000/a:1"} {
		missing(t, ref, FindOptions{Registry: true}, ErrNotFound, "RFC 6761")
	}
}
