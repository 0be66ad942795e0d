package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentialsGoOnlyWhereTheUserSaid: a registry names addresses, and must not choose who gets them.
func TestCredentialsGoOnlyWhereTheUserSaid(t *testing.T) {
	home := t.TempDir()
	config := "[credential]\n\thelper = \"!f() { echo username=me; echo password=from-helper; }; f\"\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GITHUB_TOKEN=token", "GITHUB_SERVER_URL=https://ghe.example.org"}
	hosts := []string{"github.com", "ghe.example.org", "git.example.org", "git.example.org:8443"}
	const (
		token  = "Authorization: Basic eC1hY2Nlc3MtdG9rZW46dG9rZW4=" // x-access-token:token
		helper = "Authorization: Basic bWU6ZnJvbS1oZWxwZXI="         // me:from-helper
	)
	for _, tc := range []struct {
		name, url string
		hosts     []string
		want      string
	}{
		{"GitHub", "https://github.com/org/x", hosts, token},
		{"an enterprise's GitHub", "https://ghe.example.org/org/x", hosts, token},
		{"a host with a helper", "https://git.example.org/x", hosts, helper},
		{"with a port", "https://git.example.org:8443/x", hosts, helper},
		{"another port", "https://git.example.org:9999/x", hosts, ""},
		{"nobody said so", "https://github.com/org/x", nil, ""},
		{"another host", "https://github.com.evil.example/x", hosts, ""},
		{"in the clear", "http://github.com/org/x", hosts, ""},
		{"with others in the address", "https://a:b@github.com/org/x", hosts, ""},
		{"ssh", "ssh://git@github.com/org/x", hosts, ""},
	} {
		g := New(Options{Environ: env, CredentialHosts: tc.hosts})
		r, err := ParseRemote(tc.url, "", RemoteOnly)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.login(r); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		set := strings.Join(g.environment(call{dir: home, remote: r, network: true}), "\n")
		if has := strings.Contains(set, "Authorization"); has != (tc.want != "") {
			t.Errorf("%s: git gets credentials: %t", tc.name, has)
		}
		if local := strings.Join(g.environment(call{dir: home, remote: r}), "\n"); strings.Contains(local, "Authorization") || !strings.Contains(local, "GIT_ALLOW_PROTOCOL=none") {
			t.Errorf("%s: a git that talks to nobody may do so", tc.name)
		}
	}
}
