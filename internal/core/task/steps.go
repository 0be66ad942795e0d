package task

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/task/taskdir"
	"github.com/org/rollout-action/internal/lib/fields"
)

// The values of multi_step_reward_strategy.
const (
	MeanReward  = "mean"
	FinalReward = "final"
)

const stepsDir = "steps"

// Step is an entry of steps, completed from the task: its agent, tests and networks. Source: Harbor
// 0.26, src/harbor/models/task/config.py and trial/multi_step.py.
type Step struct {
	Name string
	// MinReward has the rewards, by name, with which the next step begins. A number is that of the
	// reward named "reward".
	MinReward   map[string]float64 `json:",omitempty"`
	Agent       Agent
	Verifier    Verifier
	Networks    Networks
	Healthcheck *Healthcheck `json:",omitempty"`
	Artifacts   []Artifact   `json:",omitempty"` // with those of the task
}

// stepKeys is an entry of steps.
type stepKeys struct {
	Name  string `toml:"name" required:"true" doc:"Name of the step's directory in steps."`
	Agent struct {
		TimeoutSec float64     `toml:"timeout_sec" min:"0.001 seconds" max:"a year" is:"a number of seconds" doc:"Seconds that the agent may take in this step. Default: the task's."`
		User       User        `toml:"user" is:"the name or number of a user" hint:"write user = \"agent\", or user = 1000" doc:"Who runs the agent in this step. Default: the task's."`
		Network    networkMode `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"The network while the agent works. Default: the task's."`
		hostKeys
	} `toml:"agent" doc:"How the agent runs in this step."`
	Verifier struct {
		TimeoutSec float64      `toml:"timeout_sec" min:"0.001 seconds" max:"a year" is:"a number of seconds" doc:"Seconds that the step's test.sh may take. Default: the task's."`
		User       User         `toml:"user" is:"the name or number of a user" hint:"write user = \"agent\", or user = 1000" doc:"Who runs test.sh. Default: the task's."`
		Mode       VerifierMode `toml:"environment_mode" enum:"shared,separate" doc:"Where the step's tests run. Default: the task's."`
		Own        separateKeys `toml:"environment" doc:"The environment of the step's tests, as verifier.environment of the task."`
		Collect    []Collect    `toml:"collect" most:"20" hint:"write [[steps.verifier.collect]]" doc:"Commands that run when the step's agent has ended, after those of the task."`
		Env        Env          `toml:"env" doc:"Variables of test.sh, in addition to the task's."`
		Network    networkMode  `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"The network of the step's tests. Default: the task's."`
		hostKeys
	} `toml:"verifier" doc:"How the step's test.sh runs."`
	MinReward   minReward      `toml:"min_reward" doc:"The reward that the step must have for the next one to begin: a number, or a table of rewards by name. Without a reward, no step follows."`
	Healthcheck *Healthcheck   `toml:"healthcheck" doc:"A command that must succeed before the step's agent begins, after workdir/setup.sh."`
	Artifacts   []artifactKeys `toml:"artifacts" most:"100" hint:"write artifacts = [\"/app/output\"]" doc:"Further artifacts of this step."`
}

// minReward is a number, or a table of numbers.
type minReward map[string]float64

// DecodeNode reads a number or a table.
func (m *minReward) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, r fields.Rules) bool {
	if number, ok := n.Number(); ok {
		*m = minReward{"reward": number}
		return true
	}
	const hint = "write min_reward = 0.5, or min_reward = {score = 0.5}"
	if n.Kind != fields.Mapping {
		return d.MustBe(n, p, r, "a number or a table of numbers", hint)
	}
	*m = minReward{}
	for _, f := range n.Fields {
		number, ok := f.Value.Number()
		if !ok {
			d.MustBe(f.Value, p.Child(f.Name), fields.Rules{}, "a number", hint)
			continue
		}
		(*m)[f.Name] = number
	}
	return true
}

// stepName matches the names of steps, which are directories of the task and of its trials.
var stepName = regexp.MustCompile(`^[\p{L}\p{N}_][\p{L}\p{M}\p{N}_.,+@()& -]{0,98}[\p{L}\p{M}\p{N}_+@()-]$|^[\p{L}\p{N}_]$`)

// steps reads the steps.
func (r *reader) steps(c *Config, vars *variables) {
	if len(r.file.Steps) == 0 {
		if r.Root.Given("multi_step_reward_strategy") != nil {
			r.Warn(r.Root.Locate(fields.Path{"multi_step_reward_strategy"}, true), "there are no steps, so there is one reward", "%q has no effect", "multi_step_reward_strategy")
		}
		return
	}
	c.Strategy = MeanReward
	if r.file.Strategy != "" {
		c.Strategy = r.file.Strategy
	}
	seen := map[string]bool{}
	for i := range r.file.Steps {
		k, at := &r.file.Steps[i], fields.Path{stepsDir}.Index(i)
		if r.Bad(at) || r.Bad(at.Child("name")) {
			continue
		}
		switch folded := strings.ToLower(k.Name); {
		case !stepName.MatchString(k.Name):
			r.Problem(at.Child("name"), "use letters, digits, -, _ and .", "%q is no name for a directory: %q", at.Child("name"), fields.Shorten(k.Name))
			continue
		case seen[folded]:
			r.Problem(at.Child("name"), "rename one of them", "there are two steps with the name %q", k.Name)
			continue
		default:
			seen[folded] = true
		}
		step, own := r.step(*c, *vars, k, at)
		c.Steps, vars.steps = append(c.Steps, step), append(vars.steps, own)
	}
}

// step completes a step, whose table is at at, from the task.
func (r *reader) step(c Config, vars variables, k *stepKeys, at fields.Path) (Step, variables) {
	s := Step{Name: k.Name, MinReward: k.MinReward, Agent: c.Agent, Verifier: c.Verifier, Healthcheck: k.Healthcheck}
	if k.Agent.TimeoutSec > 0 {
		s.Agent.TimeoutSec = k.Agent.TimeoutSec
	}
	if k.Agent.User != "" {
		s.Agent.User = k.Agent.User
	}
	if k.Verifier.TimeoutSec > 0 {
		s.Verifier.TimeoutSec = k.Verifier.TimeoutSec
	}
	if k.Verifier.User != "" {
		s.Verifier.User = k.Verifier.User
	}
	s.Verifier.Collect = slices.Concat(c.Verifier.Collect, k.Verifier.Collect)
	s.Artifacts = r.addArtifacts(slices.Clone(c.Artifacts), k.Artifacts, at.Child("artifacts"))
	own := vars
	own.image, own.outerImage = k.Verifier.Own.image(), vars.image
	table := at.Child("verifier")
	own.verifier = maps.Clone(vars.verifier)
	if env := r.expand(table.Child("env"), k.Verifier.Env, r.Problems, &vars.unset); len(env) > 0 {
		if own.verifier == nil {
			own.verifier = map[string]string{}
		}
		maps.Copy(own.verifier, env)
	}
	r.separateStep(c, &s, &own, k, table)
	s.Networks = r.stepNetworks(c, &s, k, at)
	return s, own
}

// separateStep sets the environment of a step's tests, if it is not the agent's. table is the place
// of its verifier.
func (r *reader) separateStep(c Config, s *Step, own *variables, k *stepKeys, table fields.Path) {
	v, env := &s.Verifier, &k.Verifier.Own
	at := table.Child("environment")
	switch mode := k.Verifier.Mode; {
	case mode == SharedVerifier && (env.given || env.fresh):
		r.Problem(table.Child("environment_mode"), "remove one of them", "%q is shared, but there is %q", table.Child("environment_mode"), at)
	case mode == SharedVerifier:
		v.Mode, v.Environment = "", nil
	case env.given:
		v.Mode, v.Environment = SeparateVerifier, &env.Environment
		r.complete(at, v.Environment)
		own.apart, own.fresh = true, false
		own.separate = r.expand(at.Child("env"), env.Env, r.Problems, &own.unset)
	case env.fresh:
		v.Mode, v.Environment = SeparateVerifier, c.Environment.forTests()
		own.apart, own.fresh = false, true
	case mode == SeparateVerifier && v.Environment == nil:
		v.Mode, v.Environment = SeparateVerifier, c.Environment.forTests()
	}
}

// stepNetworks returns the networks of a step: its own, or else the task's. As in Harbor, tests in
// an environment apart have the network of its table, unless a verifier has its own.
func (r *reader) stepNetworks(c Config, s *Step, k *stepKeys, at fields.Path) Networks {
	f, n := &r.file, c.Environment.Networks
	silent := *r // whose problems are known
	d := *r.Decoder
	d.Problems = new(fields.Problems)
	silent.Decoder = &d
	n.Agent = r.network(at.Child("agent"), n.Agent, "", k.Agent.Network, k.Agent.AllowedHosts)
	verify := silent.environmentNetwork(fields.Path{"environment"}, &f.Environment)
	switch own := at.Child("verifier").Child("environment"); {
	case s.Verifier.Environment == nil:
	case k.Verifier.Own.given:
		verify = r.environmentNetwork(own, &k.Verifier.Own.environmentKeys)
	case f.Verifier.Own.given && !k.Verifier.Own.fresh:
		verify = silent.environmentNetwork(separateAt, &f.Verifier.Own.environmentKeys)
	}
	verify = silent.network(fields.Path{"verifier"}, verify, "", f.Verifier.Network, f.Verifier.AllowedHosts)
	n.Verify = r.network(at.Child("verifier"), verify, "", k.Verifier.Network, k.Verifier.AllowedHosts)
	if n.PublicDuringVerify {
		n.Verify = c.Environment.Networks.Verify
	}
	return n
}

// Steps returns the steps of the task, each as a task: its instruction, tests, solution and
// configuration. It is empty for a task without steps.
func (t *Task) Steps() []*Task {
	if t.step != "" {
		return nil
	}
	var all []*Task
	for i, s := range t.Config.Steps {
		step := &Task{
			Name: t.Name, Dir: t.Dir, FS: t.FS, Format: t.Format, Config: t.Config, variables: t.variables,
			GitCommitID: t.GitCommitID, RepoPath: t.RepoPath, Origin: t.Origin, has: t.has, imageOf: t.ImageOf(), services: t.services, testsServices: t.testsServices, step: stepsDir + "/" + s.Name,
		}
		if i < len(t.variables.steps) {
			step.variables = t.variables.steps[i]
		}
		c := &step.Config
		c.Steps, c.Agent, c.Verifier, c.Artifacts = nil, s.Agent, s.Verifier, s.Artifacts
		c.Environment.Networks, c.Environment.Healthcheck = s.Networks, s.Healthcheck
		all = append(all, step)
	}
	return all
}

// StepName returns the name of a step; "" for a task.
func (t *Task) StepName() string { return strings.TrimPrefix(t.step, stepsDir+"/") }

// AllTests returns the directories of the tests, each of which is put over those before: the
// task's, and that of a step. It follows links. The test.sh that counts is the last one.
func (t *Task) AllTests() ([]fs.FS, error) {
	if t.step == "" {
		tests, err := t.Tests()
		return []fs.FS{tests}, err
	}
	var all []fs.FS
	for _, dir := range []string{testsDir, t.step + "/" + testsDir} {
		if !taskdir.IsDir(t.FS, dir) {
			continue
		}
		tests, err := followed(t.copied(), dir)
		if err != nil {
			return nil, err
		}
		all = append(all, tests)
	}
	if len(all) == 0 {
		return nil, &fs.PathError{Op: "open", Path: t.step + "/" + testsDir, Err: fs.ErrNotExist}
	}
	return all, nil
}

// WorkDir returns the files that are copied into the working directory before a step; nil if it
// has none. setup reports whether its setup.sh runs then. It follows links.
func (t *Task) WorkDir() (files fs.FS, setup bool, err error) {
	files, err = t.ofStep("workdir")
	return files, files != nil && taskdir.IsFile(files, SetupScript), err
}

// SetupScript is the script in the working directory of a step that runs before the agent.
const SetupScript = "setup.sh"

func (t *Task) ofStep(dir string) (fs.FS, error) {
	if t.step == "" || !taskdir.IsDir(t.FS, path.Join(t.step, dir)) {
		return nil, nil
	}
	return followed(t.FS, path.Join(t.step, dir))
}

// solutionDir returns the directory of the solution: a step's, if there is one, or the task's.
func (t *Task) solutionDir() string {
	if own := t.step + "/" + solutionDir; t.step != "" && taskdir.IsDir(t.FS, own) {
		return own
	}
	return solutionDir
}

// checkSteps finds the problems with the files of the steps.
func (p *problems) checkSteps(t *Task) {
	for _, step := range t.Steps() {
		dir := step.step
		if !p.wantDirectory(t.FS, dir, "it holds the step's "+instructionFile) {
			continue
		}
		p.checkInstruction(t.FS, dir+"/"+instructionFile)
		if services := dir + "/" + testsDir + "/docker-compose.yaml"; taskdir.IsFile(t.FS, services) {
			p.add(services, "is not supported for a step", leaveOut)
		}
		own := dir + "/" + testsDir
		if _, bundled := step.Apart(false); !bundled {
			script := own + "/" + testName
			if !taskdir.IsFile(t.FS, script) && taskdir.IsFile(t.FS, testsScript) {
				script = testsScript
			}
			if !taskdir.IsFile(t.copied(), script) {
				p.wantFile(t.copied(), script, "it is the script that writes the step's reward; "+testsScript+" is that of steps without one")
			}
			p.checkOptional(t.copied(), own)
		}
		p.checkOptional(t.FS, dir+"/workdir")
		p.checkOptional(t.copied(), dir+"/"+solutionDir)
	}
}

// checkOptional checks a directory that is copied, if it is there.
func (p *problems) checkOptional(fsys fs.FS, dir string) {
	if _, err := fs.Lstat(fsys, dir); err == nil && p.wantDirectory(fsys, dir, "") {
		p.checkCopied(fsys, dir)
	}
}
