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

// Options are what a Client works with. The zero value is for production.
type Options struct {
	Environ []string // the environment, as NAME=value; nil: this process's
	// CredentialHosts are the hosts for which the user's own credentials may be used over https: what their git
	// would use without asking, or for GitHub $GITHUB_TOKEN.
	CredentialHosts []string
	Timeout         time.Duration // of one command, and of all that it takes to resolve or export a commit; 0: 30 minutes
	Stall           time.Duration // how long a transfer over HTTP may bring next to nothing; 0: two minutes
	RetryDelay      time.Duration // before a repository that cannot be reached is tried again, doubling; 0: a second
	MaxBytes        int64         // how much one fetch may bring, and one directory may hold; 0: 16 GiB
	MaxFiles        int           // how many files one directory may hold; 0: 100,000
}

// minBytesPerSecond is the least that a transfer over HTTP must bring, on average over Options.Stall: more than who drips a byte now
// and then, and no more than a server says that is still at work.
const minBytesPerSecond = 20

// Client runs git. It may be used by many goroutines.
type Client struct {
	Options
	find   func() (string, error)
	mu     sync.Mutex
	logins map[string]func() login // by host
}

// New is a Client. git is looked for when it is first needed.
func New(opts Options) *Client {
	if opts.Environ == nil {
		opts.Environ = os.Environ()
	}
	set(&opts.Timeout, 30*time.Minute)
	set(&opts.Stall, 2*time.Minute)
	set(&opts.RetryDelay, time.Second)
	set(&opts.MaxBytes, 16<<30)
	set(&opts.MaxFiles, 100_000)
	g := &Client{Options: opts, logins: map[string]func() login{}}
	g.find = sync.OnceValues(g.findGit)
	return g
}

func set[T comparable](value *T, fallback T) {
	if *value == *new(T) {
		*value = fallback
	}
}

// ErrNoGit means that git is missing, or too old to be run safely.
var ErrNoGit = errors.New("git is needed, in version 2.32 or newer")

// findGit looks for git, and for what older versions lack: they do not read GIT_CONFIG_GLOBAL and GIT_CONFIG_COUNT, by
// which their configuration is ruled here.
func (g *Client) findGit() (string, error) {
	path, err := lookPath("git", g.getenv("PATH"))
	if err != nil {
		return "", fmt.Errorf("%w, to fetch datasets: it is not installed, or not on the PATH", ErrNoGit)
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
	for _, v := range slices.Backward(g.Environ) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// kept are git's own variables that stay: how to reach servers is the user's business.
var kept = []string{
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY",
	"GIT_PROXY_SSL_CAINFO", "GIT_EXEC_PATH",
}

// inherited is the user's environment without what would lead git elsewhere or make it ask.
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

// hardened is the environment of every git: no configuration but ours, nothing that asks, nothing that runs what a
// repository names. Source: git(1), git-config(1).
var hardened = []string{
	"LC_ALL=C",
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS_REQUIRE=never",
	"GIT_LFS_SKIP_SMUDGE=1", "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0",
}

// config is the configuration of every git.
func (g *Client) config() [][2]string {
	return [][2]string{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.askPass", ""},
		{"credential.helper", ""},
		{"http.emptyAuth", "false"}, // no tickets of the user's
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"submodule.recurse", "false"},
		{"fetch.recurseSubmodules", "false"},
		// What a partial fetch left out, a server would not send again to who says to have the commit.
		{"fetch.negotiationAlgorithm", "noop"},
		{"transfer.bundleURI", "false"},
		{"http.lowSpeedLimit", strconv.Itoa(minBytesPerSecond)},
		{"http.lowSpeedTime", strconv.Itoa(max(1, int(g.Stall/time.Second)))},
		{"init.defaultBranch", "none"},
	}
}

// lookPath finds a program in the directories of path. Unlike exec.LookPath it knows another environment than this process's.
func lookPath(name, path string) (string, error) {
	for _, dir := range strings.Split(path, string(os.PathListSeparator)) {
		if !strings.HasPrefix(dir, "/") {
			continue // the current directory may be a stranger's
		}
		if found, err := exec.LookPath(dir + "/" + name); err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}
