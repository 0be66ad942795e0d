package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options configure a Client. The zero value is for production.
type Options struct {
	Environ []string // the environment, as NAME=value; nil: this process's
	// CredentialHosts are the hosts that get the user's credentials over https: the login that the
	// user's git would use without a prompt, or $GITHUB_TOKEN for GitHub.
	CredentialHosts []string
	Timeout         time.Duration // of one command, and of resolving or exporting one commit; 0: 30 minutes
	Stall           time.Duration // maximum time of an HTTP transfer below minBytesPerSecond; 0: two minutes
	RetryDelay      time.Duration // before the first retry of an unreachable repository, then doubling; 0: a second
	MaxBytes        int64         // of one fetch, and of one exported directory; 0: 16 GiB
	MaxFiles        int           // in one exported directory; 0: 100,000
	// Memory limits, on Linux, each git that reads a repository of this machine, in bytes; 0: 2
	// GiB. A tree of a few kilobytes can name billions of files, and git holds all that a commit
	// changes in memory.
	Memory int64
}

// minBytesPerSecond is the minimum average speed of an HTTP transfer over Options.Stall: above that
// of a server that drips single bytes, and at most that of a busy server's progress messages.
const minBytesPerSecond = 20

// Client runs git. It is safe for concurrent use.
type Client struct {
	Options
	find   func() (string, error)
	mu     sync.Mutex
	logins map[string]func() login // by host
}

// New returns a Client. It looks for git on first use.
func New(opts Options) *Client {
	if opts.Environ == nil {
		opts.Environ = os.Environ()
	}
	set(&opts.Timeout, 30*time.Minute)
	set(&opts.Stall, 2*time.Minute)
	set(&opts.RetryDelay, time.Second)
	set(&opts.MaxBytes, 16<<30)
	set(&opts.MaxFiles, 100_000)
	set(&opts.Memory, 2<<30)
	g := &Client{Options: opts, logins: map[string]func() login{}}
	g.find = sync.OnceValues(g.findGit)
	return g
}

func set[T comparable](value *T, fallback T) {
	if *value == *new(T) {
		*value = fallback
	}
}

// ErrNoGit means that git is missing, or too old to run safely.
var ErrNoGit = errors.New("git is needed, in version 2.32 or newer")

// findGit returns the path of git. It rejects versions before 2.32, which ignore GIT_CONFIG_GLOBAL
// and GIT_CONFIG_COUNT, and so the configuration that this package gives them.
func (g *Client) findGit() (string, error) {
	path, err := lookPath("git", g.getenv("PATH"))
	if err != nil {
		return "", fmt.Errorf("%w: it is not installed, or not on the PATH", ErrNoGit)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = slices.Concat(g.inherited(), hardened)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: git version: %w", ErrNoGit, err)
	}
	if version := strings.TrimSpace(string(out)); !recent(version) {
		return "", fmt.Errorf("%w: this is %s", ErrNoGit, safe(version))
	}
	return path, nil
}

// Version returns the version that git states, such as "git version 2.39.5". The error is ErrNoGit
// if there is none that is new enough.
func (g *Client) Version(ctx context.Context) (string, error) {
	out, err := g.run(ctx, call{args: []string{"version"}})
	if err != nil {
		return "", err
	}
	return safe(strings.TrimSpace(string(out))), nil
}

// recent reports whether "git version 2.39.5 (…)" is new enough.
func recent(version string) bool {
	numbers := strings.Split(strings.TrimPrefix(version, "git version "), ".")
	if len(numbers) < 2 {
		return false
	}
	major, err := strconv.Atoi(numbers[0])
	minor, err2 := strconv.Atoi(numbers[1])
	return err == nil && err2 == nil && (major > 2 || major == 2 && minor >= 32)
}

func (g *Client) getenv(name string) string {
	value, _ := g.lookup(name)
	return value
}

// lookup is os.LookupEnv in the client's environment.
func (g *Client) lookup(name string) (string, bool) {
	for _, v := range slices.Backward(g.Environ) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// kept are git's own variables that are passed on: how to reach servers is up to the user.
var kept = []string{
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY",
	"GIT_PROXY_SSL_CAINFO", "GIT_EXEC_PATH",
}

// inherited returns the user's environment without variables that could redirect git or make it
// prompt.
func (g *Client) inherited() []string {
	return slices.DeleteFunc(slices.Clone(g.Environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case slices.Contains(kept, name):
			return false
		case name == "SSH_ASKPASS", name == "LANGUAGE", strings.HasPrefix(name, "LC_"), name == "LANG":
			return true
		}
		return strings.HasPrefix(name, "GIT_")
	})
}

// hardened is part of the environment of every git: no configuration but ours, no prompts, no
// commands that a repository names. Source: git(1), git-config(1).
var hardened = []string{
	"LC_ALL=C",
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS_REQUIRE=never",
	"GIT_LFS_SKIP_SMUDGE=1", "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0",
}

// config returns the configuration of every git.
func (g *Client) config() [][2]string {
	return [][2]string{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.askPass", ""},
		{"credential.helper", ""},
		{"http.emptyAuth", "false"}, // do not use the user's Kerberos tickets
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"submodule.recurse", "false"},
		{"fetch.recurseSubmodules", "false"},
		// With negotiation, a server would omit the contents that a partial fetch left out, as we
		// claim to have the commit.
		{"fetch.negotiationAlgorithm", "noop"},
		{"transfer.bundleURI", "false"},
		{"http.lowSpeedLimit", strconv.Itoa(minBytesPerSecond)},
		{"http.lowSpeedTime", strconv.Itoa(max(1, int(g.Stall/time.Second)))},
		{"init.defaultBranch", "none"},
	}
}

// lookPath finds a program in the directories of path. Unlike exec.LookPath, it does not read this
// process's PATH.
func lookPath(name, path string) (string, error) {
	for _, dir := range strings.Split(path, string(os.PathListSeparator)) {
		if !strings.HasPrefix(dir, "/") {
			continue // relative: another user may control the current directory
		}
		if found, err := exec.LookPath(dir + "/" + name); err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}
