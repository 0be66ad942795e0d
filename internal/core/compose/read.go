package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/interpolation"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/environment"
)

// Name is the name of the file.
const Name = "docker-compose.yaml"

// projectName is COMPOSE_PROJECT_NAME: each trial has networks of its own, so that the same name
// does no harm.
const projectName = "trial"

// Read reads the file of src. It returns nil if there are problems other than warnings.
func Read(src Source) (*File, []Problem) {
	text, err := readFile(src.FS, path.Join(src.Dir, Name), maxSize)
	if err != nil {
		return nil, []Problem{{Message: "cannot be read: " + err.Error()}}
	}
	r := &reader{Source: src, text: text, file: &File{Images: map[string]Image{}}}
	r.root = r.document(text)
	if r.root == nil || len(r.problems) > 0 {
		return nil, r.problems
	}
	if project := r.load(); project != nil {
		r.project(project)
	}
	for _, p := range r.problems {
		if !p.Warning {
			return nil, r.problems
		}
	}
	return r.file, r.problems
}

// reader reads one file.
type reader struct {
	Source
	checker
	text []byte
	root *yaml.Node
	file *File
}

// at refuses the value at a path.
func (r *reader) at(path []string, hint, format string, args ...any) {
	r.refuse(locate(r.root, path...), hint, "%q: %s", shorten(strings.Join(path, ".")), shorten(fmt.Sprintf(format, args...)))
}

// load interprets the file as docker compose does. It opens no other file.
func (r *reader) load() *types.Project {
	details := types.ConfigDetails{
		WorkingDir:  "/",
		ConfigFiles: []types.ConfigFile{{Filename: Name, Content: withoutVersion(r.text, r.root)}},
		Environment: types.Mapping{},
	}
	project, err := loader.LoadWithContext(context.Background(), details, func(o *loader.Options) {
		o.SetProjectName(projectName, true)
		o.SkipExtends, o.SkipInclude, o.SkipResolveEnvironment, o.SkipResolveLabels, o.ResolvePaths = true, true, true, true, false
		o.SkipConsistencyCheck = true // main may have neither image nor build
		o.SkipNormalization = true
		o.Interpolate = &interpolation.Options{
			LookupValue: r.lookup, TypeCastMapping: o.Interpolate.TypeCastMapping,
			Substitute: func(text string, mapping template.Mapping) (string, error) {
				return template.SubstituteWithOptions(text, mapping, template.WithoutLogging)
			},
		}
	})
	if err != nil {
		r.problems = append(r.problems, Problem{Message: "is not valid: " + strings.Join(strings.Fields(shorten(err.Error())), " ")})
		return nil
	}
	return project
}

// lookup returns the value of a variable: of the task, or one that Harbor sets.
// Source: Harbor 0.26, environments/docker/compose_env.py.
func (r *reader) lookup(name string) (string, bool) {
	if value, ok := r.Lookup(name); ok {
		return value, true
	}
	switch name {
	case "COMPOSE_PROJECT_NAME":
		return projectName, true
	case "CONTEXT_DIR":
		return ".", true
	case "MAIN_IMAGE_NAME", "PREBUILT_IMAGE_NAME", "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME":
		return mainImage, true
	}
	for _, dir := range []string{"AGENT_LOGS", "VERIFIER_LOGS", "ARTIFACTS"} {
		below := map[string]string{"AGENT_LOGS": "agent", "VERIFIER_LOGS": "verifier", "ARTIFACTS": "artifacts"}[dir]
		if name == "HOST_"+dir+"_PATH" || name == "ENV_"+dir+"_PATH" {
			return environment.LogsDir + "/" + below, true
		}
	}
	return "", false
}

// mainImage is the value of MAIN_IMAGE_NAME: it means the task's image.
const mainImage = "rollout.invalid/main"

var serviceName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// project reads the interpreted file.
func (r *reader) project(p *types.Project) {
	if len(p.Services) > environment.MaxServices+1 {
		r.at([]string{"services"}, "", "there are %d services, and %d are the most", len(p.Services), environment.MaxServices)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Networks)) {
		r.file.Services.Networks = append(r.file.Services.Networks, environment.ServiceNetwork{Name: name, Internal: p.Networks[name].Internal})
		if d := p.Networks[name].Driver; d != "" && d != "bridge" {
			r.at([]string{"networks", name, "driver"}, "remove it", "only bridge is supported")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Volumes)) {
		r.file.Services.Volumes = append(r.file.Services.Volumes, name)
		if d := p.Volumes[name].Driver; d != "" && d != "local" {
			r.at([]string{"volumes", name, "driver"}, "remove it", "only local is supported")
		}
	}
	r.file.Services.Main = environment.Service{Name: environment.MainService, Networks: map[string]environment.Endpoint{defaultNetwork: {}}}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		if !serviceName.MatchString(name) {
			r.at([]string{"services", name}, "", "is not a name for a service")
			continue
		}
		s := service{reader: r, project: p, from: p.Services[name], to: environment.Service{Name: r.named(name)}, key: name}
		if r.Main != "" && name == environment.MainService && r.Main != name {
			r.at([]string{"services", name}, "give it another name", "in a trial, the agent's service has this name")
			continue
		}
		s.read()
		if s.main() {
			r.file.Services.Main = s.to
		} else {
			r.file.Services.Others = append(r.file.Services.Others, s.to)
		}
	}
	r.network()
	r.order()
}

// named returns the name in a trial of a service of the file.
func (r *reader) named(name string) string {
	if name == r.Main {
		return environment.MainService
	}
	return name
}

// defaultNetwork is the network of services that name none.
const defaultNetwork = "default"

// network adds the default network if a service is in it.
func (r *reader) network() {
	s := &r.file.Services
	has := slices.ContainsFunc(s.Networks, func(n environment.ServiceNetwork) bool { return n.Name == defaultNetwork })
	for _, service := range append(slices.Clone(s.Others), s.Main) {
		if _, in := service.Networks[defaultNetwork]; in && !has {
			s.Networks, has = append(s.Networks, environment.ServiceNetwork{Name: defaultNetwork}), true
		}
	}
}

// order refuses dependencies that lead nowhere or in circles.
func (r *reader) order() {
	all := map[string]environment.Service{environment.MainService: r.file.Services.Main}
	for _, s := range r.file.Services.Others {
		all[s.Name] = s
	}
	state := map[string]int{}
	var visit func(name string) bool
	visit = func(name string) bool {
		switch state[name] {
		case 1:
			return false
		case 2:
			return true
		}
		state[name] = 1
		for _, on := range needs(all[name]) {
			if _, known := all[on]; !known {
				r.at([]string{"services", name, "depends_on"}, "", "there is no service %q", on)
				continue
			}
			if !visit(on) {
				r.at([]string{"services", name, "depends_on"}, "", "%s and %s wait for each other", name, on)
				return true
			}
		}
		state[name] = 2
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		visit(name)
	}
	for _, s := range r.file.Services.Others {
		for _, d := range s.DependsOn {
			if d.Service == environment.MainService && d.Condition != environment.ServiceStarted {
				r.at([]string{"services", s.Name, "depends_on"}, "", "main can only be waited for with %s", environment.ServiceStarted)
			}
		}
	}
}

// needs returns the services that have to be there before s.
func needs(s environment.Service) []string {
	var names []string
	for _, d := range s.DependsOn {
		names = append(names, d.Service)
	}
	if s.NetworkOf != "" {
		names = append(names, s.NetworkOf)
	}
	return names
}

var errTooLarge = errors.New("it is too large")

// readFile returns the content of a file of at most limit bytes.
func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, cmp.Or(errors.Unwrap(err), err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errTooLarge
	}
	return text, err
}
