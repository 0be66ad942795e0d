package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"
)

// endpoint is where an engine listens.
type endpoint struct {
	host   string             // e.g. unix:///var/run/docker.sock
	tls    *tlsconfig.Options // nil: none
	source string             // where the setting comes from, for printing
}

// findEndpoint decides as the docker command does: DOCKER_HOST (with DOCKER_CERT_PATH and
// DOCKER_TLS_VERIFY), or the context that DOCKER_CONTEXT or config.json names, or the default
// socket. If none of them says where and there is no engine at the default socket, it takes the
// first of otherSockets at which one listens.
func findEndpoint(getenv func(string) string, listens func(socket string) bool) (endpoint, error) {
	if host := getenv(client.EnvOverrideHost); host != "" {
		return endpoint{host: host, tls: tlsFromEnv(getenv), source: client.EnvOverrideHost}, nil
	}
	dir := configDir(getenv)
	name := getenv("DOCKER_CONTEXT")
	if name == "" {
		var err error
		if name, err = currentContext(dir); err != nil {
			return endpoint{}, err
		}
	}
	if name == "" && !listens(strings.TrimPrefix(client.DefaultDockerHost, "unix://")) {
		for _, other := range otherSockets(getenv) {
			if listens(other) {
				return endpoint{host: "unix://" + other, source: "the socket " + other}, nil
			}
		}
	}
	if name == "" || name == "default" {
		return endpoint{host: client.DefaultDockerHost, tls: tlsFromEnv(getenv), source: "the default socket"}, nil
	}
	at, err := namedEndpoint(dir, name)
	if err != nil {
		return endpoint{}, fmt.Errorf("read docker context %q: %w", name, err)
	}
	return at, nil
}

// otherSockets returns where engines listen that are not the machine's Docker: Docker without root,
// Podman without root, and the machine's Podman. Sources: docs.docker.com/engine/security/rootless,
// and podman-system-service(1).
func otherSockets(getenv func(string) string) []string {
	runtimeDir := cmp.Or(getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", os.Getuid()))
	return []string{filepath.Join(runtimeDir, "docker.sock"), filepath.Join(runtimeDir, "podman", "podman.sock"), "/run/podman/podman.sock"}
}

// listens reports whether this user can connect to a socket.
func listens(socket string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func tlsFromEnv(getenv func(string) string) *tlsconfig.Options {
	dir := getenv(client.EnvOverrideCertPath)
	if dir == "" {
		return nil
	}
	options := tlsFiles(dir)
	options.InsecureSkipVerify = getenv(client.EnvTLSVerify) == ""
	return &options
}

func tlsFiles(dir string) tlsconfig.Options {
	return tlsconfig.Options{
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile:  filepath.Join(dir, "key.pem"),
	}
}

// configDir returns where the docker command keeps its configuration; "" if nowhere.
func configDir(getenv func(string) string) string {
	if dir := getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// currentContext returns the context that config.json selects; "" if none does.
func currentContext(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	name := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var config struct{ CurrentContext string }
	if err := cmp.Or(err, json.Unmarshal(data, &config)); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return config.CurrentContext, nil
}

// namedEndpoint reads a context from the store of the docker command. Source:
// github.com/docker/cli, cli/context/store: directories are named after the hash of the context's
// name.
func namedEndpoint(dir, name string) (endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	data, err := os.ReadFile(filepath.Join(dir, "contexts", "meta", id, "meta.json"))
	if err != nil {
		return endpoint{}, err
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return endpoint{}, err
	}
	docker, ok := meta.Endpoints["docker"]
	if !ok || docker.Host == "" {
		return endpoint{}, errors.New("it has no docker endpoint")
	}
	at := endpoint{host: docker.Host, source: fmt.Sprintf("docker context %q", name)}
	files := tlsFiles(filepath.Join(dir, "contexts", "tls", id, "docker"))
	found := false
	for _, file := range []*string{&files.CAFile, &files.CertFile, &files.KeyFile} {
		if _, err := os.Stat(*file); err == nil {
			found = true
		} else {
			*file = ""
		}
	}
	if found || docker.SkipTLSVerify {
		files.InsecureSkipVerify = docker.SkipTLSVerify
		at.tls = &files
	}
	return at, nil
}
