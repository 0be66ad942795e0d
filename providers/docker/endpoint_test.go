package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFindEndpoint(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// printf remote | sha256sum
	const remote = "b71199ebd070b36beab7317920c2c2f1d777df8d05e5527d8458fda57cb17a7a"
	const plain = "a116c9ed46d6207734a43317d30fd88f52ac8634c37d904bbf4e41d865f90475"
	write("contexts/meta/"+remote+"/meta.json", `{"Name":"remote","Endpoints":{"docker":{"Host":"tcp://10.0.0.1:2376","SkipTLSVerify":false}}}`)
	write("contexts/tls/"+remote+"/docker/ca.pem", "x")
	write("contexts/meta/"+plain+"/meta.json", `{"Name":"plain","Endpoints":{"docker":{"Host":"unix:///run/user/1/docker.sock"}}}`)
	write("config.json", `{"auths":{},"currentContext":"plain"}`)

	for _, test := range []struct {
		name      string
		env       map[string]string
		host, tls string // tls is the name of the CA file, if there is TLS
		err       string
		sockets   []string // at which an engine listens
	}{
		{name: "DOCKER_HOST wins over contexts",
			env: map[string]string{"DOCKER_HOST": "tcp://h:1", "DOCKER_CONTEXT": "remote"}, host: "tcp://h:1"},
		{name: "DOCKER_CERT_PATH turns TLS on",
			env: map[string]string{"DOCKER_HOST": "tcp://h:1", "DOCKER_CERT_PATH": "/certs", "DOCKER_TLS_VERIFY": "1"}, host: "tcp://h:1", tls: "/certs/ca.pem"},
		{name: "DOCKER_CONTEXT wins over the configuration",
			env: map[string]string{"DOCKER_CONTEXT": "remote"}, host: "tcp://10.0.0.1:2376", tls: filepath.Join(dir, "contexts/tls", remote, "docker/ca.pem")},
		{name: "the configuration's context is used", host: "unix:///run/user/1/docker.sock"},
		{name: "the default context is the default socket",
			env: map[string]string{"DOCKER_CONTEXT": "default"}, host: "unix:///var/run/docker.sock"},
		{name: "no configuration is the default socket",
			env: map[string]string{"DOCKER_CONFIG": filepath.Join(dir, "none")}, host: "unix:///var/run/docker.sock"},
		{name: "without Docker's socket, that of Docker without root comes first",
			env:     map[string]string{"DOCKER_CONFIG": filepath.Join(dir, "none"), "XDG_RUNTIME_DIR": "/run/user/7"},
			sockets: []string{"/run/podman/podman.sock", "/run/user/7/podman/podman.sock", "/run/user/7/docker.sock"}, host: "unix:///run/user/7/docker.sock"},
		{name: "then that of Podman without root",
			env:     map[string]string{"DOCKER_CONFIG": filepath.Join(dir, "none"), "XDG_RUNTIME_DIR": "/run/user/7"},
			sockets: []string{"/run/podman/podman.sock", "/run/user/7/podman/podman.sock"}, host: "unix:///run/user/7/podman/podman.sock"},
		{name: "then that of the machine's Podman", env: map[string]string{"DOCKER_CONFIG": filepath.Join(dir, "none")},
			sockets: []string{"/run/podman/podman.sock"}, host: "unix:///run/podman/podman.sock"},
		{name: "Docker's socket wins over others", env: map[string]string{"DOCKER_CONFIG": filepath.Join(dir, "none")},
			sockets: []string{"/run/podman/podman.sock", "/var/run/docker.sock"}, host: "unix:///var/run/docker.sock"},
		{name: "the default context is Docker's socket, whatever else listens",
			env: map[string]string{"DOCKER_CONTEXT": "default"}, sockets: []string{"/run/podman/podman.sock"}, host: "unix:///var/run/docker.sock"},
		{name: "a context that is not there is an error that names it",
			env: map[string]string{"DOCKER_CONTEXT": "gone"}, err: `docker context "gone"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			at, err := findEndpoint(func(key string) string {
				if value, ok := test.env[key]; ok || key != "DOCKER_CONFIG" {
					return value
				}
				return dir
			}, func(socket string) bool { return slices.Contains(test.sockets, socket) })
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ca := ""
			if at.tls != nil {
				ca = at.tls.CAFile
			}
			if at.host != test.host || ca != test.tls {
				t.Errorf("host %q, CA %q; want %q, %q", at.host, ca, test.host, test.tls)
			}
		})
	}
}
