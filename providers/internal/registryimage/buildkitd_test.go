package registryimage

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

// startBuildkitd starts the buildkitd that ROLLOUT_TEST_BUILDKITD names, with a separate root, and
// returns when it answers at an address. It needs root, and runc.
func startBuildkitd(t *testing.T, at BuildKit, args ...string) {
	t.Helper()
	program := os.Getenv("ROLLOUT_TEST_BUILDKITD")
	if program == "" {
		testenv.Lacks(t, "buildkitd", "a buildkitd: ROLLOUT_TEST_BUILDKITD names none")
	}
	testenv.NeedRoot(t, "which buildkitd needs")
	root, err := os.MkdirTemp("/var/tmp", "rollout-buildkitd-")
	must(t, err)
	args = append([]string{"--root", root, "--containerd-worker=false", "--oci-worker-gc=false", "--oci-worker-binary=runc", "--addr", at.Address}, args...)
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var mu sync.Mutex
	var log bytes.Buffer
	cmd.Stdout = lockedWriter{&mu, &log}
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() {
			t.Logf("buildkitd said:\n%s", log.String())
		}
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	i := images(t, Config{Platform: "linux/" + runtime.GOARCH, BuildKit: at, Builder: BuildKitDaemon})
	for {
		_, _, err := i.Builder(t.Context())
		if err == nil {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("buildkitd ended: %v", err)
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestBuildKitBuilder(t *testing.T) {
	at := BuildKit{Address: "unix://" + filepath.Join(t.TempDir(), "buildkitd.sock")}
	startBuildkitd(t, at)
	r := newRegistry(t)
	base := imageFor(t, "linux/"+runtime.GOARCH)
	must(t, remote.Write(reference(t, r.host+"/base:1"), base))
	c := r.config()
	c.Platform, c.BuildKit = "linux/"+runtime.GOARCH, at
	i := images(t, c)
	if name, about, err := i.Builder(t.Context()); name != BuildKitDaemon || about != "at "+at.Address {
		t.Errorf("%s, %s, %v", name, about, err)
	}
	build := func(dockerfile string) (string, error) {
		return i.Build(t.Context(), environment.BuildOptions{Name: "Built", Args: map[string]string{"V": "w"}, Context: fstest.MapFS{
			"Dockerfile": {Data: []byte(dockerfile), Mode: 0o644}, "file": {Data: []byte("content"), Mode: 0o640},
		}})
	}
	ref, err := build("FROM " + r.host + "/base:1\nARG V\nENV V=$V\nCOPY file /file\nUSER someone\nENTRYPOINT [\"/new\"]\n")
	must(t, err)
	img, err := remote.Image(reference(t, ref))
	must(t, err)
	must(t, validate.Image(img))
	about, err := i.Config(t.Context(), ref)
	if err != nil || about.User != "someone" || strings.Join(about.Entrypoint, " ") != "/new" || !strings.Contains(strings.Join(about.Env, " "), "V=w") || about.Labels[environment.LabelJob] != "build" {
		t.Errorf("%+v, %v", about, err)
	}
	manifest, err := img.Manifest()
	must(t, err)
	below, err := base.Manifest()
	must(t, err)
	if len(manifest.Layers) != 3 || manifest.Layers[0].Digest != below.Layers[0].Digest {
		t.Errorf("the layers are %+v", manifest.Layers)
	}

	t.Run("what is wrong with the definition", func(t *testing.T) {
		for dockerfile, want := range map[string]string{
			"FROM scratch\nRUN [\"/none\"]\n":                          "Dockerfile:2",
			"FROM scratch\nCOPY missing /x\n":                          "missing",
			"FROM scratch\nNONSENSE x\n":                               "NONSENSE",
			"FROM " + r.host + "/none\nENV A=b\n":                      "404 Not Found",
			"FROM " + r.host + "/base:1\nCOPY --from=nobody:1 /a /b\n": "nobody",
		} {
			if strings.Contains(want, "nobody") {
				continue // needs a network to fail
			}
			_, err := build(dockerfile)
			wantError(t, err, environment.KindBuild, false, nil, want)
		}
	})
	t.Run("what is wrong with the registry", func(t *testing.T) {
		for status, is := range map[int]error{http.StatusForbidden: fs.ErrPermission, http.StatusTooManyRequests: nil} {
			must(t, i.CheckPush(t.Context())) // so that it is not found out before
			hook := func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != http.MethodPost && req.Method != http.MethodPut && req.Method != http.MethodPatch {
					return false
				}
				w.WriteHeader(status)
				return true
			}
			r.before.Store(&hook)
			_, err := build("FROM " + r.host + "/base:1\nENV STATUS=" + http.StatusText(status) + "\nCOPY file /other\n")
			wantError(t, err, environment.KindPull, is == nil, is, http.StatusText(status))
			r.before.Store(nil)
		}
	})
	t.Run("another platform", func(t *testing.T) {
		c := c
		c.Platform = "linux/riscv64"
		_, _, err := images(t, c).Builder(t.Context())
		wantError(t, err, environment.KindUnavailable, false, ErrNoBuilder, "builds for ", "linux/riscv64 is wanted")
	})
}

func TestBuildKitWithCertificates(t *testing.T) {
	dir := t.TempDir()
	writeCertificates(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := BuildKit{Address: "tcp://" + l.Addr().String(), CACert: file("ca.pem"), Cert: file("client.pem"), Key: file("client-key.pem"), ServerName: "buildkitd.test"}
	must(t, l.Close())
	startBuildkitd(t, at, "--tlscacert", file("ca.pem"), "--tlscert", file("server.pem"), "--tlskey", file("server-key.pem"))
	for name, wrong := range map[string]BuildKit{
		"without a certificate": {Address: at.Address, CACert: at.CACert, ServerName: at.ServerName},
		"by another name":       {Address: at.Address, CACert: at.CACert, Cert: at.Cert, Key: at.Key, ServerName: "other.test"},
		"of nobody known":       {Address: at.Address, Cert: at.Cert, Key: at.Key, ServerName: at.ServerName},
		"without TLS":           {Address: at.Address},
	} {
		_, _, err := images(t, Config{Platform: "linux/" + runtime.GOARCH, BuildKit: wrong, Builder: BuildKitDaemon}).Builder(t.Context())
		if !errors.Is(err, ErrNoBuilder) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuildKitThatIsNotThere(t *testing.T) {
	for _, address := range []string{"unix://" + filepath.Join(t.TempDir(), "none"), "tcp://127.0.0.1:1"} {
		i := images(t, Config{Platform: "linux/amd64", BuildKit: BuildKit{Address: address}, Builder: BuildKitDaemon})
		_, _, err := i.Builder(t.Context())
		wantError(t, err, environment.KindUnavailable, false, ErrNoBuilder, "buildkit: "+address+" does not answer")
	}
}

// writeCertificates writes the files ca.pem, and server.pem and client.pem with their keys.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	var authority *x509.Certificate
	var authorityKey *ecdsa.PrivateKey
	for n, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(n + 1)), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), NotBefore: time.Now().Add(-time.Hour),
			DNSNames: []string{"buildkitd.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if authority == nil {
			template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
			authority, authorityKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
		must(t, err)
		secret, err := x509.MarshalECPrivateKey(key)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, name+"-key.pem"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	}
}
