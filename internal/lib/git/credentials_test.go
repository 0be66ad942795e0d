package git

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A registry chooses addresses; it must not choose who gets credentials.
func TestOnlyListedHostsGetCredentials(t *testing.T) {
	home := t.TempDir()
	config := "[credential]\n\thelper = \"!f() { echo username=me; echo password=from-helper; }; f\"\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GITHUB_TOKEN=token", "GITHUB_SERVER_URL=https://ghe.example.org"}
	hosts := []string{"github.com", "ghe.example.org", "git.example.org", "git.example.org:8443"}
	token, helper, nothing := login{"x-access-token", "token"}, login{"me", "from-helper"}, login{}
	for _, tc := range []struct {
		name, url string
		hosts     []string
		want      login
	}{
		{"GitHub", "https://github.com/org/x", hosts, token},
		{"an enterprise's GitHub", "https://ghe.example.org/org/x", hosts, token},
		{"a host with a helper", "https://git.example.org/x", hosts, helper},
		{"a listed host with a port", "https://git.example.org:8443/x", hosts, helper},
		{"another port", "https://git.example.org:9999/x", hosts, nothing},
		{"no host is listed", "https://github.com/org/x", nil, nothing},
		{"another host", "https://github.com.evil.example/x", hosts, nothing},
		{"without TLS", "http://github.com/org/x", hosts, nothing},
		{"credentials in the address", "https://a:b@github.com/org/x", hosts, nothing},
		{"ssh", "ssh://git@github.com/org/x", hosts, nothing},
	} {
		g := New(Options{Environ: env, CredentialHosts: tc.hosts})
		r, err := ParseRemote(tc.url, "", RemoteOnly)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.login(r); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		set := strings.Join(g.environment(call{dir: home, remote: r, network: true}), "\n")
		if has := strings.Contains(set, "ROLLOUT_GIT_PASSWORD="); has != (tc.want != nothing) {
			t.Errorf("%s: git got credentials: %t", tc.name, has)
		}
		if local := strings.Join(g.environment(call{dir: home, remote: r}), "\n"); strings.Contains(local, "ROLLOUT_GIT_PASSWORD=") || !strings.Contains(local, "GIT_ALLOW_PROTOCOL=none") {
			t.Errorf("%s: a call without network may use it", tc.name)
		}
	}
}

// asking starts a server that requires a login; got returns the ones that it received.
func asking(t *testing.T, start func(http.Handler) *httptest.Server) (server *httptest.Server, got func() string) {
	var mu sync.Mutex
	var all []string
	server = start(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if header := req.Header.Get("Authorization"); header != "" {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, req.Host+" "+header)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	return server, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(all, "\n")
	}
}

// A default entry in .netrc would otherwise go to every server that asks.
func TestOnlyListedHostsGetNetrc(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".netrc"), []byte("default login me password secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	named, gotNamed := asking(t, httptest.NewTLSServer)
	stranger, gotStranger := asking(t, httptest.NewTLSServer)
	clear, gotClear := asking(t, httptest.NewServer)
	g := New(Options{
		RetryDelay: time.Millisecond, CredentialHosts: []string{strings.TrimPrefix(named.URL, "https://"), strings.TrimPrefix(clear.URL, "http://")},
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_SSL_CAINFO=" + authority(t, named)},
	})
	for _, url := range []string{named.URL, stranger.URL, clear.URL} {
		r, err := ParseRemote(url+"/x.git", "", RemoteOnly)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Resolve(t.Context(), r, "main", t.TempDir()); err == nil {
			t.Error("want an error")
		}
	}
	if !strings.Contains(gotNamed(), "Basic bWU6c2VjcmV0") { // me:secret
		t.Errorf("the listed host got %q", gotNamed())
	}
	if gotStranger() != "" || gotClear() != "" {
		t.Errorf("a host that is not listed got %q, and one without TLS %q", gotStranger(), gotClear())
	}
}

// authority writes the certificate of a server to a file and returns its path.
func authority(t *testing.T, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A trusted host may redirect to one that is not, and redirects must work, for renamed
// repositories.
func TestCredentialsDoNotFollowRedirects(t *testing.T) {
	evil, stolen := asking(t, httptest.NewTLSServer)
	var advertised atomic.Bool
	evil.Config.Handler = first(advertise(&advertised), evil.Config.Handler)
	good, got := asking(t, httptest.NewTLSServer)
	good.Config.Handler = first(func(w http.ResponseWriter, req *http.Request) bool {
		to, away := strings.CutPrefix(req.URL.Path, "/away/")
		if away {
			http.Redirect(w, req, evil.URL+"/"+to+"?"+req.URL.RawQuery, http.StatusFound)
		}
		if old, renamed := strings.CutPrefix(req.URL.Path, "/old/"); renamed {
			http.Redirect(w, req, "/new/"+old+"?"+req.URL.RawQuery, http.StatusMovedPermanently)
			return true
		}
		return away
	}, good.Config.Handler)
	host := strings.TrimPrefix(good.URL, "https://")
	g := New(Options{
		CredentialHosts: []string{host}, RetryDelay: time.Millisecond,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "GIT_SSL_CAINFO=" + authority(t, good), "GITHUB_TOKEN=token", "GITHUB_SERVER_URL=" + good.URL},
	})
	for _, path := range []string{"/away/x.git", "/old/x.git"} {
		r, err := ParseRemote(good.URL+path, "", RemoteOnly)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Resolve(t.Context(), r, "main", t.TempDir()); err == nil {
			t.Error("want an error")
		}
	}
	if !advertised.Load() || stolen() != "" {
		t.Errorf("the other server was reached: %t; it got %s", advertised.Load(), stolen())
	}
	if want := host + " Basic eC1hY2Nlc3MtdG9rZW46dG9rZW4="; !strings.Contains(got(), want) { // x-access-token:token
		t.Errorf("the listed host got %q, want %q", got(), want)
	}
}

// first calls next for requests that try does not answer.
func first(try func(http.ResponseWriter, *http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !try(w, req) {
			next.ServeHTTP(w, req)
		}
	})
}

// advertise answers the request for the repository's branches without a login.
func advertise(done *atomic.Bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodGet || req.Header.Get("Authorization") != "" {
			return false
		}
		done.Store(true)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		for _, line := range []string{"# service=git-upload-pack\n", "", "version 2\n", "ls-refs\n", "fetch=shallow\n", ""} {
			if line == "" {
				fmt.Fprint(w, "0000")
				continue
			}
			fmt.Fprintf(w, "%04x%s", len(line)+4, line)
		}
		return true
	}
}
