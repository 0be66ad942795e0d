package task

import (
	"maps"

	"github.com/org/rollout-action/internal/core/compose"
	"github.com/org/rollout-action/internal/lib/fields"
)

// VerifierMode says where the tests run.
type VerifierMode string

// The values of verifier.environment_mode. "" is SharedVerifier, unless there is
// verifier.environment.
const (
	SharedVerifier   VerifierMode = "shared"
	SeparateVerifier VerifierMode = "separate"
)

// Collect is an entry of verifier.collect. Source: Harbor 0.26, src/harbor/models/task/config.py.
type Collect struct {
	Command    string  `toml:"command" required:"true" pattern:"\\S" is:"a command" hint:"write command = \"...\"" doc:"For bash."`
	TimeoutSec float64 `toml:"timeout_sec" default:"60" min:"0.001 seconds" max:"a day" is:"a number of seconds" doc:"Seconds that the command may take."`
	User       User    `toml:"user" is:"the name or number of a user" hint:"write user = \"agent\", or user = 1000" doc:"Who runs it: a name or a number. Default: the image's user."`
	Service    string  `toml:"service" json:",omitempty" pattern:"^[a-zA-Z0-9][a-zA-Z0-9._-]*$" is:"the name of a service" hint:"write service = \"db\"" doc:"The service of docker-compose.yaml in which it runs, with that service's variables, user and directory. Its image needs bash. Default: main."`
}

// separateAt is the place of the table of the tests' environment.
var separateAt = fields.Path{"verifier", "environment"}

// freshEnvironment is the text in place of that table for a new environment of the task's image.
const freshEnvironment = "fresh"

// separateKeys is verifier.environment.
type separateKeys struct {
	environmentKeys
	given, fresh bool // as a table, or as text
}

// DecodeNode reads a table, or the text fresh.
func (s *separateKeys) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, r fields.Rules) bool {
	switch {
	case n.Kind == fields.Text && n.Text == freshEnvironment:
		s.fresh = true
		return true
	case n.Kind == fields.Mapping:
		s.given = d.Value(n, p, &s.environmentKeys, r)
		return s.given
	}
	return d.MustBe(n, p, r, "a table or \"fresh\"", `write environment = "fresh", or [verifier.environment]`)
}

// image returns the image that the table names.
func (s *separateKeys) image() string {
	if !s.given {
		return ""
	}
	return s.DockerImage
}

// separate sets the environment of the tests, if it is not the agent's. Source: Harbor 0.26,
// src/harbor/models/task/verifier_mode.py.
func (r *reader) separate(c *Config) {
	v, own := &c.Verifier, &r.file.Verifier.Own
	if v.Mode == SharedVerifier && (own.given || own.fresh) {
		r.Problem(fields.Path{"verifier", "environment_mode"}, "remove one of them", `"verifier.environment_mode" is shared, but there is "verifier.environment"`)
		return
	}
	switch {
	case own.given:
		v.Environment = &own.Environment
		r.complete(separateAt, v.Environment)
	case own.fresh || v.Mode == SeparateVerifier:
		v.Environment = c.Environment.forTests()
	default:
		v.Mode = "" // the default
		return
	}
	v.Mode = SeparateVerifier
}

// forTests returns a copy without the keys that are for agents.
func (e *Environment) forTests() *Environment {
	c := *e
	c.Healthcheck, c.MCPServers, c.SkillsDir = nil, nil, ""
	return &c
}

// Apart returns the task as its tests see it if they do not run in the agent's environment: its
// Config.Environment is theirs, with the image that they need. It returns nil if they run in the
// agent's environment. With fresh, they get a new environment of the task's image if the task does
// not say anything else.
//
// bundled reports whether the image has the tests at /tests. It is the one that
// [verifier.environment] names, or that of tests/Dockerfile or tests/docker-compose.yaml, or else
// the task's, without them.
// Source: Harbor 0.26, src/harbor/models/task/verifier_mode.py.
func (t *Task) Apart(fresh bool) (apart *Task, bundled bool) {
	own := t.Config.Verifier.Environment
	if own == nil {
		if !fresh {
			return nil, false
		}
		own = t.Config.Environment.forTests()
	}
	apart = &Task{
		Name: t.Name, Dir: t.Dir, FS: t.FS, Format: t.Format, Config: t.Config, variables: t.variables,
		GitCommitID: t.GitCommitID, RepoPath: t.RepoPath, Origin: t.Origin, has: maps.Clone(t.has), imageOf: t.ImageOf(), bench: t.bench, step: t.step,
		services: t.services,
	}
	apart.Config.Environment = *own
	apart.Config.Environment.Networks = t.Config.Environment.Networks
	apart.Config.Agent.User = ""
	if t.variables.apart {
		apart.variables.environment = t.variables.separate
	}
	defer apart.takeMain()
	image := &apart.Config.Environment.DockerImage
	*image = t.Config.Environment.DockerImage
	if t.Config.Verifier.Environment == nil || t.variables.fresh {
		return apart, false
	}
	for _, level := range t.verifierLevels() {
		if level.image != "" || t.hasFile(t.FS, level.tests+"/"+dockerfileName) || t.hasFile(t.FS, level.tests+"/"+compose.Name) {
			*image, bundled = level.image, true
			apart.imageOf, apart.imageDir, apart.services = nil, level.tests, nil
			if level.tests == testsDir { // a step's file is refused
				apart.services = t.testsServices
			}
			break
		}
	}
	return apart, bundled
}

// verifierLevel is a place that may define the image of the tests.
type verifierLevel struct {
	image string // of the table verifier.environment
	tests string // the directory that may have a Dockerfile
}

// verifierLevels returns the places that may define the image of the tests, the nearest first: the
// step and the task.
func (t *Task) verifierLevels() []verifierLevel {
	task := verifierLevel{t.variables.image, testsDir}
	if t.step == "" {
		return []verifierLevel{task}
	}
	task.image = t.variables.outerImage
	return []verifierLevel{{t.variables.image, t.step + "/" + testsDir}, task}
}
