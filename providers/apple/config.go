package apple

import (
	"maps"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// config is the checked environment.provider_config.
type config struct {
	platform string
	cpus     int
	memoryMB int
}

func noFiles() environment.Files { return environment.Files{Kind: environment.NoFiles} }

// platforms are those of images that a Mac runs, linux/amd64 with Rosetta.
var platforms = []string{"linux/arm64", "linux/amd64"}

// Keys lists the keys of environment.provider_config.
var Keys = []environment.ConfigKey{
	{Name: "platform", Default: platforms[0], Doc: "The platform of images: `linux/arm64`, or `linux/amd64`, which Rosetta translates.", Files: noFiles()},
	{Name: "cpus", Doc: "The CPUs of a task that asks for none. By default `container` decides: 4.", Files: noFiles()},
	{Name: "memory_mb", Doc: "The memory of a task that asks for none. By default `container` decides: 1024.", Files: noFiles()},
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
		case "platform":
			c.platform = r.Choice(key, value, platforms)
		case "cpus":
			c.cpus = r.Number(key, value, 256)
		case "memory_mb":
			c.memoryMB = r.Number(key, value, 1<<20)
		default:
			r.Unknown(key, "the apple provider knows", Keys)
		}
	}
	return c, r.Problems()
}
