package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// begin starts a registry with images, each as NAME=FILE, and returns its address.
func begin(t *testing.T, images ...string) string {
	t.Helper()
	handler := newHandler(t.TempDir())
	if err := push(t.Context(), handler, images); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, handler, "127.0.0.1:0", func(address string) error {
			at <- address
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case address := <-at:
		return address
	case err := <-ended:
		ended <- err
		t.Fatal("the registry ended at once")
		return ""
	}
}

func parse(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestArchivesBecomeImages(t *testing.T) {
	image, err := random.Image(1<<10, 3)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(archive, parse(t, "some:tag"), image); err != nil {
		t.Fatal(err)
	}
	got, err := remote.Image(parse(t, begin(t, "team/debian:bookworm="+archive)+"/team/debian:bookworm"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if id, err := got.ConfigName(); err != nil || id != want {
		t.Errorf("the image is %v, %v, but %v was given", id, err, want)
	}
}

func TestProgramsBecomeImages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(file, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(parse(t, begin(t, "pause:1="+file)+"/pause:1"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/program" || config.OS != "linux" {
		t.Errorf("on %s it runs %q", config.OS, got)
	}
	files := mutate.Extract(image)
	defer files.Close()
	all, err := io.ReadAll(files)
	if err != nil || !strings.Contains(string(all), "a program") {
		t.Errorf("the program is not in the image, %v", err)
	}
}

func TestPushesArePulled(t *testing.T) {
	image, err := random.Image(1<<10, 2)
	if err != nil {
		t.Fatal(err)
	}
	ref := parse(t, begin(t)+"/built/by:key")
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	got, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := image.Digest()
	if digest, err := got.Digest(); err != nil || digest != want {
		t.Errorf("%v was pulled, %v, but %v was pushed", digest, err, want)
	}
}

func TestSomeRepositoriesFail(t *testing.T) {
	address := begin(t)
	for repository, want := range map[string]int{
		"limited/debian": http.StatusTooManyRequests,
		"denied/debian":  http.StatusUnauthorized,
		"missing/debian": http.StatusNotFound,
	} {
		_, err := remote.Image(parse(t, address+"/"+repository+":1"), remote.WithRetryStatusCodes())
		var failed *transport.Error
		if !errors.As(err, &failed) || failed.StatusCode != want {
			t.Errorf("%s: %v, not status %d", repository, err, want)
		}
	}
}

func TestBrokenImagesAreReported(t *testing.T) {
	for _, arg := range []string{"no-file", "debian:bookworm=" + filepath.Join(t.TempDir(), "missing.tar"), "UPPER:1=/dev/null"} {
		if err := run(t.Context(), "127.0.0.1:0", t.TempDir(), []string{arg}); err == nil {
			t.Errorf("%q was taken", arg)
		}
	}
	if err := run(t.Context(), "127.0.0.1:0", "", nil); err == nil {
		t.Error("no directory was taken")
	}
}
