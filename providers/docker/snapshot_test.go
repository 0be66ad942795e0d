package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/org/rollout-action/internal/core/environment"
)

// snapshotOf makes a container, runs a script in it and makes it an image, which goes with the
// test.
func snapshotOf(t *testing.T, p *Provider, from, script string, labels environment.Labels) (ref string, err error) {
	t.Helper()
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: from, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if code, err := env.Exec(t.Context(), script, environment.ExecOptions{}); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	sum := sha256.Sum256([]byte(rand.Text()))
	ref, err = environment.Snapshot(t.Context(), env, environment.SnapshotOptions{Key: hex.EncodeToString(sum[:]), Description: "of " + t.Name()})
	if err == nil {
		t.Cleanup(func() { _, _ = p.api.ImageRemove(context.Background(), ref, image.RemoveOptions{}) })
	}
	return ref, err
}

// TestSnapshotHasNoLabelsOfItsContainer: labels of the container's owner, and of the workflow that
// it belonged to, would be those of every container of the image that sets none itself.
func TestSnapshotHasNoLabelsOfItsContainer(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	labels := environment.Labels{Job: "j", Trial: "first", Owner: environment.Owner{Host: "h", PID: 7, Start: "8", Workflow: environment.Workflow{Run: "r", Attempt: 1, Job: "w"}}}
	ref, err := snapshotOf(t, p, testImage, "true", labels)
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.api.ImageInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := environment.ParseLabels(made.Config.Labels); got != (environment.Labels{Job: "layer"}) {
		t.Errorf("the image has the labels %+v", got)
	}
	base, err := p.api.ImageInspect(t.Context(), testImage)
	if err != nil || made.Config.Labels[labelBase] != base.ID || !slices.Equal(made.Config.Env, base.Config.Env) {
		t.Errorf("base %s, want %s; variables %q, want %q; %v", made.Config.Labels[labelBase], base.ID, made.Config.Env, base.Config.Env, err)
	}
	images, err := p.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(images, func(i environment.Image) bool { return i.ID == made.ID })
	if i < 0 || images[i].Name != ref+" (of "+t.Name()+")" || images[i].Size > 1<<20 || time.Since(images[i].Used) > time.Hour || !slices.Equal(images[i].Needs, []string{base.ID}) {
		t.Errorf("listed as %+v", images)
	}
	if slices.ContainsFunc(images, func(i environment.Image) bool { return i.ID == base.ID }) {
		t.Error("an image that was pulled is listed")
	}
}

// TestSnapshotRefusesVolumes: commits leave volumes out, and the agent in one would be missing.
func TestSnapshotRefusesVolumes(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	from, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "volume", Context: fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM " + testImage + "\nVOLUME /opt/agent\nLABEL nonce=" + rand.Text() + "\n")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.api.ImageRemove(context.Background(), from, image.RemoveOptions{Force: true})
	_, err = snapshotOf(t, p, from, "echo >/opt/agent/file", environment.Labels{Job: "j"})
	if environment.KindOf(err) != environment.KindSnapshot || !strings.Contains(err.Error(), "VOLUME at /opt/agent") {
		t.Errorf("got %v", err)
	}
}

// TestSnapshotInspectsNamesThatAreNotUTF8: the engine's list of changes has them in another form
// than its stream of files.
func TestSnapshotInspectsNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage, Labels: environment.Labels{Job: "j"}})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Destroy(context.Background())
	if code, err := env.Exec(t.Context(), `printf secret >$'/opt/\xff\xc3x'`, environment.ExecOptions{}); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	seen := ""
	_, err = environment.Snapshot(t.Context(), env, environment.SnapshotOptions{Key: strings.Repeat("0", 64), Inspect: func(file *tar.Header, content io.Reader) error {
		if file.Name != "/opt/\xff\xc3x" {
			return nil
		}
		text, _ := io.ReadAll(content)
		seen = string(text)
		return io.ErrUnexpectedEOF // nothing is to be kept
	}})
	if seen != "secret" || err == nil {
		t.Errorf("it was inspected as %q, %v", seen, err)
	}
}

// TestForeignImagesAreNotRemoved: RemoveImage refuses images without Rollout's label.
func TestForeignImagesAreNotRemoved(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: rand.Text() + "/", Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := "foreign/" + strings.ToLower(rand.Text()) + ":1"
	imported, err := p.api.ImageImport(t.Context(), image.ImportSource{Source: &archive, SourceName: "-"}, name, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, imported)
	imported.Close()
	defer p.api.ImageRemove(context.Background(), name, image.RemoveOptions{})
	foreign, err := p.api.ImageInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveImage(t.Context(), foreign.ID); err == nil || !strings.Contains(err.Error(), "not made by rollout") {
		t.Errorf("RemoveImage: %v", err)
	}
	if _, err := p.api.ImageInspect(t.Context(), name); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}
