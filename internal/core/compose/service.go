package compose

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/envfile"
)

// service reads one service.
type service struct {
	*reader
	project *types.Project
	from    types.ServiceConfig
	to      environment.Service
	key     string // its name in the file
}

func (s *service) bad(key, hint, format string, args ...any) {
	s.at([]string{"services", s.key, key}, hint, format, args...)
}

// main reports whether it is the environment's own container.
func (s *service) main() bool { return s.to.Name == environment.MainService }

// readElsewhere reports whether the caller reads what every provider has of the service.
func (s *service) readElsewhere() bool { return s.main() && s.Main != "" }

func (s *service) read() {
	f := s.from
	if !s.readElsewhere() {
		s.image()
	}
	s.to.Entrypoint, s.to.Command = f.Entrypoint, f.Command
	s.to.WorkDir, s.to.User = f.WorkingDir, f.User
	s.to.Hostname, s.to.StopSignal = f.Hostname, f.StopSignal
	s.to.Init, s.to.Terminal, s.to.ReadOnly = f.Init != nil && *f.Init, f.Tty, f.ReadOnly
	s.to.SharedMemory, s.to.Tmpfs = int64(f.ShmSize), f.Tmpfs
	for _, host := range slices.Sorted(maps.Keys(f.ExtraHosts)) {
		for _, address := range f.ExtraHosts[host] {
			if address == "host-gateway" {
				s.bad("extra_hosts", "", "the machine must not be reached")
			}
			s.to.Hosts = append(s.to.Hosts, host+":"+address)
		}
	}
	switch f.Restart {
	case "", "no":
	case "always", "unless-stopped", "on-failure":
		s.to.Restart = true
	default:
		s.to.Restart = strings.HasPrefix(f.Restart, "on-failure:")
	}
	if f.GetScale() != 1 {
		s.bad("scale", "write further services out", "one container of each service is supported")
	}
	s.security()
	s.variables()
	s.health()
	s.dependencies()
	s.networks()
	s.ports()
	s.limits()
	for _, v := range f.Volumes {
		s.volume(v)
	}
	if s.readElsewhere() {
		s.to.User, s.to.WorkDir, s.to.Env = "", "", nil
	}
	if s.main() {
		s.special()
	}
}

// special notes the first setting of main that only containers of an engine have.
func (s *service) special() {
	t := s.to
	for _, setting := range []struct {
		name  string
		given bool
	}{
		{"entrypoint", t.Entrypoint != nil}, {"command", !isIdle(t.Command)}, {"user", t.User != ""}, {"healthcheck", t.Healthcheck != nil},
		{"volumes", len(t.Mounts)+len(t.Files) > 0}, {"tmpfs", len(t.Tmpfs) > 0}, {"extra_hosts", len(t.Hosts) > 0}, {"read_only", t.ReadOnly},
		{"cap_drop", len(t.CapDrop) > 0}, {"shm_size", t.SharedMemory > 0}, {"hostname", t.Hostname != ""}, {"network_mode", t.Networks == nil},
	} {
		if setting.given {
			s.file.Special = cmp.Or(s.file.Special, setting.name)
		}
	}
	if t.Entrypoint != nil { // the image's does not run; this one is a command like others
		t.Command, s.to.Entrypoint = slices.Concat(t.Entrypoint, t.Command), []string{}
	}
	s.to.Command = t.Command
	if isIdle(t.Command) || len(t.Command) == 0 {
		s.to.Command = nil
	}
}

// isIdle reports whether a command only keeps the container running, which Rollout does itself.
func isIdle(command []string) bool {
	text := strings.Join(command, " ")
	for _, shell := range []string{"sh -c ", "bash -c ", "/bin/sh -c ", "/bin/bash -c "} {
		text = strings.TrimPrefix(text, shell)
	}
	return command == nil || slices.Contains([]string{
		"sleep infinity", "exec sleep infinity", "tail -f /dev/null", "tail -F /dev/null", "bash", "/bin/bash", "sh", "/bin/sh", "sleep inf",
		"while true; do sleep 1; done", "while :; do sleep 1; done", "cat",
	}, text)
}

// defaultCapabilities are those that containers have. Source: moby, oci/caps/defaults.go.
var defaultCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

func (s *service) security() {
	f := s.from
	if f.Privileged {
		s.bad("privileged", "", "%s", reasons["privileged"])
	}
	s.to.CapDrop = f.CapDrop
	for _, c := range f.CapAdd {
		if !slices.Contains(defaultCapabilities, strings.TrimPrefix(strings.ToUpper(c), "CAP_")) {
			s.bad("cap_add", "", "%s gives power over the machine; only what containers have by default can be added back", c)
		}
	}
	s.to.CapAdd = f.CapAdd
	for _, option := range f.SecurityOpt {
		switch strings.ReplaceAll(option, "=", ":") {
		case "no-new-privileges", "no-new-privileges:true":
			s.to.NoNewPrivileges = true
		case "no-new-privileges:false", "label:disable":
		default:
			s.bad("security_opt", "", "%q weakens what keeps the container from the machine", shorten(option))
		}
	}
}

// maxEnvFile bounds a file of variables.
const maxEnvFile = 1 << 20

func (s *service) variables() {
	s.to.Env = map[string]string{}
	for _, file := range s.from.EnvFiles {
		name, ok := s.local(file.Path)
		if !ok {
			s.bad("env_file", "", "%s is outside of the task", file.Path)
			continue
		}
		text, err := readFile(s.FS, name, maxEnvFile)
		if err != nil {
			if file.Required {
				s.bad("env_file", "", "%s: %v", name, err)
			}
			continue
		}
		variables, err := envfile.Parse(name, bytes.NewReader(text))
		if err != nil {
			s.bad("env_file", "", "%v", err)
			continue
		}
		maps.Copy(s.to.Env, variables)
	}
	for name, value := range s.from.Environment {
		if value != nil {
			s.to.Env[name] = *value
		} else if passed, ok := s.Lookup(name); ok {
			s.to.Env[name] = passed
		}
	}
}

// local returns the path below the task of a path that is relative to the file.
func (s *service) local(name string) (string, bool) {
	if path.IsAbs(name) || strings.Contains(name, "://") || strings.HasPrefix(name, "~") || strings.ContainsAny(name, "\x00\\") {
		return "", false
	}
	joined := path.Join(s.Dir, name)
	return joined, filepath.IsLocal(filepath.FromSlash(joined))
}

func (s *service) image() {
	f := s.from
	if f.Platform != "" && !strings.HasPrefix(f.Platform, "linux") {
		s.bad("platform", "", "%s is not Linux", f.Platform)
	}
	image := Image{Ref: f.Image}
	if b := f.Build; b != nil {
		dir, ok := s.local(cmp.Or(b.Context, "."))
		if !ok {
			s.bad("build", "", "the context %s is outside of the task", b.Context)
			return
		}
		image.Build = &Build{Context: dir, Dockerfile: path.Join(dir, cmp.Or(b.Dockerfile, "Dockerfile")), Args: map[string]string{}}
		if path.IsAbs(b.Dockerfile) || !filepath.IsLocal(filepath.FromSlash(image.Build.Dockerfile)) {
			s.bad("build", "", "the Dockerfile %s is outside of the task", b.Dockerfile)
			return
		}
		info, err := fs.Stat(s.FS, image.Build.Dockerfile)
		switch {
		case s.main() && s.Prebuilt:
		case errors.Is(err, fs.ErrNotExist):
			s.bad("build", "", "the Dockerfile %s does not exist", image.Build.Dockerfile)
		case err == nil && !info.Mode().IsRegular():
			s.bad("build", "", "the Dockerfile %s is not a file", image.Build.Dockerfile)
		}
		if b.Target != "" {
			s.target(image.Build, b.Target)
		}
		for name, value := range b.Args {
			if value != nil {
				image.Build.Args[name] = *value
			}
		}
	}
	if image.Ref == "" && image.Build == nil && !s.main() {
		s.bad("image", "", "the service has neither image nor build")
		return
	}
	if image.Ref != mainImage || image.Build != nil {
		if image.Ref != "" || image.Build != nil {
			s.file.Images[s.to.Name] = image
		}
	} else if !s.main() { // the task's image
		s.file.Images[s.to.Name] = Image{}
	}
}

// target sets the stage that a build ends with.
func (s *service) target(b *Build, stage string) {
	text, err := readFile(s.FS, b.Dockerfile, maxDockerfile)
	if err != nil {
		return // the build names the file
	}
	if !hasStage(text, stage) {
		s.bad("build", "name the stage in the Dockerfile: FROM image AS "+shorten(stage), "%s has no stage with the name %s", b.Dockerfile, stage)
		return
	}
	b.Target = stage
}

func (s *service) health() {
	h := s.from.HealthCheck
	if h == nil {
		return
	}
	if h.Disable || len(h.Test) > 0 && h.Test[0] == "NONE" {
		s.to.Unchecked = true
		return
	}
	given := environment.Healthcheck{Interval: duration(h.Interval), Timeout: duration(h.Timeout), StartPeriod: duration(h.StartPeriod), StartInterval: duration(h.StartInterval)}
	if h.Retries != nil {
		given.Retries = int(min(*h.Retries, 10_000))
	}
	s.to.Healthcheck = environment.NewHealthcheck(h.Test, nil, given)
	if s.to.Healthcheck == nil {
		s.bad("healthcheck", `write test: ["CMD", …]`, "there is no test")
	}
}

func duration(d *types.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return time.Duration(*d)
}

func (s *service) dependencies() {
	for _, name := range slices.Sorted(maps.Keys(s.from.DependsOn)) {
		d := s.from.DependsOn[name]
		on := environment.Dependency{Service: s.named(name), Condition: environment.Condition(cmp.Or(d.Condition, string(environment.ServiceStarted))), Optional: !d.Required}
		if _, there := s.project.Services[name]; !there && on.Optional {
			continue
		}
		switch on.Condition {
		case environment.ServiceStarted, environment.ServiceHealthy, environment.ServiceCompleted:
			s.to.DependsOn = append(s.to.DependsOn, on)
		default:
			s.bad("depends_on", "", "%q is not a condition", d.Condition)
		}
	}
}

func (s *service) networks() {
	mode := s.from.NetworkMode
	of, shares := strings.CutPrefix(mode, "service:")
	switch {
	case mode == "none":
		return
	case shares && !s.main():
		s.to.NetworkOf = s.named(of)
		return
	case mode != "":
		s.bad("network_mode", "remove it: services find each other by name", "%q is not supported: the networks are those of the trial", mode)
		return
	}
	s.to.Networks = map[string]environment.Endpoint{}
	extra := []string{}
	if s.key != s.to.Name {
		extra = append(extra, s.key)
	}
	if s.from.ContainerName != "" {
		extra = append(extra, s.from.ContainerName)
	}
	if s.from.Hostname != "" {
		extra = append(extra, s.from.Hostname)
	}
	for name, n := range s.from.Networks {
		e := environment.Endpoint{Aliases: extra}
		if n != nil {
			e.Aliases = append(slices.Clone(extra), n.Aliases...)
			if n.Ipv4Address != "" || n.Ipv6Address != "" || len(n.LinkLocalIPs) > 0 || n.MacAddress != "" {
				s.bad("networks", reasons["ipam"], "addresses are not supported")
			}
		}
		if _, defined := s.project.Networks[name]; !defined && name != defaultNetwork {
			s.bad("networks", "", "the network %s is not defined", name)
		}
		s.to.Networks[name] = e
	}
	if len(s.to.Networks) == 0 {
		s.to.Networks[defaultNetwork] = environment.Endpoint{Aliases: extra}
	}
}

// ports notes the ports that the file says the service listens on.
func (s *service) ports() {
	for _, p := range s.from.Ports {
		s.to.Ports = append(s.to.Ports, fmt.Sprintf("%d/%s", p.Target, cmp.Or(p.Protocol, "tcp")))
	}
	for _, p := range s.from.Expose {
		port, protocol, _ := strings.Cut(p, "/")
		s.to.Ports = append(s.to.Ports, port+"/"+cmp.Or(protocol, "tcp"))
	}
	slices.Sort(s.to.Ports)
	s.to.Ports = slices.Compact(s.to.Ports)
}

func (s *service) limits() {
	f := s.from
	s.to.Limits = environment.Limits{MilliCPUs: int64(f.CPUS * 1000), Memory: int64(f.MemLimit), Pids: max(0, f.PidsLimit)}
	if f.Deploy == nil {
		return
	}
	if r := f.Deploy.Resources.Reservations; r != nil && len(r.Devices) > 0 {
		s.bad("deploy", "", "%s", reasons["devices"])
	}
	l := f.Deploy.Resources.Limits
	if l == nil {
		return
	}
	if l.NanoCPUs > 0 {
		s.to.Limits.MilliCPUs = int64(float64(l.NanoCPUs) * 1000)
	}
	if l.MemoryBytes > 0 {
		s.to.Limits.Memory = int64(l.MemoryBytes)
	}
	if l.Pids > 0 {
		s.to.Limits.Pids = l.Pids
	}
	if len(l.Devices) > 0 {
		s.bad("deploy", "", "%s", reasons["devices"])
	}
}

func (s *service) volume(v types.ServiceVolumeConfig) {
	at := []string{"services", s.key, "volumes"}
	if s.readElsewhere() && v.Type == types.VolumeTypeBind {
		return
	}
	target := path.Clean(v.Target)
	if !path.IsAbs(v.Target) || target == "/" {
		s.at(at, "", "the target %s is not an absolute path", v.Target)
		return
	}
	if v.Type == types.VolumeTypeBind && v.Source == target && environment.Within(target, environment.LogsDir) {
		return // Harbor's directories of logs, which the environment has
	}
	if s.main() {
		for _, ours := range environment.SpecialDirs() {
			if environment.Within(target, ours) || environment.Within(ours, target) {
				s.at(at, "", "%s is a directory that rollout fills, empties and copies", target)
				return
			}
		}
	}
	switch v.Type {
	case types.VolumeTypeVolume:
		if v.Source != "" && !slices.Contains(s.file.Services.Volumes, v.Source) {
			s.at(at, "", "the volume %s is not defined", v.Source)
		}
		if v.Volume != nil && v.Volume.Subpath != "" {
			s.at(at, "", "subpath is not supported")
		}
		s.to.Mounts = append(s.to.Mounts, environment.ServiceMount{Volume: v.Source, Target: target, ReadOnly: v.ReadOnly})
	case types.VolumeTypeTmpfs:
		s.to.Tmpfs = append(s.to.Tmpfs, target)
	case types.VolumeTypeBind:
		name, ok := s.local(v.Source)
		switch {
		case strings.HasSuffix(v.Source, "docker.sock"):
			s.at(at, "", "the engine's socket controls the whole machine")
		case !ok:
			s.at(at, "put the files into the task", "%s is outside of the task", v.Source)
		default:
			s.bind(at, name, target)
		}
	default:
		s.at(at, "", "the type %s is not supported", v.Type)
	}
}
