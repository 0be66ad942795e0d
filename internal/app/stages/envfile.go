package stages

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/envfile"
)

// jobVariables returns the lookup function for the variables of ${VAR} and environment.pass_env:
// the environment wins over the request's files, and a later file over an earlier one.
func jobVariables(h *host.Host, req JobRequest) (func(string) (string, bool), error) {
	if len(req.EnvFiles) == 0 {
		return h.Getenv, nil
	}
	vars := map[string]string{}
	for _, file := range req.EnvFiles {
		more, err := readEnvFile(h, file)
		if err != nil {
			return nil, err
		}
		maps.Copy(vars, more)
	}
	return func(name string) (string, bool) {
		if value, ok := h.Getenv(name); ok {
			return value, true
		}
		value, ok := vars[name]
		return value, ok
	}, nil
}

func readEnvFile(h *host.Host, file string) (map[string]string, error) {
	f, err := os.Open(h.Path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, diag.List{{File: file, Message: "there is no such file", Hint: "--env-file wants a file of NAME=value lines"}}
	}
	if err == nil {
		defer f.Close()
		var vars map[string]string
		if vars, err = envfile.Parse(file, f); err == nil {
			return vars, nil
		}
	}
	if problems := (diag.List{}); errors.As(err, &problems) {
		return nil, problems
	}
	return nil, fmt.Errorf("read the file of --env-file: %w", environment.MarkMachineError(err))
}
