package environment

import (
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	// maxArg is below the kernel's limit for one argument (MAX_ARG_STRLEN, 128 KiB).
	maxArg = 120 << 10
	// maxScript is below the kernel's limit for all arguments and the environment (a quarter of an
	// 8 MiB stack), which leaves space for the environment.
	maxScript = 1536 << 10
)

// EvalArguments is a bash script that joins its arguments and runs them as a script, which sees no
// arguments and no variables of this one. It uses only bash's builtins. See SplitScript.
const EvalArguments = `IFS=; eval "IFS=\$' \t\n';shift $#;$*"`

// SplitScript splits a script into arguments for EvalArguments, each short enough for the kernel,
// between characters. It fails for scripts that do not fit on a command line.
func SplitScript(script string) ([]string, error) {
	switch {
	case len(script) > maxScript:
		return nil, errors.New("the script is longer than 1.5 MiB, which is more than a command line can hold; copy it into the environment as a file")
	case strings.Contains(script, "\x00"):
		return nil, errors.New("the script contains a NUL byte")
	case !utf8.ValidString(script):
		return nil, errors.New("the script is not valid UTF-8; copy it into the environment as a file")
	}
	var list []string
	for len(script) > maxArg {
		cut := maxArg
		for !utf8.RuneStart(script[cut]) {
			cut--
		}
		list = append(list, script[:cut])
		script = script[cut:]
	}
	return append(list, script), nil
}
