package trial

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/memfs"
	"github.com/org/rollout-action/internal/lib/quantity"
	"github.com/org/rollout-action/internal/run/trial/access"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/layer"
	"github.com/org/rollout-action/internal/run/trial/networks"
	"github.com/org/rollout-action/internal/run/trial/services"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// role holds the settings in which the trial's own agent and its judges differ.
type role struct {
	// judges is set for a judge: its replies are kept, and git runs no programs of a repository
	// that it reads.
	judges bool
	script string            // names its execute script in messages
	below  string            // the directory of its files, below the trial's; "" is the trial's
	dir    string            // of its execute script in the environment; "": it is one call of its model
	user   string            // that it runs as; "" is the image's
	env    map[string]string // its additional variables
	calls  *access.Calls     // the record of its calls; nil: a new one in the directory of its record
	// instruction returns the text of its instruction.
	instruction func() (string, error)
	// files returns the files that it needs in addition to the log directories and scripts in
	// plan.files.
	files func() ([]environment.Copy, error)
}

// plan holds the settings of the task and the job for a trial. It never changes.
type plan struct {
	spec     Spec
	job      config.Job
	rules    task.Rules // of the task's format
	timeouts timing.Timeouts
	networks task.Networks
	role     role
	stay     time.Duration // the time that a visitor may stay in the environment; 0: there is none
}

func newPlan(spec Spec, job config.Job) plan {
	p := plan{
		spec: spec, job: job, rules: spec.Task.Rules(), timeouts: timing.TimeoutsOf(job, spec.Task.Config), networks: spec.Networks(job),
	}
	p.role = role{
		script: "the agent's execute script", dir: environment.ScriptsDir, user: string(spec.Task.Config.Agent.User),
		instruction: func() (string, error) {
			text, err := spec.Task.Instruction()
			if err != nil {
				return "", failure.Unreadable(spec.Task.Files().Instruction, err)
			}
			return string(text), nil
		},
		files: func() ([]environment.Copy, error) { return taskFiles(spec, job) },
	}
	return p
}

// Networks returns the networks of a trial's phases.
func (s Spec) Networks(job config.Job) task.Networks {
	if s.Offline {
		none := environment.Network{Mode: environment.NetworkNone}
		return task.Networks{Install: none, Agent: none, Verify: none}
	}
	return networks.Of(job, s.Task.Config)
}

// initialNetwork returns the network of a new environment: that of its first phase.
func (p *plan) initialNetwork(agentInstalled bool) environment.Network {
	if p.spec.Agent.Install != "" && !agentInstalled {
		return p.networks.Install
	}
	return p.networks.Agent
}

// limits returns the task's resources with the job's overrides.
func (p *plan) limits() environment.Limits { return p.spec.Limits(p.job) }

// Limits returns the resources of a trial's environment: the task's, with the job's overrides.
func (s Spec) Limits(of config.Job) environment.Limits {
	t, job := s.Task.Config.Environment, of.Environment
	limits := environment.Limits{MilliCPUs: int64(t.MilliCPUs), Memory: int64(t.Memory), Storage: int64(t.Storage), GPUs: int64(t.GPUs), GPUTypes: strings.Join(t.GPUTypes, ",")}
	if job.OverrideCPUs != nil {
		limits.MilliCPUs = int64(*job.OverrideCPUs)
	}
	if job.OverrideMemory != nil {
		limits.Memory = int64(*job.OverrideMemory)
	}
	if job.OverrideStorage != nil {
		limits.Storage = int64(*job.OverrideStorage)
	}
	return limits
}

// unenforced returns those of the limits that were not applied which task.toml or the job sets. It
// leaves out defaults.
func (p *plan) unenforced(notApplied []string) []string {
	asked, job := p.spec.Task.Config.Environment.Explicit, p.job.Environment
	isDefault := map[string]bool{
		"cpus":    !asked.CPUs && job.OverrideCPUs == nil,
		"memory":  !asked.Memory && job.OverrideMemory == nil,
		"storage": !asked.Storage && job.OverrideStorage == nil,
	}
	return slices.DeleteFunc(slices.Clone(notApplied), func(limit string) bool { return isDefault[limit] })
}

// memoryLimit returns the memory limit of the environment and the way to raise it: "96Mi: raise
// environment.memory in task.toml". It returns "" if memory is not limited.
func (p *plan) memoryLimit(unenforced []string) string {
	limit := p.limits().Memory
	if limit == 0 || slices.Contains(unenforced, "memory") {
		return ""
	}
	where := "environment.memory in task.toml"
	if p.job.Environment.OverrideMemory != nil {
		where = "environment.override_memory in the job"
	}
	return quantity.Text(limit) + ": raise " + where
}

// files returns the files of an environment before any command runs in it: the instruction, the
// agent's scripts (for the oracle: the solution) and the log directories.
func (p *plan) files() ([]environment.Copy, error) {
	files, err := p.role.files()
	return slices.Concat(p.logDirs(), files, p.scripts()), err
}

// taskFiles returns the instruction and, for the oracle, the solution.
func taskFiles(spec Spec, job config.Job) ([]environment.Copy, error) {
	if len(spec.Task.Config.Steps) > 0 { // each step has its own
		return nil, nil
	}
	instruction, err := spec.Task.Instruction()
	if err != nil {
		return nil, failure.Unreadable(spec.Task.Files().Instruction, err)
	}
	dir, name := path.Split(job.InstructionPath)
	files := []environment.Copy{{Src: memfs.Dir{name: {Data: instruction, Mode: 0o644}}, Dst: path.Clean(dir)}}
	if spec.Agent.Name == agent.Oracle {
		solution, err := spec.Task.Solution()
		if err != nil {
			return nil, failure.Unreadable(path.Dir(spec.Task.Files().Solution)+"/", err)
		}
		for _, dir := range spec.Task.Rules().SolutionDirs {
			files = append(files, environment.Copy{Src: artifacts.WorldReadable{FS: solution, Program: spec.Task.Rules().SolutionScript}, Dst: dir, Clean: true})
		}
	}
	return files, nil
}

// mounted returns the task's files that its environments have in addition to those of the image.
// They come before all others, because some replace a directory.
func (p *plan) mounted() ([]environment.Copy, error) {
	if p.role.judges {
		return nil, nil
	}
	return mounts(p.spec.Task, false)
}

// mounts returns the files of mounted; again selects those that the agent must not have changed.
func mounts(t *task.Task, again bool) ([]environment.Copy, error) {
	all, err := t.Mounts()
	if err != nil {
		return nil, failure.Unreadable("a volume", err)
	}
	var files []environment.Copy
	for _, m := range all {
		if m.ReadOnly || !again {
			files = append(files, environment.Copy{Src: artifacts.WorldReadable{FS: m.Files}, Dst: m.Dir, Clean: m.Whole})
		}
	}
	return files, nil
}

// scripts returns the agent's scripts. The install script is never in the directory of a judge,
// which only the judge's user can enter, because it runs as the user of the image. The oracle has
// none.
func (p *plan) scripts() (files []environment.Copy) {
	for _, script := range []struct{ dir, name, text string }{
		{environment.ScriptsDir, installScript, p.spec.Agent.Install}, {p.role.dir, executeScript, p.spec.Agent.Execute},
	} {
		if script.text != "" && p.spec.Agent.Name != agent.Oracle {
			files = append(files, environment.Copy{Src: memfs.Dir{script.name: {Data: []byte(script.text), Mode: 0o755}}, Dst: script.dir})
		}
	}
	return files
}

// agentFiles returns the agent's own files. A layer has them already, with the changes of the
// install script.
func (p *plan) agentFiles() []environment.Copy {
	if fsys := p.spec.Files.FS(); fsys != nil {
		return []environment.Copy{{Src: fsys, Dst: "/"}}
	}
	return nil
}

// installFiles returns the files of an environment that becomes a layer: those that the install
// script may need, and none of the task, because tasks share layers.
func (p *plan) installFiles() []environment.Copy {
	script := memfs.Dir{installScript: {Data: []byte(p.spec.Agent.Install), Mode: 0o755}}
	return append(append(p.logDirs(), p.agentFiles()...), environment.Copy{Src: script, Dst: environment.ScriptsDir})
}

// logDirs returns the log directories, empty and writable for all users.
func (p *plan) logDirs() []environment.Copy {
	var dirs []environment.Copy
	for _, dir := range p.rules.LogDirs {
		dirs = append(dirs, environment.Copy{Src: memfs.Dir{}, Dst: dir, Mode: 0o777})
	}
	return dirs
}

// agentEnv returns the variables of the agent's scripts, in addition to those of the image.
func (p *plan) agentEnv() map[string]string {
	env := map[string]string{}
	if p.spec.Agent.Name == agent.Oracle {
		maps.Copy(env, p.spec.Task.SolutionEnv())
	}
	maps.Copy(env, p.spec.Env)
	env[instructionVar] = p.job.InstructionPath
	maps.Copy(env, p.role.env)
	if p.spec.Agent.Preset != "" {
		p.taskTools(env)
		env[presets.NetworkVar] = string(cmp.Or(p.networks.Agent.Mode, environment.NetworkPublic))
	}
	return env
}

// taskTools adds the task's MCP servers and skills to the variables of an agent with a preset. Of
// two servers with one name, the task's counts: its verifier may depend on it.
func (p *plan) taskTools(env map[string]string) {
	task := p.spec.Task.Config.Environment
	if task.SkillsDir != "" {
		env[presets.TaskSkillsVar] = task.SkillsDir
	}
	if len(task.MCPServers) == 0 {
		return
	}
	all := map[string]agent.StandardMCPServer{}
	if own := env[presets.MCPVar]; own != "" {
		_ = json.Unmarshal([]byte(own), &all) // the agent's own value is replaced if it cannot be parsed
	}
	servers := agent.MCPServers{}
	for _, s := range task.MCPServers {
		servers[s.Name] = s.Server()
	}
	maps.Copy(all, servers.Standard())
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // texts only
	}
	env[presets.MCPVar] = string(text)
}

// cachesInstall reports whether the agent's install script runs once for many trials. A container
// among services is no image for others.
func (p *plan) cachesInstall() bool {
	return p.spec.Agent.CachesInstall() && !services.Needed(p.spec.Task)
}

// layerInputs returns the inputs of the agent's layer on an image.
func (p *plan) layerInputs(provider, imageID string) layer.Inputs {
	env, public := p.spec.Task.Config.Environment, p.job.Redact.Except
	return layer.Inputs{
		Provider: provider, Image: imageID, Install: p.spec.Agent.Install, Files: p.spec.Files.ID(), Instruction: p.job.InstructionPath,
		WorkDir: env.WorkDir, LogDirs: p.rules.LogDirs, Config: p.job.Environment.ProviderConfig,
		Env:         layer.Variables(p.spec.Agent.Env, p.spec.Env, public),
		TaskEnv:     layer.Variables(env.Env, p.spec.Task.EnvironmentEnv(), public),
		Network:     networks.Restriction(p.networks.Install),
		Healthcheck: env.Healthcheck,
	}
}

const (
	// lifetimeMargin covers everything without its own timeout: copies, retries, waits for the
	// place of a judge.
	lifetimeMargin = 6 * time.Hour
	// visitLifetime limits the time that a user may stay in an environment.
	visitLifetime = 7 * 24 * time.Hour
	maxLifetime   = 10 * 365 * 24 * time.Hour
)

// lifetime returns the maximum time that the environment is needed: twice the sum
// of all timeouts, because time in which this machine is suspended counts for the environment.
func (p *plan) lifetime() time.Duration {
	if p.stay > 0 {
		return p.stay
	}
	seconds := 0.0
	for _, d := range []time.Duration{p.timeouts.Install, p.timeouts.Execute, p.timeouts.Verify, p.timeouts.StartPeriod, p.timeouts.Healthcheck} {
		seconds += d.Seconds()
	}
	for _, s := range p.spec.Task.Steps() {
		of := timing.TimeoutsOf(p.job, s.Config)
		seconds += (2*of.Execute + of.Verify + of.StartPeriod + of.Healthcheck).Seconds() // Execute limits the setup script, too
	}
	attempts := float64(judging.Attempts(p.job))
	for _, j := range p.spec.Judges {
		seconds += attempts * (j.TimeoutSec*p.job.TimeoutMultiplier + p.timeouts.Install.Seconds() + timing.StartTimeout.Seconds())
	}
	return time.Duration(min(2*seconds, maxLifetime.Seconds())*float64(time.Second)) + lifetimeMargin
}
