package docker

import "github.com/org/rollout-action/internal/core/environment"

// prologue runs before a script, in the same shell. Its first argument is a mark, which it prints
// to stderr as a line; the other arguments, put together, are the script. It leaves no traces
// visible to the script. Only builtins of bash are used.
const prologue = `printf '%s\n' "$1" >&2; shift
` + environment.EvalArguments

// command returns the command line that runs script after the prologue.
func command(mark, script string) ([]string, error) {
	parts, err := environment.SplitScript(script)
	if err != nil {
		return nil, err
	}
	return append([]string{"bash", "-c", prologue, "bash", mark}, parts...), nil
}
