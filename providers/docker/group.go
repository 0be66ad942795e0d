package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/org/rollout-action/internal/core/environment"
)

// labels returns the labels of a part of the group; service is "" for networks and volumes.
func (g *group) labels(service string) map[string]string {
	labels := g.opts.Labels.Map()
	labels[environment.LabelGroup] = g.id
	if service != "" {
		labels[environment.LabelService] = service
	}
	return labels
}

// isMember reports whether a container with these labels is part of an environment, and not the
// environment itself.
func isMember(labels map[string]string) bool {
	service := labels[environment.LabelService]
	return labels[environment.LabelGroup] != "" && service != "" && service != environment.MainService
}

// resource returns the engine's name of a network or volume.
func (g *group) resource(name string) string { return namePrefix + g.id + "-" + name }

// noNameServer are the name servers of containers whose networks reach nothing: engines forward
// other names to the machine's name server otherwise. Source: moby, CVE-2024-29018.
var noNameServer = []string{"127.0.0.1"}

// makeNetworks makes the networks and volumes.
func (g *group) makeNetworks(ctx context.Context) error {
	for _, n := range g.services.Networks {
		internal := n.Internal || g.isolated()
		opts := network.CreateOptions{Driver: networkBridge, Internal: internal, Labels: g.labels("")}
		if internal { // the machine has no address there either
			opts.Options = map[string]string{"com.docker.network.bridge.inhibit_ipv4": "true"}
		}
		err := persistWhile(ctx, isTransient, func() error {
			_, err := g.p.api.NetworkCreate(ctx, g.resource(n.Name), opts)
			if cerrdefs.IsConflict(err) { // an earlier try made it
				return nil
			}
			return err
		})
		if err != nil {
			return g.noNetwork(n.Name, err)
		}
	}
	for _, name := range g.services.Volumes {
		err := persistWhile(ctx, isTransient, func() error {
			_, err := g.p.api.VolumeCreate(ctx, volume.CreateOptions{Name: g.resource(name), Labels: g.labels("")})
			return err
		})
		if err != nil {
			return failed(environment.KindStart, "create volume "+name, err)
		}
	}
	return nil
}

// noNetwork returns the error of a network that could not be made. Engines have addresses for some
// thirty.
func (g *group) noNetwork(name string, err error) error {
	err = failed(environment.KindStart, "create network "+name, err)
	if e, ok := err.(*environment.Error); ok && e.Hint == "" { //nolint:errorlint // just made
		e.Hint = "the engine may have no more addresses: set n_concurrent_trials lower, or default-address-pools in its daemon.json"
	}
	return err
}

// shape returns the settings of the container of m that differ from those of other environments.
func (g *group) shape(m *member) shape {
	return func(c *container.Config, h *container.HostConfig) *network.NetworkingConfig {
		c.Labels = g.labels(m.Name)
		c.User, c.WorkingDir, c.Hostname = m.User, m.WorkDir, m.Hostname
		if m.Name != environment.MainService {
			c.Entrypoint, c.Cmd = m.Entrypoint, m.Command
			c.Healthcheck = healthConfig(m.Service, g.p.api.ClientVersion())
			c.Tty, c.StopSignal = m.Terminal, m.StopSignal
			h.Mounts = nil
			if m.Restart {
				h.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyOnFailure, MaximumRetryCount: 10}
			}
		} else if m.Entrypoint != nil {
			c.Entrypoint = []string{""} // none
		}
		if m.Init {
			h.Init = &m.Init
		}
		h.CapDrop, h.CapAdd, h.ShmSize, h.ExtraHosts = m.CapDrop, m.CapAdd, m.SharedMemory, m.Hosts
		h.ReadonlyRootfs = m.ReadOnly && len(m.Files) == 0 && m.Name != environment.MainService // files are copied
		if m.NoNewPrivileges {
			h.SecurityOpt = append(slices.Clone(h.SecurityOpt), "no-new-privileges")
		}
		for _, v := range m.Mounts {
			part := mount.Mount{Type: mount.TypeVolume, Target: v.Target, ReadOnly: v.ReadOnly}
			if v.Volume != "" {
				part.Source = g.resource(v.Volume)
			}
			h.Mounts = append(slices.Clip(h.Mounts), part)
		}
		for _, target := range m.Tmpfs {
			if h.Tmpfs == nil {
				h.Tmpfs = map[string]string{}
			}
			h.Tmpfs[target] = ""
		}
		return g.place(m, h)
	}
}

// place sets the network with which a container is created. See join for the others: engines before
// 25 take one.
func (g *group) place(m *member, h *container.HostConfig) *network.NetworkingConfig {
	if m.NetworkOf != "" {
		h.NetworkMode = container.NetworkMode("container:" + g.members[m.NetworkOf].env.id)
		return nil
	}
	names := slices.Sorted(maps.Keys(m.Networks))
	if len(names) == 0 {
		h.NetworkMode = networkNone
		return nil
	}
	if g.isolated() {
		h.DNS, h.DNSOptions = noNameServer, []string{"timeout:1", "attempts:1"}
	}
	h.NetworkMode = container.NetworkMode(g.resource(names[0]))
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{g.resource(names[0]): endpointOf(m, names[0])}}
}

func endpointOf(m *member, in string) *network.EndpointSettings {
	return &network.EndpointSettings{Aliases: append([]string{m.Name}, m.Networks[in].Aliases...)}
}

// join puts a container that has not started into its further networks.
func (g *group) join(ctx context.Context, env *containerEnv, m *member) error {
	names := slices.Sorted(maps.Keys(m.Networks))
	for _, name := range names[min(1, len(names)):] {
		err := persist(ctx, func() error { return g.p.api.NetworkConnect(ctx, g.resource(name), env.id, endpointOf(m, name)) })
		if err != nil {
			return failed(environment.KindStart, fmt.Sprintf("connect %s to network %s", m.Name, name), err)
		}
	}
	return nil
}

// past returns the variables that send commands to a tunnel, with the services as exceptions. g may
// be nil.
func (g *group) past(variables map[string]string) map[string]string {
	if variables == nil || g == nil {
		return variables
	}
	direct := variables["NO_PROXY"]
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		direct += "," + name
		for _, in := range slices.Sorted(maps.Keys(g.members[name].Networks)) {
			for _, alias := range g.members[name].Networks[in].Aliases {
				direct += "," + alias
			}
		}
	}
	variables = maps.Clone(variables)
	variables["NO_PROXY"], variables["no_proxy"] = direct, direct
	return variables
}

// kill ends the services, and keeps their files.
func (g *group) kill(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[name]
		if m.env == nil || name == environment.MainService {
			continue
		}
		err := persistWhile(ctx, isTransient, func() error { return g.p.api.ContainerKill(ctx, m.env.id, "KILL") })
		if err != nil && !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err) {
			return failed(environment.KindTeardown, "kill service "+name, err)
		}
	}
	return nil
}

// discard passes the logs on, removes the remains of a failed creation, and returns its error.
func (g *group) discard(ctx context.Context, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if g.services.Log != nil {
		_ = g.logs(ctx, g.services.Log)
	}
	if err := removeGroup(ctx, g.p, g.id); err != nil {
		return fmt.Errorf("%w; and then: %w", failure, err)
	}
	return failure
}

// remainsPrefix begins the id of an environment with services whose own container is gone.
const remainsPrefix = "services-"

// removeGroup removes all that belongs to an environment with services.
func removeGroup(ctx context.Context, p *Provider, id string) error {
	mine := filters.Arg("label", environment.LabelGroup+"="+id)
	containers, err := listContainers(ctx, p.api, mine)
	if err != nil {
		return failed(environment.KindTeardown, "list containers", err)
	}
	errs := make([]error, len(containers))
	var all sync.WaitGroup
	for i, c := range containers {
		all.Go(func() { errs[i] = p.remove(ctx, c.ID) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	networks, err := p.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(mine)})
	if err != nil {
		return failed(environment.KindTeardown, "list networks", err)
	}
	for _, n := range networks {
		if err := retire(ctx, func() error { return p.api.NetworkRemove(ctx, n.ID) }); err != nil {
			return failed(environment.KindTeardown, "remove network "+n.Name, err)
		}
	}
	volumes, err := p.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(mine)})
	if err != nil {
		return failed(environment.KindTeardown, "list volumes", err)
	}
	for _, v := range volumes.Volumes {
		if err := retire(ctx, func() error { return p.api.VolumeRemove(ctx, v.Name, true) }); err != nil {
			return failed(environment.KindTeardown, "remove volume "+v.Name, err)
		}
	}
	return nil
}

// retire removes something until it is gone: engines notice late that containers have left it.
func retire(ctx context.Context, remove func() error) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := remove()
		busy := cerrdefs.IsConflict(err) || cerrdefs.IsPermissionDenied(err) || isTransient(err)
		if err == nil || cerrdefs.IsNotFound(err) {
			return nil
		}
		if !busy {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// listRemains lists the environments with services whose own container is gone, or was never made.
func listRemains(ctx context.Context, p *Provider, containers []container.Summary) ([]environment.Listed, error) {
	whole, parts := map[string]bool{}, map[string]map[string]string{}
	for _, c := range containers {
		if group := c.Labels[environment.LabelGroup]; group != "" {
			whole[group] = whole[group] || !isMember(c.Labels)
			parts[group] = c.Labels
		}
	}
	mine := filters.NewArgs(filters.Arg("label", environment.LabelGroup))
	networks, err := p.api.NetworkList(ctx, network.ListOptions{Filters: mine})
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		parts[n.Labels[environment.LabelGroup]] = n.Labels
	}
	volumes, err := p.api.VolumeList(ctx, volume.ListOptions{Filters: mine})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Volumes {
		parts[v.Labels[environment.LabelGroup]] = v.Labels
	}
	var remains []environment.Listed
	for _, group := range slices.Sorted(maps.Keys(parts)) {
		if group != "" && !whole[group] {
			remains = append(remains, environment.Listed{ID: remainsPrefix + group, Labels: environment.ParseLabels(parts[group])})
		}
	}
	return remains, nil
}
