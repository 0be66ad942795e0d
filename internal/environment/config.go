package environment

// ConfigProblem is something wrong with environment.provider_config.
type ConfigProblem struct {
	Path    string // dotted, below provider_config: "mounts.0.source"; "" is the whole
	Message string
	Hint    string // may be empty
}
