// Testregistry is a container registry for tests that need one outside of their own process, such
// as those with a real Kubernetes node. It begins with the images that it is given, takes pushes,
// and forgets everything when it ends. It answers once it has all of its images:
//
//	go run ./internal/test/testregistry -listen 127.0.0.1:15000 -blobs DIR \
//	    debian:bookworm=IMAGE.tar pause:1=PROGRAM
//
// A file that ends in .tar is the output of docker save. Any other file is a static program: the
// image has nothing else. Some requests fail as they do in real registries: in repositories below
// limited/ for too many requests, and below denied/ for want of credentials.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:15000", "address")
	blobs := flag.String("blobs", "", "an empty directory for layers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *blobs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "testregistry:", err)
		os.Exit(1) //nolint:gocritic // the context ends with the process
	}
}

// run serves a registry with the images, each as NAME=FILE, until ctx ends.
func run(ctx context.Context, listen, blobs string, images []string) error {
	if blobs == "" {
		return errors.New("-blobs is missing")
	}
	handler := newHandler(blobs)
	if err := push(ctx, handler, images); err != nil {
		return err
	}
	return serve(ctx, handler, listen, func(address string) error {
		fmt.Fprintln(os.Stderr, "listening on", address)
		<-ctx.Done()
		return nil
	})
}

// newHandler returns a registry that keeps layers in a directory.
func newHandler(blobs string) http.Handler {
	inner := registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)),
		registry.Logger(log.New(io.Discard, "", 0)),
	)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/v2/limited/"):
			refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "you have reached your pull rate limit")
		case strings.HasPrefix(path, "/v2/denied/"):
			w.Header().Set("WWW-Authenticate", `Basic realm="denied"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		default:
			inner.ServeHTTP(w, r)
		}
	})
}

// refuse answers with an error in the format of the distribution specification.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}

// serve serves handler at an address while during runs, which receives the address with its port.
func serve(ctx context.Context, handler http.Handler, listen string, during func(address string) error) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	err = during(listener.Addr().String())
	err = errors.Join(err, server.Close())
	if serving := <-ended; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

// push puts the images, each as NAME=FILE, into a registry before it is reachable from outside.
func push(ctx context.Context, handler http.Handler, images []string) error {
	return serve(ctx, handler, "127.0.0.1:0", func(address string) error {
		for _, arg := range images {
			as, file, ok := strings.Cut(arg, "=")
			if !ok {
				return fmt.Errorf("%q is not NAME=FILE", arg)
			}
			ref, err := name.ParseReference(address + "/" + as)
			if err != nil {
				return err
			}
			image, err := read(file)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := remote.Write(ref, image, remote.WithContext(ctx)); err != nil {
				return fmt.Errorf("push %s: %w", as, err)
			}
		}
		return nil
	})
}

// read returns the image in the output of docker save, or builds one from a program.
func read(file string) (v1.Image, error) {
	if filepath.Ext(file) == ".tar" {
		return tarball.ImageFromPath(file, nil)
	}
	return program(file)
}

// program returns an image that contains and runs only a static program.
func program(file string) (v1.Image, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(data))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{"/program"}
	return mutate.ConfigFile(image, config)
}
