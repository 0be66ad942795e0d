package task

import (
	"cmp"
	"fmt"
	"maps"
	"path"

	"github.com/org/rollout-action/internal/core/compose"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task/taskdir"
	"github.com/org/rollout-action/internal/lib/diag"
)

// Services returns the docker-compose.yaml of the task's environment; nil: there is none. The
// settings of main that every provider has are in Config and EnvironmentEnv. It must not change.
func (t *Task) Services() *compose.File { return t.services }

// loadServices reads the files of services.
func (t *Task) loadServices(p *problems) {
	t.services = p.harborCompose(environmentDir, t.variables.environment, t.Config.Environment.DockerImage != "")
	t.takeMain()
	t.checkServiceNames(p)
	if tests, bundled := t.Apart(false); bundled {
		variables := t.variables.environment
		if t.variables.apart {
			variables = t.variables.separate
		}
		prebuilt := tests.Config.Environment.DockerImage != ""
		t.testsServices = p.harborCompose(testsDir, variables, prebuilt)
		named := prebuilt || t.hasFile(t.FS, testsDockerfile)
		if t.testsServices != nil && !named && t.testsServices.MainImage() == (compose.Image{}) {
			p.add(testsCompose, "gives main no image", "add "+testsDockerfile+", or give main a build or an image")
		}
	}
}

// takeMain takes over the settings of main that every provider has. Those of task.toml win.
func (t *Task) takeMain() {
	if t.services == nil {
		return
	}
	main := t.services.Services.Main
	t.Config.Environment.WorkDir = cmp.Or(t.Config.Environment.WorkDir, main.WorkDir)
	t.variables.environment = over(main.Env, t.variables.environment)
}

// checkServiceNames finds artifacts and commands of services that the task does not have.
func (t *Task) checkServiceNames(p *problems) {
	if t.services == nil && taskdir.IsFile(t.FS, path.Join(environmentDir, compose.Name)) {
		return // it has problems
	}
	known := map[string]bool{"": true, environment.MainService: true}
	if t.services != nil {
		for _, name := range t.services.Services.Names() {
			known[name] = true
		}
	}
	missing := func(key, name string) {
		if !known[name] {
			p.add(t.Files().Config, fmt.Sprintf("%q: there is no service %q in %s", key, name, path.Join(environmentDir, compose.Name)), "name one of its services")
			known[name] = true // once is enough
		}
	}
	configs := []Config{t.Config}
	for _, step := range t.Steps() {
		configs = append(configs, step.Config)
	}
	for _, c := range configs {
		for _, a := range c.Artifacts {
			missing("artifacts.service", a.Service)
		}
		for _, k := range c.Verifier.Collect {
			missing("verifier.collect.service", k.Service)
		}
	}
}

// over returns the variables of two sources. Those of the second win, as in Harbor.
func over(first, second map[string]string) map[string]string {
	all := maps.Clone(first)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, second)
	return all
}

// harborCompose reads the docker-compose.yaml in a directory of the task; nil: there is none, or it
// has problems, which p has then. Harbor knows no other name: docker-compose.yml is a file like any
// other. The task names an image for main if prebuilt. Source: Harbor 0.26,
// src/harbor/environments/definition.py.
func (p *problems) harborCompose(dir string, variables map[string]string, prebuilt bool) *compose.File {
	if !taskdir.IsFile(p.task.FS, path.Join(dir, compose.Name)) {
		return nil
	}
	return p.compose(compose.Source{FS: p.task.FS, Dir: dir, Prebuilt: prebuilt, Lookup: func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}})
}

// compose reads the docker-compose.yaml of src; nil: it has problems, which p has then.
func (p *problems) compose(src compose.Source) *compose.File {
	name := path.Join(src.Dir, compose.Name)
	file, found := compose.Read(src)
	for _, problem := range found {
		d := diag.Diagnostic{File: p.path(name), Line: problem.Line, Column: problem.Column, Message: problem.Message, Hint: problem.Hint}
		if problem.Warning {
			d.Severity = diag.Warning
		} else {
			d.Hint = cmp.Or(d.Hint, leaveOut)
		}
		p.list = append(p.list, d)
	}
	return file
}
