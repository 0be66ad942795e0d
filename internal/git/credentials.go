package git

import (
	"context"
	"encoding/base64"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// login is the header with the user's credentials for a remote, or "". There is one only for hosts that the user named, and
// over https: what a registry names must not decide where credentials go.
func (g *Client) login(r Remote) string {
	if r.transport != "https" || r.secret != "" || !slices.Contains(g.CredentialHosts, r.host) {
		return ""
	}
	g.mu.Lock()
	ask, known := g.logins[r.host]
	if !known {
		ask = sync.OnceValue(func() string { return g.credentials(r.host) })
		g.logins[r.host] = ask
	}
	g.mu.Unlock()
	return ask()
}

func (g *Client) credentials(host string) string {
	user, password := "x-access-token", ""
	server, err := url.Parse(g.getenv("GITHUB_SERVER_URL"))
	if host == "github.com" || err == nil && server.Host == host {
		password = g.getenv("GITHUB_TOKEN")
	}
	if password == "" {
		user, password = g.fromHelpers(host)
	}
	if password == "" {
		return ""
	}
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// fromHelpers asks the user's git, with the user's configuration, and without asking the user.
func (g *Client) fromHelpers(host string) (user, password string) {
	program, err := g.find()
	if err != nil {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "credential", "fill")
	cmd.Dir = "/"
	cmd.Env = append(slices.Clone(g.Environ), "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=")
	cmd.Stdin = strings.NewReader("protocol=https\nhost=" + host + "\n\n")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if value, ok := strings.CutPrefix(line, "username="); ok {
			user = value
		}
		if value, ok := strings.CutPrefix(line, "password="); ok {
			password = value
		}
	}
	return user, password
}
