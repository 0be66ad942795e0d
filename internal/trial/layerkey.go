package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/org/rollout-action/internal/config"
)

// layerKey is what an agent layer is known by: a digest of all that its script can depend on, but for the values of secrets, of
// which the names count. So whoever changes a token does not install again, and no key can tell a secret.
func (a *attempt) layerKey(imageID string) (string, error) {
	text, err := json.Marshal(struct { // maps are sorted
		Version, Provider, Image, Install, Instruction string
		Config                                         map[string]any
		Env                                            map[string]string
		TaskEnv                                        map[string]string `json:",omitempty"` // as written
		WorkDir                                        string            `json:",omitempty"`
	}{
		"rollout agent layer 1", a.opts.Provider.Name(), imageID, a.spec.Agent.Install, a.opts.Job.InstructionPath,
		a.opts.Job.Environment.ProviderConfig, a.knownEnv(),
		a.spec.Task.Config.Environment.Env, a.spec.Task.Config.Environment.WorkDir,
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// knownEnv are the agent's variables: with their values where these are no secrets, else as the job file has them.
func (a *attempt) knownEnv() map[string]string {
	env := map[string]string{}
	for name, value := range a.spec.Env {
		env[name] = a.spec.Agent.Env[name]
		secret := func(host string) bool { return !slices.Contains(a.opts.Job.Redact.Except, host) }
		if written, ok := a.spec.Agent.Env[name]; ok && !slices.ContainsFunc(config.References(written), secret) {
			env[name] = "=" + value
		}
	}
	return env
}
