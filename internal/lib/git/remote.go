package git

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Remote is a repository to fetch from. Get one from ParseRemote; the zero value is not valid.
type Remote struct {
	url       string
	transport string // https, http, ssh, git or file
	host      string // with the port; of https and http
	shown     string
	id        string
	secret    string // the credentials, never shown; "" if there are none
}

// Trust defines which repositories a registry may name.
type Trust bool

// Levels of trust.
const (
	RemoteOnly Trust = false // only on servers
	AllowLocal Trust = true  // also directories of this machine
)

// scpLike is user@host:path, which is ssh. Source: git-fetch(1), "GIT URLS".
var scpLike = regexp.MustCompile(`^(?:([A-Za-z0-9_.][A-Za-z0-9_.-]*)@)?([A-Za-z0-9_.][A-Za-z0-9_.-]*|\[[0-9a-fA-F:]+\]):([^-:].*)$`)

const maxURL = 2048

// ParseRemote parses a git_url. Relative paths are resolved against dir, an absolute path; paths
// and file:// URLs need AllowLocal. The error is a predicate ("is empty") and contains no
// credentials.
func ParseRemote(text, dir string, trust Trust) (Remote, error) {
	switch {
	case text == "":
		return Remote{}, errors.New("is empty")
	case len(text) > maxURL:
		return Remote{}, fmt.Errorf("is longer than %d bytes", maxURL)
	case !utf8.ValidString(text), strings.ContainsFunc(text, unicode.IsControl):
		return Remote{}, errors.New("contains characters that are not valid in an address")
	case strings.HasPrefix(text, "-"):
		return Remote{}, errors.New("begins with a dash")
	}
	scheme, rest, hasScheme := strings.Cut(text, "://")
	before, _, _ := strings.Cut(text, "/")
	switch {
	case strings.Contains(before, "::"):
		return Remote{}, fmt.Errorf("uses git's transport %q, which is not allowed (use https, ssh or git)", safe(strings.SplitN(text, "::", 2)[0]))
	case hasScheme && scheme == "file":
		return local(rest, text, "", trust)
	case hasScheme:
		return parseURL(text)
	}
	if m := scpLike.FindStringSubmatch(text); m != nil {
		return Remote{url: text, transport: "ssh", shown: safe(text), id: text}, nil
	}
	return local(text, text, dir, trust)
}

func parseURL(text string) (Remote, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Remote{}, errors.New("is not a URL")
	}
	switch u.Scheme {
	case "https", "http", "ssh", "git":
	default:
		return Remote{}, fmt.Errorf("uses the transport %q, which is not allowed (use https, ssh or git)", safe(u.Scheme))
	}
	name, password := u.User.Username(), ""
	if u.User != nil {
		password, _ = u.User.Password()
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(name, "-") || strings.HasPrefix(u.Path, "/-") && u.Scheme != "https" && u.Scheme != "http" {
		return Remote{}, errors.New("has no proper host, user or path")
	}
	r := Remote{url: text, transport: u.Scheme}
	if u.Scheme == "http" || u.Scheme == "https" {
		r.host = u.Host
		// A token may be the user name or the password.
		if u.User != nil {
			r.secret = u.User.String()
		}
		u.User = nil
	} else if password != "" {
		r.secret = password
		u.User = url.User(name)
	}
	r.id = u.String()
	r.shown = safe(r.id)
	return r, nil
}

// local returns the Remote for a directory of this machine.
func local(path, text, dir string, trust Trust) (Remote, error) {
	if trust != AllowLocal {
		return Remote{}, errors.New("is a directory of this machine, which only a registry on this machine may name (use https, ssh or git)")
	}
	if !filepath.IsAbs(path) {
		if dir == "" {
			return Remote{}, errors.New("is not a URL with a host, nor an absolute path")
		}
		path = filepath.Join(dir, path)
	}
	return Remote{url: path, transport: "file", shown: safe(text), id: "file:" + path}, nil
}

// String returns the address on one line, without credentials, cut if it is long.
func (r Remote) String() string { return r.shown }

// ID identifies the repository. Unlike String, it is not cut; it has no credentials, so it does not
// depend on them.
func (r Remote) ID() string { return r.id }

// allowed returns the transports that git may use, in the form of GIT_ALLOW_PROTOCOL. A redirect
// never leads to a weaker one.
func (r Remote) allowed() string {
	if r.transport == "http" {
		return "http:https"
	}
	return r.transport
}
