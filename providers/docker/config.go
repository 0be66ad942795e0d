package docker

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/mount"

	"github.com/org/rollout-action/internal/core/environment"
)

// Problem is an invalid value of environment.provider_config.
type Problem = environment.ConfigProblem

// config is environment.provider_config.
type config struct {
	network   string
	runtime   string
	mounts    []mount.Mount
	pidsLimit int64
}

// defaultPids bounds the processes and threads of an environment that sets no limit, so that a fork
// bomb is that environment's problem alone.
const defaultPids = 4096

// Keys are the keys of environment.provider_config.
var Keys = []environment.ConfigKey{
	{Name: "network", Default: "bridge", Doc: "The network of phases with a public network: the name of one of the engine's networks, or `host`. With `none`, trials have no network in any phase.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "runtime", Doc: "The OCI runtime, for example `nvidia`. Default: the engine's.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "mounts", Doc: "Directories and files of the engine's host that trials see: a list of `{source, target, read_only}` or of `source:target[:ro]`. All paths are absolute.", Files: environment.Files{Kind: environment.FilesElsewhere}},
	{Name: "pids_limit", Default: strconv.Itoa(defaultPids), Doc: "The most processes and threads of one environment.", Files: environment.Files{Kind: environment.NoFiles}},
}

// Check returns all problems of an environment.provider_config, sorted by path.
func Check(cfg map[string]any) []Problem {
	_, problems := readConfig(cfg)
	return problems
}

// Unaddressed returns the keys of a valid environment.provider_config that bring in content no
// digest covers.
func Unaddressed(cfg map[string]any) []string {
	c, _ := readConfig(cfg)
	var keys []string
	if len(c.mounts) > 0 {
		keys = append(keys, "mounts (files of the engine's machine)")
	}
	if !slices.Contains([]string{"", "none", "bridge", "default"}, c.network) {
		keys = append(keys, "network: "+c.network+" (the servers there)")
	}
	return keys
}

// parseConfig returns the checked configuration; all problems are one error.
func parseConfig(cfg map[string]any) (config, error) {
	c, problems := readConfig(cfg)
	var errs []error
	for _, problem := range problems {
		text := "environment.provider_config." + problem.Path + ": " + problem.Message
		if problem.Hint != "" {
			text += " (" + problem.Hint + ")"
		}
		errs = append(errs, errors.New(text))
	}
	return c, errors.Join(errs...)
}

func readConfig(cfg map[string]any) (config, []Problem) {
	c := config{pidsLimit: defaultPids}
	var problems []Problem
	complain := func(where, message, hint string) {
		problems = append(problems, Problem{Path: where, Message: message, Hint: hint})
	}
	for _, key := range slices.Sorted(maps.Keys(cfg)) {
		value := cfg[key]
		switch key {
		case "network", "runtime":
			text, ok := value.(string)
			if !ok || text == "" {
				complain(key, "must be a name", "")
				continue
			}
			if key == "network" {
				c.network = text
			} else {
				c.runtime = text
			}
		case "pids_limit":
			n, ok := environment.WholeNumber(value)
			if !ok || n < 1 {
				complain(key, "must be a whole number above 0", "")
				continue
			}
			c.pidsLimit = n
		case "mounts":
			var more []Problem
			c.mounts, more = readMounts(value)
			problems = append(problems, more...)
		case "privileged":
			complain(key, "privileged containers are refused",
				"an agent in a privileged container controls the whole machine; use runtime, mounts or network for the access that it needs")
		default:
			problems = append(problems, environment.UnknownKey(key, "the docker provider knows", environment.ConfigKeyNames(Keys)...))
		}
	}
	return c, problems
}

func readMounts(value any) ([]mount.Mount, []Problem) {
	list, ok := value.([]any)
	if !ok {
		return nil, []Problem{{Path: "mounts", Message: "must be a list", Hint: `e.g. ["/srv/cache:/cache:ro"]`}}
	}
	var mounts []mount.Mount
	var problems []Problem
	for i, item := range list {
		where := fmt.Sprintf("mounts.%d", i)
		var m mount.Mount
		var more []Problem
		switch item := item.(type) {
		case string:
			m, more = mountFromText(where, item)
		case map[string]any:
			m, more = mountFromMap(where, item)
		default:
			more = []Problem{{Path: where, Message: "must be {source, target, read_only} or \"source:target[:ro]\""}}
		}
		if len(more) == 0 {
			more = checkMount(where, m)
		}
		mounts, problems = append(mounts, m), append(problems, more...)
	}
	return mounts, problems
}

func mountFromText(where, text string) (mount.Mount, []Problem) {
	parts := strings.Split(text, ":")
	readOnly := len(parts) == 3 && parts[2] == "ro"
	if len(parts) != 2 && !readOnly {
		return mount.Mount{}, []Problem{{Path: where, Message: fmt.Sprintf("%q is not source:target or source:target:ro", text)}}
	}
	return mount.Mount{Type: mount.TypeBind, Source: parts[0], Target: parts[1], ReadOnly: readOnly}, nil
}

func mountFromMap(where string, item map[string]any) (mount.Mount, []Problem) {
	m := mount.Mount{Type: mount.TypeBind}
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(item)) {
		var ok bool
		switch key {
		case "source":
			m.Source, ok = item[key].(string)
		case "target":
			m.Target, ok = item[key].(string)
		case "read_only":
			m.ReadOnly, ok = item[key].(bool)
		default:
			problems = append(problems, environment.UnknownKey(where+"."+key, "a mount has", "source", "target", "read_only"))
			continue
		}
		if !ok {
			problems = append(problems, Problem{Path: where + "." + key, Message: "has the wrong type"})
		}
	}
	return m, problems
}

func checkMount(where string, m mount.Mount) []Problem {
	var problems []Problem
	for _, side := range []struct{ name, value string }{{"source", m.Source}, {"target", m.Target}} {
		if !path.IsAbs(side.value) {
			problems = append(problems, Problem{
				Path:    where + "." + side.name,
				Message: fmt.Sprintf("%q is not an absolute path", side.value),
				Hint:    "mounts are made by the engine, on its host",
			})
		}
	}
	for _, ours := range environment.SpecialDirs() {
		if path.IsAbs(m.Target) && (environment.Within(m.Target, ours) || environment.Within(ours, m.Target)) {
			problems = append(problems, Problem{
				Path:    where + ".target",
				Message: fmt.Sprintf("%q would put the host's files at %s, which rollout fills, empties and copies", m.Target, ours),
				Hint:    "choose another target",
			})
			break
		}
	}
	return problems
}

// names reports whether the configuration names things that may not exist on the engine.
func (c config) names() bool { return c.network != "" || c.runtime != "" || len(c.mounts) > 0 }

// hintAtConfig adds a hint at the configuration to the error of a container that did not start, if
// it has no better one.
func (c config) hintAtConfig(err error) error {
	var e *environment.Error
	if c.names() && errors.As(err, &e) &&
		e.Kind == environment.KindStart && !e.Transient && e.Hint == "" {
		e.Hint = "check that the network, runtime and mounts of environment.provider_config exist on the engine"
	}
	return err
}

// checkCopies refuses copies that would write or remove files of the engine's host.
func (c config) checkCopies(files []environment.Copy) error {
	for _, f := range files {
		for _, m := range c.mounts {
			if environment.Within(f.Dst, m.Target) || f.Clean && environment.Within(m.Target, f.Dst) {
				return &environment.Error{
					Kind: environment.KindCopy,
					Hint: "mount it elsewhere, or copy to another path, for example with instruction_path",
					Err:  fmt.Errorf("cannot copy to %s: the host's files are mounted at %s", f.Dst, m.Target),
				}
			}
		}
	}
	return nil
}
