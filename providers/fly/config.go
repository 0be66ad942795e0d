package fly

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// defaultOrg is the organization of users that have made no other one.
const defaultOrg = "personal"

// config is the checked environment.provider_config.
type config struct {
	app      string // "": one for each job
	org      string
	region   string
	cpuKind  string
	cpus     int
	memoryMB int
	registry string
	builder  string
	price    price
}

func noFiles() environment.Files { return environment.Files{Kind: environment.NoFiles} }

var priceKeys = []environment.ConfigKey{
	{Name: "cpu_hour", Doc: "A CPU for an hour.", Files: noFiles()},
	{Name: "gib_hour", Doc: "A GiB of memory for an hour.", Files: noFiles()},
}

// Keys lists the keys of environment.provider_config.
var Keys = []environment.ConfigKey{
	{Name: "app", Doc: "The Fly app of the machines, which must exist. By default, each job has an app, `rollout-` and 16 digits, which is removed with its last machine.", Files: noFiles()},
	{Name: "org", Default: defaultOrg, Doc: "The organization in which the apps of jobs are created.", Files: noFiles()},
	{Name: "region", Doc: "The region of the machines, such as `iad`. By default Fly chooses one near you.", Files: noFiles()},
	{Name: "cpu_kind", Default: shared, Doc: "`shared` or `performance`.", Files: noFiles()},
	{Name: "cpus", Default: "1", Doc: "The CPUs of a task that asks for none.", Files: noFiles()},
	{Name: "memory_mb", Default: fmt.Sprint(defaultMemory), Doc: "The memory of a task that asks for none.", Files: noFiles()},
	{Name: "registry", Doc: "Where Rollout pushes images of Dockerfiles, such as `ghcr.io/org/evals`. Fly must be able to pull from it.", Files: noFiles()},
	{Name: "builder", Doc: "Who builds the images for `registry`: `docker`, `buildkit` or `sandbox`. By default it is the first of these that can be used.", Files: noFiles()},
	{Name: "price", Doc: "Prices in US dollars that replace those of the table.", Files: noFiles(), Keys: priceKeys},
}

// Check returns all problems of an environment.provider_config, sorted by path.
func Check(cfg map[string]any) []environment.ConfigProblem {
	_, problems := readConfig(cfg)
	return problems
}

func readConfig(cfg map[string]any) (config, []environment.ConfigProblem) {
	c, r := config{}, &hosted.Reader{}
	for _, key := range slices.Sorted(maps.Keys(cfg)) {
		value := cfg[key]
		switch key {
		case "app":
			c.app = r.Name(key, value, objectName, "1 to 63 small letters, digits and dashes")
		case "org":
			c.org = r.Name(key, value, objectName, "1 to 63 small letters, digits and dashes")
		case "region":
			c.region, _ = value.(string)
			if !regionName.MatchString(c.region) {
				r.Complain(key, "e.g. iad", "must be a region's three letters")
			}
		case "cpu_kind":
			c.cpuKind = r.Choice(key, value, slices.Sorted(maps.Keys(kinds)))
		case "cpus":
			c.cpus = r.Number(key, value, 16)
		case "memory_mb":
			c.memoryMB = r.Number(key, value, 128<<10)
		case "registry":
			c.registry = r.Registry(key, value)
		case "builder":
			c.builder = r.Choice(key, value, registryimage.BuilderNames)
		case "price":
			r.Prices(key, value, priceKeys, map[string]**float64{"cpu_hour": &c.price.cpuHour, "gib_hour": &c.price.gibHour})
		default:
			r.Unknown(key, "the fly provider knows", Keys)
		}
	}
	return c, r.Problems()
}

var (
	objectName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	regionName = regexp.MustCompile(`^[a-z]{3}$`)
)
