package host

import (
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/redact"
)

// secretName matches the names of variables whose values are likely secret.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|credential|auth|_pat$`)

// SecretPath matches keys of a job file whose values may be secret: the variables of agents, and
// the settings of providers.
var SecretPath = regexp.MustCompile(`^(agents\.[^.]*\.env|environment\.provider_config)(\.|$)`)

// SecretsOf returns a redactor of the values that printed commands must not contain: the job's
// secrets, and the values of variables with names that suggest a secret. A shell may have expanded
// them into the arguments.
func (v Variables) SecretsOf(job []string) *redact.Redactor {
	values := slices.Clone(job)
	for _, variable := range v.AllVariables() {
		if name, value, ok := strings.Cut(variable, "="); ok && secretName.MatchString(name) {
			values = append(values, value)
		}
	}
	return redact.New(values)
}

// PublicArguments returns command-line arguments for a command that is printed where others may
// read it. A value that may be secret is replaced by a word in capital letters, as in --baseline
// BASELINE, which the user can fill in.
func PublicArguments(args []string, secrets *redact.Redactor) []string {
	out := make([]string, len(args))
	flag := "" // the flag whose value comes next
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case flag != "":
			out[i] = publicValue(flag, arg, secrets)
			flag = ""
		case strings.HasPrefix(arg, "--") && joined:
			out[i] = name + "=" + publicValue(strings.TrimPrefix(name, "--"), value, secrets)
		case slices.Contains([]string{"--set", "--agent-env", "--baseline", "--registry"}, arg):
			out[i], flag = arg, strings.TrimPrefix(arg, "--")
		default:
			out[i] = publicValue("value", arg, secrets)
		}
	}
	return out
}

// publicValue returns the value of a flag, or a placeholder if it may be secret.
func publicValue(flag, value string, secrets *redact.Redactor) string {
	key, set, assigns := strings.Cut(value, "=")
	hidden := secrets.String(value) != value
	switch flag {
	case "set", "agent-env":
		if assigns && (hidden || flag == "agent-env" || SecretPath.MatchString(key)) && set != "" && secrets.String(key) == key {
			return key + "=VALUE"
		}
	case "baseline", "registry":
		hidden = hidden || IsRemote(value) && strings.ContainsAny(value, "@?#")
	}
	if hidden {
		return strings.ToUpper(flag)
	}
	return value
}

// aURL matches text that begins like a URL, whatever its scheme.
var aURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:/`)

// IsRemote reports whether a baseline is a URL rather than a path. download refuses unsupported
// schemes.
func IsRemote(source string) bool { return aURL.MatchString(source) }
