package terminalbench

import (
	"cmp"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/quantity"
)

// Service is the environment that docker-compose.yaml describes: its one service, or of several the
// agent's.
type Service struct {
	Name      string // of the agent's service
	Context   string // directory of the image's files, below the task; "" if the image is not built
	Image     string // to use if it is not built
	User      string // "" is the image's
	WorkDir   string // "" is the image's
	Env       []Variable
	Mounts    []Mount
	MilliCPUs int64 // 0: no limit
	Memory    int64 // bytes; 0: no limit
	// Composed: the file has further services, or settings that only containers of an engine have.
	Composed bool
}

// Variable is one of environment. Value is as written, except for terminal-bench's own variables;
// it may have references to others.
type Variable struct {
	Name, Value  string
	Line, Column int
}

// Mount is a file or directory of the task that is mounted into the environment.
type Mount struct {
	Source   string // below the task; "." is the task
	Target   string // absolute
	ReadOnly bool
}

// agentLogs is where terminal-bench's own agents write their logs.
const agentLogs = "/agent-logs"

// Variables are those that terminal-bench sets for docker-compose.yaml and that have the same value
// in every trial. Source: terminal-bench 0.2.18, terminal/docker_compose_manager.py.
var variables = map[string]string{
	"T_BENCH_TEST_DIR":                  environment.TestsDir,
	"T_BENCH_CONTAINER_LOGS_PATH":       environment.LogsDir,
	"T_BENCH_CONTAINER_AGENT_LOGS_PATH": agentLogs,
}

// Value returns the value of a variable that terminal-bench sets for docker-compose.yaml.
func Value(name string) (string, bool) {
	if value, ok := variables[name]; ok {
		return value, true
	}
	switch name {
	case "T_BENCH_TASK_LOGS_PATH":
		return environment.LogsDir, true
	case "T_BENCH_TASK_AGENT_LOGS_PATH":
		return agentLogs, true
	case clientContainer, "T_BENCH_TASK_DOCKER_NAME_PREFIX":
		return "client", true
	}
	return "", false
}

// clientContainer is the variable with the name of the container in which the agent works.
const clientContainer = "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME"

// hostPaths are the directories of the host that terminal-bench mounts for logs. Trials copy the
// logs instead.
var hostPaths = []string{"${T_BENCH_TASK_LOGS_PATH}", "${T_BENCH_TASK_AGENT_LOGS_PATH}"}

// reference matches a reference to a variable in docker-compose.yaml, with its default, and an
// escaped dollar sign.
var reference = regexp.MustCompile(`\$\$\{?|\$\{(\w+)(?::?-([^{}]*))?\}|\$([A-Za-z_]\w*)`)

// expand replaces terminal-bench's variables, and writes others as variables of tasks are written.
func expand(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		m := reference.FindStringSubmatch(found)
		value, ours := variables[m[1]+m[3]]
		switch {
		case ours:
			return value
		case found == "$$":
			return "$"
		case m[3] != "":
			return "${" + m[3] + "}"
		}
		return found
	})
}

// settled replaces terminal-bench's variables, and others by their defaults. Those without one
// remain.
func settled(text string) string {
	return reference.ReplaceAllStringFunc(expand(text), func(found string) string {
		if m := reference.FindStringSubmatch(found); m[1] != "" && strings.Contains(found, "-") {
			return m[2]
		}
		return found
	})
}

const oneService = "leave the task out: exclude_tasks in the job"

// noEffect lists keys of a service without a meaning for a trial: names, and the terminal of a
// container that people attach to.
var noEffect = []string{"container_name", "tty", "stdin_open", "labels", "pull_policy", "logging", "expose", "restart", "init"}

// onlyWarned lists keys of a service that a trial does without, with the reason.
var onlyWarned = map[string]string{
	"ports":    "no port of the host leads into an environment; inside of it they are all open",
	"platform": "images are built for the machine that runs them",
}

// serviceReader reads the agent's service of a compose file.
type serviceReader struct {
	*file
	fsys fs.FS
	Service
	build *yaml.Node
}

// readService reads the agent's service in docker-compose.yaml. It refuses the keys of that service
// which it does not honour, except those that make Composed true: then package compose reads the
// file, too. Without a file, the image is that of the Dockerfile.
func readService(fsys fs.FS, f *file) Service {
	if _, err := fs.Stat(fsys, f.name); err != nil && isFile(fsys, Dockerfile) {
		return Service{Context: "."}
	}
	root := f.read(fsys, "it says how the environment is made")
	if root == nil {
		return Service{}
	}
	r := serviceReader{file: f, fsys: fsys}
	var services *yaml.Node
	for key, value := range f.fields(root) {
		switch {
		case key.Value == "services":
			services = value
		case key.Value == "version", key.Value == "name", isExtension(key):
		default:
			r.Composed = true
		}
	}
	if services == nil {
		f.add(root, "", `"services" is missing`)
		return Service{}
	}
	var client *yaml.Node
	n := 0
	for key, value := range f.fields(services) {
		if n++; n == 1 || key.Value == "client" && !isClient(client) || isClient(value) {
			client, r.Name = value, key.Value
		}
	}
	if n == 0 {
		f.add(services, "", `"services" has no service`)
		return Service{}
	}
	r.Composed = r.Composed || n > 1
	r.read(client)
	r.image(client)
	return r.Service
}

// isExtension reports whether a key is for whoever writes the file: its value is used by aliases.
func isExtension(key *yaml.Node) bool { return strings.HasPrefix(key.Value, "x-") }

// isClient reports whether a service has the name of the container in which the agent works.
func isClient(service *yaml.Node) bool {
	for i := 0; service.Kind == yaml.MappingNode && i+1 < len(service.Content); i += 2 {
		if service.Content[i].Value == "container_name" {
			return strings.Contains(service.Content[i+1].Value, clientContainer)
		}
	}
	return false
}

// refuse records that a key is not supported.
func (f *file) refuse(key *yaml.Node, below string) {
	f.add(key, oneService, "%q is not supported", below+short(key.Value))
}

func (r *serviceReader) read(n *yaml.Node) {
	for key, value := range r.fields(n) {
		switch why, warned := onlyWarned[key.Value]; {
		case slices.Contains(noEffect, key.Value), isExtension(key):
		case warned:
			r.warn(key, "", "%q has no effect: %s", key.Value, why)
		default:
			r.key(key, value)
		}
	}
}

// key reads one key that has an effect.
func (r *serviceReader) key(key, value *yaml.Node) {
	switch key.Value {
	case "build":
		r.build = value
	case "image":
		r.Image = settled(r.text(value, key.Value))
	case "command":
		r.command(key, value)
	case "environment":
		r.environment(value)
	case "volumes":
		r.volumes(value)
	case "working_dir":
		r.WorkDir = settled(r.text(value, key.Value))
		if !path.IsAbs(r.WorkDir) || strings.Contains(r.WorkDir, "$") {
			r.add(value, "", "%q must be an absolute path, not %s", key.Value, shown(value))
		}
		r.WorkDir = path.Clean(r.WorkDir)
	case "user":
		r.User = value.Value
		if value.Kind != yaml.ScalarNode || !userName.MatchString(value.Value) {
			r.add(value, "", "%q must be the name or number of a user, not %s", key.Value, shown(value))
		}
	case "cpus":
		r.cpus(value)
	case "mem_limit":
		r.memory(value)
	case "deploy":
		r.deploy(value)
	case "env_file", "extends":
		r.refuse(key, "")
	default:
		r.Composed = true
	}
}

// userName matches a user's name or number, with an optional group.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)

// image decides between build and image: what is built only has its name from image.
func (r *serviceReader) image(n *yaml.Node) {
	switch {
	case r.build != nil:
		r.Image = ""
		r.context()
	case r.Image == "":
		r.add(n, "add build: .", `the service has neither "build" nor "image"`)
	case strings.ContainsAny(r.Image, "${} \t"):
		r.add(n, "write the name of an image, or add build: .", "the image %q is not built, and has no name", short(r.Image))
	}
}

// context reads build: a directory, or a mapping with context and dockerfile.
func (r *serviceReader) context() {
	r.Context = "."
	at := r.build
	if r.build.Kind == yaml.ScalarNode {
		r.Context = r.text(r.build, "build")
	} else {
		for key, value := range r.fields(r.build) {
			switch key.Value {
			case "context":
				r.Context, at = r.text(value, "context"), value
			case "dockerfile":
				if name := r.text(value, "dockerfile"); path.Clean(name) != Dockerfile {
					r.add(value, "rename it to Dockerfile", "the Dockerfile %q is not supported", short(name))
				}
			default:
				r.refuse(key, "build.")
			}
		}
	}
	if clean := path.Clean(r.Context); filepath.IsLocal(clean) {
		r.Context = clean
		return
	}
	r.add(at, "write a path below the task", "the directory %q is outside of the task", short(r.Context))
	r.Context = ""
}

// idle matches commands that only keep a container alive. Environments live on by themselves.
var idle = regexp.MustCompile(`^(?:exec )?(?:sleep (?:infinity|inf|\d+[smhd]?)|tail -f /dev/null|(?:/bin/|/usr/bin/)?(?:ba)?sh)$`)

// command finds commands that do more than keep the container alive, with or without a shell around
// them.
func (r *serviceReader) command(key, value *yaml.Node) {
	var words []string
	if value.Kind == yaml.SequenceNode {
		words = r.texts(value, key.Value)
	} else {
		words = strings.Fields(value.Value)
	}
	if len(words) > 2 && (words[1] == "-c" || words[1] == "-lc") && idle.MatchString(words[0]) {
		words = words[2:]
	}
	text := strings.Trim(strings.Join(words, " "), ` "';`)
	r.Composed = r.Composed || text != "" && !idle.MatchString(text)
}

// environment reads a list of NAME=value, or a mapping.
func (r *serviceReader) environment(n *yaml.Node) {
	set := func(at *yaml.Node, name, value string) {
		if !variableName.MatchString(name) {
			r.add(at, "use letters, digits and _", "%q is not a name for a variable", short(name))
			return
		}
		r.Env = append(r.Env, Variable{name, expand(value), at.Line, at.Column})
	}
	ofHost := func(name string) string { return "${" + name + ":-}" } // if it is set there
	if n.Kind == yaml.MappingNode {
		for key, value := range r.pairs(n) {
			switch {
			case value.Kind != yaml.ScalarNode:
				r.add(value, "", "the variable %q must be text, not %s", short(key.Value), shown(value))
			case value.ShortTag() == "!!null":
				set(key, key.Value, ofHost(key.Value))
			default:
				set(value, key.Value, value.Value)
			}
		}
		return
	}
	for i, text := range r.texts(n, "environment") {
		name, value, given := strings.Cut(text, "=")
		if !given {
			value = ofHost(name)
		}
		set(n.Content[min(i, len(n.Content)-1)], name, value)
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// volumes reads mounts of the task's files. It leaves out those for logs.
func (r *serviceReader) volumes(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		r.add(n, "", `"volumes" must be a list, not %s`, shown(n))
		return
	}
	for _, item := range n.Content {
		var m Mount
		if item.Kind == yaml.MappingNode {
			m = r.longVolume(item)
		} else {
			m = r.shortVolume(item)
		}
		if m.Target != "" {
			r.Mounts = append(r.Mounts, r.mount(item, m))
		}
	}
}

// volumeName matches the name of a volume: no path.
var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// shortVolume reads SOURCE:TARGET[:MODE]. It returns the zero Mount for logs.
func (r *serviceReader) shortVolume(n *yaml.Node) Mount {
	for _, logs := range hostPaths {
		if strings.HasPrefix(n.Value, logs+":") {
			return Mount{}
		}
	}
	parts := strings.Split(settled(n.Value), ":")
	if volumeName.MatchString(parts[0]) || len(parts) == 1 {
		r.Composed = true
		return Mount{}
	}
	m := Mount{Source: parts[0]}
	if len(parts) > 1 {
		m.Target = parts[1]
	}
	if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" || !strings.HasPrefix(m.Source, ".") {
		r.add(n, oneService, "the volume %q is not supported: it is not a file or directory of the task", short(n.Value))
		return Mount{}
	}
	m.ReadOnly = len(parts) == 3 && parts[2] == "ro"
	return m
}

func (r *serviceReader) longVolume(n *yaml.Node) (m Mount) {
	before := len(r.problems)
	for key, value := range r.fields(n) {
		switch key.Value {
		case "type":
			if r.text(value, "type") != "bind" {
				r.Composed = true
				return Mount{}
			}
		case "source":
			m.Source = r.text(value, "source")
		case "target":
			m.Target = settled(r.text(value, "target"))
		case "read_only":
			m.ReadOnly = r.truth(value, "read_only")
		default:
			r.refuse(key, "volumes.")
		}
	}
	if len(r.problems) > before {
		return Mount{}
	}
	if slices.Contains(hostPaths, m.Source) {
		return Mount{}
	}
	return m
}

// mount checks the paths of a mount.
func (r *serviceReader) mount(n *yaml.Node, m Mount) Mount {
	m.Source, m.Target = path.Clean(m.Source), path.Clean(m.Target)
	if strings.Contains(m.Source+m.Target, "$") {
		r.add(n, "write the value out", "the volume %q has a variable that is not known", short(m.Source+":"+m.Target))
	}
	if !filepath.IsLocal(m.Source) {
		r.add(n, "write a path below the task", "the volume %q is outside of the task", short(m.Source))
	}
	if !path.IsAbs(m.Target) || m.Target == "/" {
		r.add(n, "", "a volume must be mounted at an absolute path, not at %q", short(m.Target))
	}
	return m
}

// deploy reads the limits in deploy.resources.
func (r *serviceReader) deploy(n *yaml.Node) {
	for key, resources := range r.fields(n) {
		if key.Value != "resources" {
			r.refuse(key, "deploy.")
			continue
		}
		for key, limits := range r.fields(resources) {
			if key.Value != "limits" {
				r.refuse(key, "deploy.resources.")
				continue
			}
			for key, value := range r.fields(limits) {
				switch key.Value {
				case "cpus":
					r.cpus(value)
				case "memory":
					r.memory(value)
				default:
					r.refuse(key, "deploy.resources.limits.")
				}
			}
		}
	}
}

func (r *serviceReader) cpus(n *yaml.Node) {
	milli, err := quantity.MilliCPUs(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || milli <= 0 {
		r.add(n, "", `"cpus" must be a number of CPUs, not %s`, shown(n))
		return
	}
	r.MilliCPUs = milli
}

// size matches an amount of memory, whose units are powers of 1024.
var size = regexp.MustCompile(`^(\d+(?:\.\d+)?)([kmg]?)b?$`)

func (r *serviceReader) memory(n *yaml.Node) {
	m := size.FindStringSubmatch(strings.ToLower(n.Value))
	if n.Kind != yaml.ScalarNode || m == nil {
		r.add(n, "write it like 2g", `the memory must be an amount, not %s`, shown(n))
		return
	}
	unit := map[string]string{"k": "Ki", "m": "Mi", "g": "Gi"}[m[2]]
	bytes, err := quantity.Bytes(m[1] + cmp.Or(unit, ""))
	if err != nil || bytes < 1<<20 {
		r.add(n, "", "the memory must be at least 1 MiB, not %s", shown(n))
		return
	}
	r.Memory = bytes
}
