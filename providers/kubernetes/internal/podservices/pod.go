package podservices

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// Pod describes the services of a pod.
type Pod struct {
	Services  environment.Services
	Images    map[string]Image                                     // of each service but main
	Main      environment.Limits                                   // those of main
	Resources func(environment.Limits) corev1.ResourceRequirements // of a container
	Brief     corev1.ResourceRequirements                          // of a container that only copies
}

// Image has the settings of a service's image.
type Image struct {
	Ref                  string
	Entrypoint, Cmd, Env []string
	User, WorkDir        string
	Healthcheck          *environment.Healthcheck
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$`)

// Containers returns the names of the containers of the services.
func Containers(s environment.Services) map[string]string {
	names := map[string]string{}
	for i, other := range s.Others {
		if names[other.Name] = "service-" + other.Name; !label.MatchString(other.Name) {
			names[other.Name] = fmt.Sprintf("services-%d", i+1)
		}
	}
	return names
}

// IsService reports whether a container of a pod is that of a service.
func IsService(container string) bool {
	return strings.HasPrefix(container, "service-") || strings.HasPrefix(container, "services-")
}

const (
	volumePrefix = "data-"
	fillPrefix   = "rollout-fill-"
	fillDir      = podinit.Dir + "-volumes"
)

// Extend adds the services to a pod whose first container is main, which it changes as the
// description says. guest is the volume with the guest's programs.
func (p Pod) Extend(pod *corev1.Pod, guest corev1.VolumeMount) {
	spec := &pod.Spec
	names := map[string]string{} // of the pod's volumes
	for i, v := range p.Services.Volumes {
		names[v] = fmt.Sprintf("%s%d", volumePrefix, i+1)
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: names[v], VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	p.hosts(spec)
	containers := Containers(p.Services)
	main := spec.Containers[0]
	for i, other := range p.Services.Others {
		c := corev1.Container{
			Name: containers[other.Name], Image: p.Images[other.Name].Ref, Command: []string{podinit.Program, other.Name}, WorkingDir: "/",
			ImagePullPolicy: main.ImagePullPolicy, Resources: p.Resources(LimitsOf(other.Limits, p.Main)), VolumeMounts: []corev1.VolumeMount{guest},
			SecurityContext: main.SecurityContext.DeepCopy(),
		}
		if cpus, ok := c.Resources.Requests[corev1.ResourceCPU]; ok {
			c.Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(share(cpus.MilliValue()), resource.DecimalSI)
		}
		c.SecurityContext.ReadOnlyRootFilesystem = new(other.ReadOnly && len(other.Files) == 0)
		p.mount(spec, &c, other, names, fmt.Sprintf("s%d", i+1))
		p.fill(spec, guest, c.Image, other, names, fmt.Sprintf("%s%d", fillPrefix, i+1))
		spec.Containers = append(spec.Containers, c)
	}
	p.mount(spec, &spec.Containers[0], p.Services.Main, names, "main")
	p.fill(spec, guest, main.Image, p.Services.Main, names, fillPrefix+environment.MainService)
}

// hosts has all names of the services mean the pod itself. Names that Kubernetes does not accept
// are those of MoreHosts.
func (p Pod) hosts(spec *corev1.PodSpec) {
	var accepted []string
	for _, name := range Names(p.Services) {
		if isHost(name) {
			accepted = append(accepted, name)
		}
	}
	spec.HostAliases = append(spec.HostAliases, corev1.HostAlias{IP: "127.0.0.1", Hostnames: accepted})
	more := map[string][]string{}
	for _, service := range sorted(all(p.Services)) {
		for _, entry := range service.Hosts {
			host, address := splitHost(entry)
			if _, err := netip.ParseAddr(address); err == nil && isHost(host) && !slices.Contains(more[address], host) {
				more[address] = append(more[address], host)
			}
		}
	}
	for address, hosts := range sorted(more) {
		spec.HostAliases = append(spec.HostAliases, corev1.HostAlias{IP: address, Hostnames: hosts})
	}
}

var host = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// isHost reports whether Kubernetes accepts the name of a host.
func isHost(name string) bool { return len(name) <= 253 && host.MatchString(name) }

// Names returns all names by which services are reached, sorted.
func Names(s environment.Services) []string {
	names := map[string]bool{}
	for name, service := range all(s) {
		names[name] = true
		for _, endpoint := range service.Networks {
			for _, alias := range endpoint.Aliases {
				names[alias] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// mount gives a container the volumes and rights of its service.
func (p Pod) mount(spec *corev1.PodSpec, c *corev1.Container, s environment.Service, names map[string]string, prefix string) {
	memory := func(at string, limit int64) {
		source := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		if limit > 0 {
			source.SizeLimit = resource.NewQuantity(limit, resource.BinarySI)
		}
		name := fmt.Sprintf("memory-%s-%d", prefix, len(spec.Volumes))
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at})
	}
	for _, m := range s.Mounts {
		if m.Volume == "" { // a directory of the container is as new, and has the image's files
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: names[m.Volume], MountPath: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, t := range s.Tmpfs {
		at, _, _ := strings.Cut(t, ":")
		memory(at, 0)
	}
	if s.SharedMemory > 0 {
		memory("/dev/shm", s.SharedMemory)
	}
	if s.NoNewPrivileges {
		c.SecurityContext.AllowPrivilegeEscalation = new(false)
	}
	if len(s.CapDrop) > 0 {
		c.SecurityContext.Capabilities = capabilities(s)
	}
}

// needed are the capabilities with which a guest copies files, and starts and ends the processes of
// users.
var needed = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"}

func capabilities(s environment.Service) *corev1.Capabilities {
	c := &corev1.Capabilities{}
	for _, name := range s.CapDrop {
		dropped := corev1.Capability(strings.TrimPrefix(strings.ToUpper(name), "CAP_"))
		if dropped == "ALL" {
			c.Add = slices.Clone(needed)
		}
		if !slices.Contains(needed, dropped) {
			c.Drop = append(c.Drop, dropped)
		}
	}
	for _, name := range s.CapAdd {
		if added := corev1.Capability(strings.TrimPrefix(strings.ToUpper(name), "CAP_")); !slices.Contains(c.Add, added) {
			c.Add = append(c.Add, added)
		}
	}
	return c
}

// fill adds a container that runs before all others and copies what an image has where volumes are
// mounted.
func (p Pod) fill(spec *corev1.PodSpec, guest corev1.VolumeMount, image string, s environment.Service, names map[string]string, name string) {
	c := corev1.Container{
		Name: name, Image: image, Command: []string{podinit.Filler}, WorkingDir: "/", ImagePullPolicy: corev1.PullIfNotPresent,
		Resources: p.Brief, VolumeMounts: []corev1.VolumeMount{guest},
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), RunAsNonRoot: new(false), AllowPrivilegeEscalation: new(false)},
	}
	for i, m := range s.Mounts {
		if m.Volume == "" || slices.ContainsFunc(s.Mounts[:i], func(other environment.ServiceMount) bool { return other.Volume == m.Volume }) {
			continue
		}
		at := fillDir + "/" + names[m.Volume]
		c.Command = append(c.Command, m.Target, at)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: names[m.Volume], MountPath: at})
	}
	if len(c.Command) > 1 {
		spec.InitContainers = append(spec.InitContainers, c)
	}
}

// MoreHosts returns lines for /etc/hosts with the names that Kubernetes does not accept as those of
// hosts, but resolvers do; "" if there are none.
func MoreHosts(s environment.Services) string {
	var names []string
	for _, name := range Names(s) {
		if !isHost(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "127.0.0.1 " + strings.Join(names, " ") + "\n"
}
