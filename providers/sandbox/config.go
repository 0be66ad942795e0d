package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// Name selects this provider in environment.type.
const Name = "sandbox"

// Problem describes an invalid value in environment.provider_config.
type Problem = environment.ConfigProblem

// The values of base: the root file system of environments.
const (
	baseAuto  = "auto"  // the image if it can be reached, else this machine's root
	baseHost  = "host"  // always this machine's root
	baseImage = "image" // always the image
)

// The values of network: the meaning of a public network.
const (
	networkOwn  = "own"  // the sandbox's own, connected to the outside
	networkHost = "host" // this machine's
	networkNone = "none" // the sandbox's own, with only a loopback device
)

// config is the checked environment.provider_config.
type config struct {
	base      string
	images    []string
	network   string
	scratch   string
	dir       string
	pidsLimit int64
	askedPids bool // pidsLimit was configured by the user
}

// defaultPids bounds the processes and threads of an environment without a configured limit, so
// that a fork bomb affects only that environment.
const defaultPids = 4096

// choices lists the values of enumerated keys, the default first.
var choices = map[string][]string{
	"base":    {baseAuto, baseHost, baseImage},
	"network": {networkOwn, networkHost, networkNone},
	"scratch": {"disk", "memory"},
}

// Keys lists the keys of environment.provider_config.
var Keys = []environment.ConfigKey{
	{Name: "base", Default: baseAuto, Doc: "The root file system of environments. `auto`: the image, or the root file system of this machine if the image cannot be reached. `host`: always the root file system of this machine; Rollout downloads nothing. `image`: the image, or the trial fails.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "images", Doc: "Files in which Rollout looks for images by their names: OCI layouts, OCI archives, and what `docker save` writes. A list.", Files: environment.Files{Kind: environment.LocalFiles}},
	{Name: "network", Default: networkOwn, Doc: "The network of phases with a public network. `own`: the sandbox's own network. `host`: the network of this machine, with everything that listens on localhost, and the servers of other trials; Rollout warns of it, and it cannot be restricted. `none`: only a loopback device, in all phases.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "scratch", Default: "disk", Doc: "Where the changes of a trial are stored: `disk` or `memory`. Only with `memory` does Rollout enforce a storage limit.", Files: environment.Files{Kind: environment.NoFiles}},
	{Name: "dir", Default: "~/.cache/rollout/sandbox", Doc: "The directory for layers and changes.", Files: environment.Files{Kind: environment.FilesElsewhere}},
	{Name: "pids_limit", Default: strconv.Itoa(defaultPids), Doc: "The most processes and threads of one environment.", Files: environment.Files{Kind: environment.NoFiles}},
}

// Check returns all problems of an environment.provider_config, sorted by path.
func Check(cfg map[string]any) []Problem {
	_, problems := readConfig(cfg)
	return problems
}

// Unaddressed returns the keys of a valid environment.provider_config that make trials depend on
// inputs outside of all digests.
func Unaddressed(cfg map[string]any) []string {
	var keys []string
	if cfg["base"] == baseHost {
		keys = append(keys, "base: host (this machine's files)")
	}
	if cfg["network"] == "host" {
		keys = append(keys, "network: host (this machine's servers)")
	}
	return keys
}

func readConfig(cfg map[string]any) (config, []Problem) {
	c := config{base: baseAuto, network: networkOwn, scratch: "disk", pidsLimit: defaultPids}
	texts := map[string]*string{"base": &c.base, "network": &c.network, "scratch": &c.scratch, "dir": &c.dir}
	var problems []Problem
	complain := func(where, message, hint string) {
		problems = append(problems, Problem{Path: where, Message: message, Hint: hint})
	}
	for _, key := range slices.Sorted(maps.Keys(cfg)) {
		value := cfg[key]
		text, isText := value.(string)
		switch {
		case choices[key] != nil:
			if !isText || !slices.Contains(choices[key], text) {
				complain(key, fmt.Sprintf("must be one of %s", strings.Join(choices[key], ", ")), "")
				continue
			}
			*texts[key] = text
		case key == "dir":
			if !isText || text == "" {
				complain(key, "must be a directory", "")
				continue
			}
			c.dir = text
		case key == "images":
			var more []Problem
			c.images, more = readImages(value)
			problems = append(problems, more...)
		case key == "pids_limit":
			n, ok := environment.WholeNumber(value)
			if !ok || n < 1 {
				complain(key, "must be a whole number above 0", "")
				continue
			}
			c.pidsLimit, c.askedPids = n, true
		default:
			problems = append(problems, environment.UnknownKey(key, "the sandbox provider knows", environment.ConfigKeyNames(Keys)...))
		}
	}
	return c, problems
}

func readImages(value any) ([]string, []Problem) {
	list, ok := value.([]any)
	if !ok {
		return nil, []Problem{{Path: "images", Message: "must be a list", Hint: `e.g. ["images/python.tar"]`}}
	}
	var images []string
	var problems []Problem
	for i, item := range list {
		text, ok := item.(string)
		if !ok || text == "" {
			problems = append(problems, Problem{Path: fmt.Sprintf("images.%d", i), Message: "must be the path of an OCI layout, OCI archive or docker archive"})
			continue
		}
		images = append(images, text)
	}
	return images, problems
}
