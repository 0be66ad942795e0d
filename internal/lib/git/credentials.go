package git

import (
	"context"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/lib/ghvars"
)

// login is a user's login for one host. The zero value means that there is none.
type login struct{ user, password string }

// The variables through which git gets a login.
const (
	userVariable     = "ROLLOUT_GIT_USERNAME"
	passwordVariable = "ROLLOUT_GIT_PASSWORD"
)

// answer is the credential helper that passes the login to git.
const answer = `!f() { test "$1" != get || printf 'username=%s\npassword=%s\n' "$` + userVariable + `" "$` + passwordVariable + `"; }; f`

// login returns the user's login for a remote, or the zero value. It returns one only for https and
// for hosts that the user listed: an address in a registry must not determine which host gets
// credentials.
func (g *Client) login(r Remote) login {
	if !g.named(r) || r.secret != "" {
		return login{}
	}
	g.mu.Lock()
	ask, known := g.logins[r.host]
	if !known {
		ask = sync.OnceValue(func() login { return g.credentials(r.host) })
		g.logins[r.host] = ask
	}
	g.mu.Unlock()
	return ask()
}

// named reports whether the remote uses https and its host is one of Options.CredentialHosts.
func (g *Client) named(r Remote) bool {
	return r.transport == "https" && slices.Contains(g.CredentialHosts, r.host)
}

// loginFor returns the configuration and environment that give git the login for a remote. The
// login comes from a credential helper for that one host, not from a header: git would also send a
// header to the host of a redirect.
func (g *Client) loginFor(r Remote) (config [][2]string, env []string) {
	l := g.login(r)
	switch {
	case l.password != "":
	case r.host == "", g.named(r):
		return nil, nil
	default:
		return nil, []string{"HOME=/dev/null"} // ~/.netrc may have a default login, for any host
	}
	return [][2]string{{"credential.https://" + r.host + ".helper", answer}},
		[]string{userVariable + "=" + l.user, passwordVariable + "=" + l.password, "HOME=/dev/null"}
}

func (g *Client) credentials(host string) login {
	l := login{user: "x-access-token"}
	vars := ghvars.Read(g.lookup)
	server, err := url.Parse(vars.ServerURL)
	if host == "github.com" || err == nil && server.Host == host {
		l.password = vars.Token
	}
	if l.password == "" {
		l.user, l.password = g.fromHelpers(host)
	}
	return l
}

// fromHelpers asks the credential helpers of the user's git configuration. It never prompts.
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
