package prove

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"mvdan.cc/sh/v3/syntax"
)

// networkUse finds commands that fetch something. A verifier with such a command depends on the
// server that it fetches from. It accepts the installation of packages that the image has, and
// those whose failure the script accepts.
func networkUse(f file, script *syntax.File, image installed) []Finding {
	var out []Finding
	syntax.Walk(script, func(node syntax.Node) bool {
		if len(out) > 0 { // one finding is enough
			return false
		}
		switch n := node.(type) {
		case *syntax.BinaryCmd:
			return n.Op != syntax.OrStmt || !accepts(n.Y) || !onlyInstalls(n.X)
		case *syntax.CallExpr:
			words := command(n)
			if what := fetchCommand(words); what != "" && !image.has(words) {
				out = append(out, Finding{Rule: ruleVerifierNetwork, Severity: Warning, File: f.name, Line: int(n.Pos().Line()),
					Message: fmt.Sprintf("the verifier needs the network: it runs %s", what),
					Hint:    "install its dependencies while the image is built"})
			}
		}
		return true
	})
	return out
}

// accepts reports whether a command behind || accepts a failure: true, or a message.
func accepts(stmt *syntax.Stmt) bool {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok {
		return false
	}
	words := command(call)
	return len(words) > 0 && slices.Contains([]string{"true", ":", "echo", "printf"}, words[0])
}

// onlyInstalls reports whether what fails before || is an installation, and not a program that
// fetches itself and then runs the tests, such as uvx.
func onlyInstalls(stmt *syntax.Stmt) bool {
	installs := true
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok {
			words := command(call)
			installs = installs && (fetchCommand(words) == "" || len(packages(words)) > 0)
		}
		return installs
	})
	return installs
}

// installed are the packages that an image has: "pip pytest", "pip pytest==8.4.1".
type installed map[string]bool

// installedBy returns the packages that a Dockerfile installs.
func installedBy(stages []stage) installed {
	out := installed{}
	for _, s := range usedStages(stages) {
		for _, step := range s.Commands {
			run, ok := step.(*instructions.RunCommand)
			if !ok {
				continue
			}
			text := strings.Join(run.CmdLine, " ")
			for _, here := range run.Files {
				text += "\n" + here.Data
			}
			script, err := parseShell([]byte(text))
			if script == nil || err != nil {
				continue
			}
			syntax.Walk(script, func(node syntax.Node) bool {
				if call, ok := node.(*syntax.CallExpr); ok {
					for _, name := range packages(command(call)) {
						out[name], out[unversioned(name)] = true, true
					}
				}
				return true
			})
		}
	}
	return out
}

// has reports whether an image has all packages that a command installs.
func (i installed) has(words []string) bool {
	names := packages(words)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !i[name] })
}

// unversioned returns "pip pytest" for "pip pytest==8.4.1", and "npm @a/b" for "npm @a/b@1".
func unversioned(name string) string {
	program, rest, _ := strings.Cut(name, " ")
	if at := strings.IndexAny(rest, "=<>!~["); at > 0 {
		rest = rest[:at]
	}
	if at := strings.LastIndexByte(rest, '@'); at > 0 {
		rest = rest[:at]
	}
	return program + " " + rest
}

// families are the programs that install packages, each by its family: those of a family install
// the same packages.
var families = map[string]string{
	"apt": "apt", "apt-get": "apt", "aptitude": "apt", "apk": "apk", "dnf": "dnf", "yum": "dnf", "microdnf": "dnf", "zypper": "zypper",
	"pip": "pip", "pip3": "pip", "conda": "conda", "mamba": "conda", "npm": "npm", "pnpm": "npm", "yarn": "npm", "gem": "gem",
}

// packages returns the packages that a command installs, as installed names them. It returns none
// for commands that install what a file lists.
func packages(words []string) []string {
	program, args := program(words)
	family := families[program]
	at := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if family == "" || at < 0 || !slices.Contains([]string{"install", "add", "i", "in"}, args[at]) {
		return nil
	}
	var out []string
	for _, a := range args[at+1:] {
		if a == "-r" || a == "--requirement" || a == "-c" {
			return nil
		}
		if !strings.HasPrefix(a, "-") {
			out = append(out, family+" "+a)
		}
	}
	return out
}

// program returns the program that a command runs, and its arguments; for python -m pip and uv pip
// it returns pip.
func program(words []string) (name string, args []string) {
	if len(words) == 0 {
		return "", nil
	}
	name, args = path.Base(words[0]), words[1:]
	if strings.HasPrefix(name, "python") && len(args) > 1 && args[0] == "-m" && args[1] == "pip" {
		return "pip", args[2:]
	}
	if name == "uv" && len(args) > 0 && args[0] == "pip" {
		return "pip", args[1:]
	}
	return name, args
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
	program, args := program(words)
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
