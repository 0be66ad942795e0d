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

// Remote is a repository that may be fetched from. The zero value is none; see ParseRemote.
type Remote struct {
	url       string
	transport string // https, http, ssh, git or file
	host      string // with the port; of https and http
	shown     string
	id        string
	secret    string // what must not be shown; "" if there is nothing
}

// Trust says whence a repository may come that a registry names.
type Trust bool

// How far registries are trusted.
const (
	RemoteOnly  Trust = false // servers only: the registry is somebody else's
	LocalAsWell Trust = true  // also directories of this machine
)

// scpLike is user@host:path, which is ssh. Source: git-fetch(1), "GIT URLS".
var scpLike = regexp.MustCompile(`^(?:([A-Za-z0-9_.][A-Za-z0-9_.-]*)@)?([A-Za-z0-9_.][A-Za-z0-9_.-]*|\[[0-9a-fA-F:]+\]):([^-:].*)$`)

const maxURL = 2048

// ParseRemote checks a git_url. Relative paths begin at dir, an absolute path; they and file:// need LocalAsWell. The error
// is about the text alone and does not show credentials.
func ParseRemote(text, dir string, trust Trust) (Remote, error) {
	switch {
	case text == "":
		return Remote{}, errors.New("is empty")
	case len(text) > maxURL:
		return Remote{}, fmt.Errorf("is longer than %d bytes", maxURL)
	case !utf8.ValidString(text), strings.ContainsFunc(text, unicode.IsControl):
		return Remote{}, errors.New("holds characters that no address has")
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
		// A token may be the name as well as the password.
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

// local is a repository in a directory of this machine.
func local(path, text, dir string, trust Trust) (Remote, error) {
	if trust != LocalAsWell {
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

// String is the remote as people may see it: on one line and without credentials.
func (r Remote) String() string { return r.shown }

// ID tells repositories apart, unlike what is shown, which is cut. It has no credentials, so that who fetches with other ones
// finds the same.
func (r Remote) ID() string { return r.id }

// allowed are the transports that git may use, also after a redirect: never a weaker one.
func (r Remote) allowed() string {
	if r.transport == "http" {
		return "http:https"
	}
	return r.transport
}
