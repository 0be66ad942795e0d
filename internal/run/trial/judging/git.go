package judging

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// The configuration of a git repository names programs, and a repository that a judge reads may be
// the agent's. git status and git diff would run them, so the commands of judges have variables
// that turn them off.

// gitOff lists the settings that name programs and have fixed names. gitVariables disables the
// configuration of the machine.
var gitOff = map[string]string{
	"core.fsmonitor": "false", "core.hooksPath": "/dev/null", "core.attributesFile": "/dev/null", "core.pager": "cat", "core.alternateRefsCommand": "true",
	"credential.helper": "", "gpg.program": "false", "gpg.ssh.program": "false", "gpg.x509.program": "false", "log.showSignature": "false",
	"protocol.ext.allow": "never", "safe.directory": "*",
	// Git in a submodule has the submodule's own settings, and none of these.
	"diff.ignoreSubmodules": "all", "status.submoduleSummary": "false", "submodule.recurse": "false",
}

// plainDiff shows the difference of two files as git gives them to diff.NAME.command. An empty
// value of that setting ends git diff.
const plainDiff = `f() { diff -u -- "$2" "$5" || :; }; f`

// gitNamed lists the settings of the repository in the working directory that name programs and
// contain a chosen name, such as filter.NAME.clean.
const gitNamed = `command -v git >/dev/null || exit 0
git config -z --includes --name-only --get-regexp '^(filter\..*\.(clean|smudge|process)|diff\..*\.(textconv|command)|diff\.external|merge\..*\.driver|submodule\..*\.ignore)$'
cd "$(git rev-parse --show-toplevel)" && git config -z -f .gitmodules --name-only --get-regexp '^submodule\..*\.path$'
exit 0`

// maxGitNamed limits the settings that gitNamed lists, in bytes.
const maxGitNamed = 32 << 10

// GitVariables returns the variables that keep git in a judge's environment from running programs
// of a repository. run runs a command in the judge's working directory, with these variables and
// output.
// Source: git-config(1), "GIT_CONFIG_COUNT".
func GitVariables(run func(command string, env map[string]string, stdout io.Writer) error) (map[string]string, error) {
	out := &excerpt.Ends{Size: maxGitNamed + 1}
	if err := run(gitNamed, gitVariables(gitOff), out); err != nil {
		return nil, err
	}
	text := out.String()
	if len(text) > maxGitNamed {
		return nil, failure.Newf(result.JudgeFailed, "the git repository in its working directory names more programs than can be turned off")
	}
	settings := maps.Clone(gitOff)
	for name := range strings.SplitSeq(text, "\x00") {
		maps.Copy(settings, gitNamedOff(name))
	}
	return gitVariables(settings), nil
}

// gitNamedOff returns the settings that turn off the program of a setting that gitNamed lists.
func gitNamedOff(name string) map[string]string {
	first, last := strings.Index(name, "."), strings.LastIndex(name, ".")
	if first < 0 {
		return nil
	}
	section, key := name[:first], name[last+1:]
	switch section + "." + key {
	case "filter.clean", "filter.smudge", "filter.process":
		return map[string]string{name: "", name[:last] + ".required": "false"}
	case "diff.textconv":
		return map[string]string{name: "cat"}
	case "diff.command", "diff.external":
		return map[string]string{name: plainDiff}
	case "merge.driver":
		return map[string]string{name: "false"}
	case "submodule.path", "submodule.ignore":
		return map[string]string{name[:last] + ".ignore": "all"}
	}
	return nil
}

// gitVariables returns settings as variables, and the variables that disable the configuration of
// the machine and of the user.
func gitVariables(settings map[string]string) map[string]string {
	env := map[string]string{
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
		"GIT_PAGER": "cat", "GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true", "GIT_ASKPASS": "true", "GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh",
		"GIT_CONFIG_COUNT": strconv.Itoa(len(settings)),
	}
	for i, name := range slices.Sorted(maps.Keys(settings)) {
		env["GIT_CONFIG_KEY_"+strconv.Itoa(i)], env["GIT_CONFIG_VALUE_"+strconv.Itoa(i)] = name, settings[name]
	}
	return env
}
