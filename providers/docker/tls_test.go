package docker

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

// TestTLS reaches the engine through TLS with client certificates, as remote engines want it.
func TestTLS(t *testing.T) {
	direct := newProvider(t, nil)
	socket, ok := strings.CutPrefix(direct.api.DaemonHost(), "unix://")
	if !ok {
		t.Skip("needs an engine behind a Unix socket")
	}
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	dir := writeCertificate(t, server.TLS.Certificates[0])
	authority := x509.NewCertPool()
	authority.AddCert(server.Certificate())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: server.TLS.Certificates, ClientCAs: authority, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) // after those of environments and images
	go forward(listener, socket)

	t.Setenv("DOCKER_HOST", "tcp://"+listener.Addr().String())
	if _, err := New(t.Context(), nil); environment.KindOf(err) != environment.KindUnavailable {
		t.Errorf("without TLS: %v", err)
	}
	t.Setenv("DOCKER_CERT_PATH", dir)
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	p, err := New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	env := newEnvironment(t, p, environment.CreateOptions{})
	if got := run(t, env, "echo through TLS"); got != "through TLS\n" {
		t.Errorf("got %q", got)
	}
	var out strings.Builder
	_, err = env.Exec(t.Context(), "cat", environment.ExecOptions{Stdin: strings.NewReader("input"), Stdout: &out})
	if err != nil || out.String() != "input" {
		t.Errorf("%q, %v", &out, err)
	}
	buildImage(t, p, map[string]string{"Dockerfile": "FROM " + testImage + "\n# " + t.Name() + "\n"})
}

func writeCertificate(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	if err := errors.Join(err,
		os.WriteFile(filepath.Join(dir, "ca.pem"), public, 0o600),
		os.WriteFile(filepath.Join(dir, "cert.pem"), public, 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), private, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

// forward passes connections on to a socket.
func forward(listener net.Listener, socket string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		engine, err := net.Dial("unix", socket)
		if err != nil {
			client.Close()
			continue
		}
		pass := func(to, from net.Conn) {
			if _, err := io.Copy(to, from); err != nil {
				from.Close()
			}
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		}
		go pass(engine, client)
		go pass(client, engine)
	}
}
