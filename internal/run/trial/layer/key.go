package layer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
)

// Inputs holds everything that an install script can depend on, except the values of secrets, of
// which only the names count. So a new token causes no new installation, and no key betrays a
// secret. Changing these fields changes all keys.
type Inputs struct {
	Version     string // of this struct; Key sets it
	Provider    string
	Image       string // the ID of the task's image
	Install     string // the script
	Files       string `json:",omitempty"` // the digest of the agent's files
	Instruction string // its path
	WorkDir     string
	LogDirs     []string
	Config      map[string]any    // environment.provider_config
	Env         map[string]string // see Variables
	TaskEnv     map[string]string // see Variables
	Network     string            `json:",omitempty"` // during the installation, if it is not public
	Healthcheck *task.Healthcheck `json:",omitempty"` // it runs before the script, and may leave files
}

// Key returns the key of the layer: a digest.
func (in Inputs) Key() (string, error) {
	in.Version = "rollout agent layer 2"
	text, err := json.Marshal(in) // maps are sorted
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Variables returns variables with their values if these are no secrets, else as they are written,
// with placeholders. A value is a secret if it was written with a reference to a variable of the
// host which public does not list.
func Variables(written, expanded map[string]string, public []string) map[string]string {
	env := map[string]string{}
	secret := func(host string) bool { return !slices.Contains(public, host) }
	for name, value := range expanded {
		text, ok := written[name]
		env[name] = text
		if ok && !slices.ContainsFunc(config.References(text), secret) {
			env[name] = "=" + value
		}
	}
	return env
}
