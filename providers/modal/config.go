package modal

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// defaultApp is the app of environments whose configuration names none.
const defaultApp = "rollout"

// config is the checked environment.provider_config.
type config struct {
	app            string // "": defaultApp, but environments of all apps are listed
	environment    string
	regions        []string
	verbose        bool
	registry       string
	registrySecret string
	builder        string
	price          price
}

func noFiles() environment.Files { return environment.Files{Kind: environment.NoFiles} }

var priceKeys = []environment.ConfigKey{
	{Name: "core_hour", Doc: "A physical core for an hour.", Files: noFiles()},
	{Name: "gib_hour", Doc: "A GiB of memory for an hour.", Files: noFiles()},
	{Name: "gpu_hour", Doc: "A GPU for an hour.", Files: noFiles()},
}

// Keys lists the keys of environment.provider_config.
var Keys = []environment.ConfigKey{
	{Name: "app_name", Default: defaultApp, Doc: "The Modal app of the sandboxes. It is created if it does not exist.", Files: noFiles()},
	{Name: "environment", Doc: "The Modal environment. By default it is the one of your profile.", Files: noFiles()},
	{Name: "region", Doc: "The region of the sandboxes, such as `us-east`. A region costs more than none.", Files: noFiles()},
	{Name: "regions", Doc: "A list of regions, one of which takes a sandbox. Not together with `region`.", Files: noFiles()},
	{Name: "verbose", Default: "false", Doc: "Modal logs more about each sandbox.", Files: noFiles()},
	{Name: "registry", Doc: "Where Rollout pushes images of Dockerfiles that Modal cannot build from layers alone, such as `ghcr.io/org/evals`.", Files: noFiles()},
	{Name: "registry_secret", Doc: "The name of a Modal secret with `REGISTRY_USERNAME` and `REGISTRY_PASSWORD`, with which Modal pulls images.", Files: noFiles()},
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
		case "app_name":
			c.app = r.Name(key, value, objectName, nameForm)
		case "environment":
			c.environment = r.Name(key, value, objectName, nameForm)
		case "registry_secret":
			c.registrySecret = r.Name(key, value, objectName, nameForm)
		case "region":
			c.regions = append(c.regions, r.Name(key, value, objectName, nameForm))
		case "regions":
			c.regions = append(c.regions, names(r, key, value)...)
		case "verbose":
			truth, ok := value.(bool)
			if !ok {
				r.Complain(key, "", "must be true or false")
			}
			c.verbose = truth
		case "registry":
			c.registry = r.Registry(key, value)
		case "builder":
			c.builder = r.Choice(key, value, registryimage.BuilderNames)
		case "price":
			p := &c.price
			r.Prices(key, value, priceKeys, map[string]**float64{"core_hour": &p.coreHour, "gib_hour": &p.gibHour, "gpu_hour": &p.gpuHour})
		default:
			r.Unknown(key, "the modal provider knows", Keys)
		}
	}
	if cfg["region"] != nil && cfg["regions"] != nil {
		r.Complain("regions", "put all regions into regions", "region is set, too")
	}
	return c, r.Problems()
}

// objectName matches names that Modal accepts. Source: the client's checkObjectName.
var objectName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,63}$`)

const nameForm = "1 to 63 letters, digits, dashes, dots and underscores"

func names(r *hosted.Reader, where string, value any) []string {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		r.Complain(where, `e.g. ["us-east", "us-west"]`, "must be a list of regions")
	}
	var out []string
	for i, item := range list {
		out = append(out, r.Name(fmt.Sprintf("%s.%d", where, i), item, objectName, nameForm))
	}
	return out
}
