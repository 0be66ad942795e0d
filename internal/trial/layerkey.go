package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/task"
)

// layerKey is what an agent layer is known by: a digest of all that its script can depend on, but for the values of secrets, of
// which the names count. So whoever changes a token does not install again, and no key can tell a secret.
func (x *execution) layerKey(imageID string) (string, error) {
	env, job := x.spec.Task.Config.Environment, x.opts.Job
	text, err := json.Marshal(struct { // maps are sorted
		Version, Provider, Image, Install, Instruction, WorkDir string
		LogDirs                                                 []string
		Config                                                  map[string]any
		Env, TaskEnv                                            map[string]string
		Network                                                 string            `json:",omitempty"` // if it is not public
		Healthcheck                                             *task.Healthcheck `json:",omitempty"` // which runs before, and may leave files
	}{
		Version: "rollout agent layer 2", Provider: x.opts.Provider.Name(), Image: imageID, Install: x.spec.Agent.Install,
		Instruction: job.InstructionPath, WorkDir: env.WorkDir, LogDirs: x.rules.LogDirs, Config: job.Environment.ProviderConfig,
		Env: x.layerVariables(x.spec.Agent.Env, x.spec.Env), TaskEnv: x.layerVariables(env.Env, x.spec.Task.EnvironmentEnv()),
		Network: restriction(x.networks.Install), Healthcheck: env.Healthcheck,
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// layerVariables returns variables with their values where these are no secrets, else as they are written, with placeholders.
func (x *execution) layerVariables(written, expanded map[string]string) map[string]string {
	env := map[string]string{}
	secret := func(host string) bool { return !slices.Contains(x.opts.Job.Redact.Except, host) }
	for name, value := range expanded {
		text, ok := written[name]
		env[name] = text
		if ok && !slices.ContainsFunc(config.References(text), secret) {
			env[name] = "=" + value
		}
	}
	return env
}
