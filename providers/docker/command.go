package docker

import (
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	// maxArg is below the kernel's limit for one argument (MAX_ARG_STRLEN, 128 KiB).
	maxArg = 120 << 10
	// maxScript is below the kernel's limit for all arguments and the environment (a quarter of an
	// 8 MiB stack), with room for the environment.
	maxScript = 1536 << 10
)

// prologue runs before a script, in the same shell. Its first argument is a mark, which it prints to
// stderr with the shell's line of /proc/<pid>/stat; the other arguments, put together, are the
// script. It leaves nothing behind that the script could see. Only what is built into bash is used.
const prologue = `IFS= read -r REPLY </proc/$$/stat; printf '%s%s\n' "$1" "$REPLY" >&2; unset REPLY; shift
IFS=; eval "IFS=\$' \t\n';shift $#;$*"`

// command is the command line that runs script after the prologue.
func command(mark, script string) ([]string, error) {
	switch {
	case len(script) > maxScript:
		return nil, errors.New("the script is longer than 1.5 MiB, which is more than a command line can hold; copy it into the environment as a file")
	case strings.Contains(script, "\x00"):
		return nil, errors.New("the script contains a NUL byte")
	case !utf8.ValidString(script):
		return nil, errors.New("the script is not valid UTF-8; copy it into the environment as a file")
	}
	return append([]string{"bash", "-c", prologue, "bash", mark}, chunks(script)...), nil
}

// chunks cuts script into arguments, between characters because they travel as JSON.
func chunks(script string) []string {
	var list []string
	for len(script) > maxArg {
		cut := maxArg
		for !utf8.RuneStart(script[cut]) {
			cut--
		}
		list = append(list, script[:cut])
		script = script[cut:]
	}
	return append(list, script)
}
