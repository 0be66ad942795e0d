package prove

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// networkUse finds commands that fetch something. A verifier with such a command depends on the
// server that it fetches from.
func networkUse(f file, script *syntax.File) []Finding {
	var out []Finding
	syntax.Walk(script, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(out) > 0 { // one finding is enough
			return len(out) == 0
		}
		if what := fetchCommand(command(call)); what != "" {
			out = append(out, Finding{Rule: ruleVerifierNetwork, Severity: Warning, File: f.name, Line: int(call.Pos().Line()),
				Message: fmt.Sprintf("the verifier needs the network: it runs %s", what),
				Hint:    "install its dependencies while the image is built"})
		}
		return true
	})
	return out
}

// fetchingCommands holds the sub-commands that fetch packages, by program.
var fetchingCommands = map[string][]string{
	"apt": {"install", "update", "upgrade"}, "apt-get": {"install", "update", "upgrade", "dist-upgrade"}, "aptitude": {"install", "update"},
	"apk": {"add", "update"}, "dnf": {"install", "update"}, "yum": {"install", "update"}, "microdnf": {"install"}, "zypper": {"install", "in"}, "pacman": {"-S", "-Sy", "-Syu"},
	"pip": {"install", "download"}, "pip3": {"install", "download"}, "pipx": {"install", "run"}, "poetry": {"install", "add"}, "conda": {"install", "create"}, "mamba": {"install", "create"},
	"uv": {"sync", "add", "tool"}, "npm": {"install", "i", "ci", "add", "exec"}, "pnpm": {"install", "i", "add", "dlx"}, "yarn": {"install", "add", "dlx"}, "bun": {"install", "add", "x"},
	"gem": {"install"}, "bundle": {"install"}, "cargo": {"install", "fetch"}, "composer": {"install", "require"}, "git": {"clone", "fetch", "pull"},
}

// offlineOptions make these commands work without the network.
var offlineOptions = []string{
	"--offline", "--no-index", "--local", "--no-download", "--frozen-offline", "--prefer-local", "-f", "--find-links", "--cached",
}

// fetchCommand returns the command that fetches something, for messages, or "" if none is known to.
func fetchCommand(words []string) string {
	if len(words) == 0 {
		return ""
	}
	program, args := path.Base(words[0]), words[1:]
	if strings.HasPrefix(program, "python") && len(args) > 1 && args[0] == "-m" && args[1] == "pip" {
		program, args = "pip", args[2:]
	}
	if program == "uv" && len(args) > 0 && args[0] == "pip" {
		program, args = "pip", args[1:]
	}
	if slices.ContainsFunc(args, func(a string) bool { return slices.Contains(offlineOptions, a) }) {
		return ""
	}
	switch program {
	case "curl", "wget", "ftp", "aria2c":
		if at := slices.IndexFunc(args, isRemote); at >= 0 {
			return program + " on " + args[at]
		}
		return ""
	case "uvx":
		return program
	case "uv":
		if len(args) > 1 && args[0] == "run" && strings.HasPrefix(args[1], "-") && slices.ContainsFunc(args, func(a string) bool {
			name, _, _ := strings.Cut(a, "=")
			return name == "--with" || name == "-w" || name == "--with-requirements"
		}) {
			return "uv run --with"
		}
	case "npx":
		if slices.Contains(args, "-y") || slices.Contains(args, "--yes") {
			return program
		}
		return ""
	case "go":
		if len(args) > 1 && (args[0] == "get" || args[0] == "install" && strings.Contains(args[len(args)-1], "@")) {
			return "go " + args[0]
		}
		return ""
	}
	at := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") || program == "pacman" })
	if at < 0 || !slices.Contains(fetchingCommands[program], args[at]) {
		return ""
	}
	switch rest := args[at+1:]; {
	case program == "git" && !slices.ContainsFunc(rest, isRemote): // from a directory, or from a remote that may be one
		return ""
	case program == "pip" || program == "pip3":
		if installsLocalFiles(rest) {
			return ""
		}
	}
	return program + " " + args[at]
}

// installsLocalFiles reports whether pip installs only files and directories. If they need other
// packages, those may be installed already.
func installsLocalFiles(args []string) bool {
	found := false
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "-"):
		case strings.HasPrefix(a, ".") || strings.HasPrefix(a, "/") || strings.HasSuffix(a, ".whl"):
			found = true
		default:
			return false
		}
	}
	return found
}

// isRemote reports whether a word is the address of another machine. It reports false for addresses
// with variables.
func isRemote(word string) bool {
	if strings.HasPrefix(word, "git@") {
		return true
	}
	u, err := url.Parse(word)
	if err != nil || !slices.Contains([]string{"http", "https", "ftp", "git", "ssh"}, u.Scheme) {
		return false
	}
	host := u.Hostname()
	switch {
	case host == "" || strings.Contains(host, "$"):
		return false
	case host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1" || host == "0.0.0.0":
		return false
	}
	return strings.Contains(host, ".") // a name without a dot is probably the environment's own
}
