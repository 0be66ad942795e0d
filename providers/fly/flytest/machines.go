package flytest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// The states of a machine.
const (
	created    = "created"
	started    = "started"
	stopped    = "stopped"
	destroying = "destroying"
	destroyed  = "destroyed"
)

// machineConfig has the fields of a machine's config that the service heeds.
type machineConfig struct {
	Image       string `json:"image"`
	AutoDestroy bool   `json:"auto_destroy"`
	Guest       struct {
		CPUKind  string `json:"cpu_kind"`
		CPUs     int    `json:"cpus"`
		MemoryMB int    `json:"memory_mb"`
	} `json:"guest"`
	Init struct {
		Exec []string `json:"exec"`
	} `json:"init"`
	Metadata map[string]string `json:"metadata"`
	Restart  struct {
		Policy string `json:"policy"`
	} `json:"restart"`
}

// machine is a machine, with the environment that runs its commands.
type machine struct {
	id, name, app, region string
	config                machineConfig
	env                   environment.Environment
	init                  *inits
	ctx                   context.Context //nolint:containedctx // as long as the machine
	cancel                context.CancelFunc
	once                  sync.Once
	gone                  chan struct{} // its processes have ended

	mu      sync.Mutex
	state   string
	code    int
	changed chan struct{}
}

func (m *machine) current() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func (m *machine) become(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == destroyed {
		return
	}
	m.state = state
	close(m.changed)
	m.changed = make(chan struct{})
}

// end ends the machine's processes.
func (m *machine) end(code int) {
	m.once.Do(func() {
		m.mu.Lock()
		m.code = code
		m.mu.Unlock()
		m.cancel()
		m.become(destroying)
		go func() {
			defer close(m.gone)
			_ = m.env.Destroy(context.Background()) // the provider's own tests say whether it can
			m.become(destroyed)
		}()
	})
}

// run runs the machine's own command. The machine ends with it.
func (m *machine) run() {
	m.become(started)
	code, err := m.env.Exec(m.ctx, quoted(m.config.Init.Exec), environment.ExecOptions{WorkDir: "/", User: "root"})
	if err != nil && code == 0 {
		code = 1
	}
	if m.ctx.Err() == nil {
		m.become(stopped)
	}
	m.end(code)
}

// quoted returns a script that becomes a command.
func quoted(args []string) string {
	var b strings.Builder
	b.WriteString("exec")
	for _, arg := range args {
		b.WriteString(" " + quote(arg))
	}
	return b.String()
}

func quote(arg string) string { return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'" }

// form returns the machine as a response has it.
func (m *machine) form() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	config := m.config
	config.Metadata = maps.Clone(m.config.Metadata)
	events := []map[string]any{{"type": "launch", "status": created, "source": "user", "timestamp": 1}}
	if m.state == stopped {
		exit := map[string]any{"exit_code": m.code, "oom_killed": false}
		events = append([]map[string]any{{"type": "exit", "status": stopped, "request": map[string]any{"exit_event": exit}}}, events...)
	}
	return map[string]any{"id": m.id, "name": m.name, "state": m.state, "region": m.region, "instance_id": "01" + m.id, "config": config, "events": events}
}

// valid returns why there is no such machine.
func (c machineConfig) valid() error {
	invalid := func(format string, args ...any) error {
		return refuse(http.StatusBadRequest, "invalid_argument: "+format, args...)
	}
	least, most := 256, 2048
	if c.Guest.CPUKind == "performance" {
		least, most = 2048, 8192
	}
	switch {
	case c.Image == "":
		return invalid("image is required")
	case c.Guest.CPUKind != "shared" && c.Guest.CPUKind != "performance":
		return invalid("cpu_kind is %q", c.Guest.CPUKind)
	case !slices.Contains([]int{1, 2, 4, 8, 16}, c.Guest.CPUs), c.Guest.MemoryMB%256 != 0,
		c.Guest.MemoryMB < least*c.Guest.CPUs, c.Guest.MemoryMB > most*c.Guest.CPUs:
		return invalid("%d CPUs and %d MB", c.Guest.CPUs, c.Guest.MemoryMB)
	case c.Restart.Policy != "no" || !c.AutoDestroy || len(c.Init.Exec) == 0:
		return invalid("the service knows only machines that end with their command")
	}
	return nil
}

func (s *Service) createMachine(r *http.Request) (int, any, error) {
	var in struct {
		Name   string        `json:"name"`
		Region string        `json:"region"`
		Config machineConfig `json:"config"`
	}
	if err := strict(r, &in); err != nil {
		return 0, nil, err
	}
	if err := in.Config.valid(); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	a, err := s.app(r)
	network := environment.Network{}
	if err == nil {
		network = a.network(in.Config.Metadata)
		for _, other := range s.machines {
			if other.app == r.PathValue("app") && other.name == in.Name && other.current() != destroyed {
				err = refuse(http.StatusConflict, "already_exists: unique machine name violation, machine ID %s already exists with name %q", other.id, in.Name)
			}
		}
	}
	s.next++
	m := &machine{
		id: fmt.Sprintf("%014x", s.next), name: in.Name, app: r.PathValue("app"), region: in.Region, config: in.Config,
		state: created, gone: make(chan struct{}), changed: make(chan struct{}),
	}
	s.mu.Unlock()
	if err != nil {
		return 0, nil, err
	}
	image, err := s.images.Bare(r.Context(), s.runs, in.Config.Image)
	if err != nil {
		return 0, nil, refuse(http.StatusBadRequest, "failed to get manifest %s: %v", in.Config.Image, err)
	}
	m.env, err = s.runs.CreateEnvironment(r.Context(), environment.CreateOptions{
		Image: image, Network: network, Labels: environment.Labels{Job: "flytest", Owner: environment.Self()},
		Limits: environment.Limits{MilliCPUs: int64(in.Config.Guest.CPUs) * 1000, Memory: int64(in.Config.Guest.MemoryMB) << 20},
	})
	if err != nil {
		return 0, nil, err
	}
	m.ctx, m.cancel = context.WithCancel(s.ctx)
	m.init = startInit(m.ctx, m.env)
	s.mu.Lock()
	s.machines[m.id] = m
	a.order = append(a.order, m.id)
	s.mu.Unlock()
	form := m.form()
	go m.run()
	return http.StatusOK, form, nil
}

// network returns the network of a machine with metadata: all, or nothing.
func (a *app) network(metadata map[string]string) environment.Network {
	for _, p := range a.policies {
		selected := true
		for key, value := range p.Selector.Metadata {
			selected = selected && metadata[key] == value
		}
		if selected {
			return environment.Network{Mode: environment.NetworkNone}
		}
	}
	return environment.Network{}
}

// machine returns the machine that a request names.
func (s *Service) machine(r *http.Request) (*machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[r.PathValue("id")]; m != nil && m.app == r.PathValue("app") {
		return m, nil
	}
	return nil, errNotFound
}

func (s *Service) listMachines(r *http.Request) (int, any, error) {
	values, err := query(r, "metadata.")
	if err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.app(r)
	if err != nil {
		return 0, nil, err
	}
	list := []map[string]any{}
	for _, id := range a.order {
		m := s.machines[id]
		if m == nil || m.current() == destroyed && !s.faults.Lag {
			continue
		}
		form := m.form()
		fits := true
		for key := range values {
			fits = fits && form["config"].(machineConfig).Metadata[strings.TrimPrefix(key, "metadata.")] == values.Get(key)
		}
		if s.faults.Lag {
			form["state"] = started
		}
		if fits {
			list = append(list, form)
		}
	}
	return http.StatusOK, list, nil
}

func (s *Service) getMachine(r *http.Request) (int, any, error) {
	m, err := s.machine(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, m.form(), nil
}

func (s *Service) waitMachine(r *http.Request) (int, any, error) {
	values, err := query(r, "state", "instance_id", "timeout")
	if err != nil {
		return 0, nil, err
	}
	m, err := s.machine(r)
	if err != nil {
		return 0, nil, err
	}
	seconds, err := strconv.Atoi(values.Get("timeout"))
	if err != nil || seconds < 1 || seconds > 60 || values.Get("instance_id") != "01"+m.id {
		return 0, nil, refuse(http.StatusBadRequest, "invalid_argument: timeout or instance_id")
	}
	late := time.After(time.Duration(seconds) * time.Second)
	for {
		m.mu.Lock()
		state, changed := m.state, m.changed
		m.mu.Unlock()
		if state == values.Get("state") {
			return http.StatusOK, map[string]bool{"ok": true}, nil
		}
		select {
		case <-changed:
		case <-late:
			return 0, nil, refuse(http.StatusRequestTimeout, "deadline_exceeded: machine failed to reach desired state, %s, currently %s", values.Get("state"), state)
		case <-r.Context().Done():
			return 0, nil, r.Context().Err()
		}
	}
}

func (s *Service) deleteMachine(r *http.Request) (int, any, error) {
	values, err := query(r, "force")
	if err != nil {
		return 0, nil, err
	}
	m, err := s.machine(r)
	if err != nil {
		return 0, nil, err
	}
	if m.current() == started && values.Get("force") != "true" {
		return 0, nil, refuse(http.StatusPreconditionFailed, "failed_precondition: unable to destroy machine, not currently stopped")
	}
	m.end(0)
	return http.StatusOK, map[string]bool{"ok": true}, nil
}

func (s *Service) setMetadata(r *http.Request) (int, any, error) {
	var in struct {
		Value string `json:"value"`
	}
	if err := strict(r, &in); err != nil {
		return 0, nil, err
	}
	m, err := s.machine(r)
	if err == nil && m.current() == destroyed {
		err = errNotFound
	}
	if err != nil {
		return 0, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config.Metadata[r.PathValue("key")] = in.Value
	return http.StatusNoContent, nil, nil
}

// maxStdin is the most input that flyctl gives a command.
const maxStdin = 1 << 20

func (s *Service) exec(r *http.Request) (int, any, error) {
	var in struct {
		Command []string `json:"command"`
		Stdin   string   `json:"stdin"`
		Timeout int      `json:"timeout"`
	}
	if err := strict(r, &in); err != nil {
		return 0, nil, err
	}
	m, err := s.machine(r)
	switch {
	case err != nil:
		return 0, nil, err
	case len(in.Command) == 0 || len(in.Stdin) > maxStdin || in.Timeout < 1:
		return 0, nil, refuse(http.StatusBadRequest, "invalid_argument: command, stdin or timeout")
	case m.current() != started:
		return 0, nil, refuse(http.StatusPreconditionFailed, "failed_precondition: machine is not running")
	}
	limit := s.fault().ExecLimit
	if limit == 0 {
		limit = 30 * time.Second
	}
	done, late, err := m.init.run(in.Command, in.Stdin, min(limit, time.Duration(in.Timeout)*time.Second))
	switch {
	case late:
		return 0, nil, refuse(http.StatusRequestTimeout, "deadline_exceeded: Request timed out")
	case err != nil && m.current() != started:
		return 0, nil, refuse(http.StatusPreconditionFailed, "failed_precondition: machine is not running")
	case err != nil:
		return 0, nil, refuse(http.StatusInternalServerError, "internal: %v", err)
	}
	s.mu.Lock()
	s.bytes += int64(len(in.Stdin) + len(done.out))
	halve := s.faults.Halve
	s.mu.Unlock()
	output := strings.ToValidUTF8(string(done.out), "\uFFFD")
	if halve != nil && halve() {
		output = output[:len(output)/2]
	}
	return http.StatusOK, map[string]any{"exit_code": done.code, "stdout": output, "stderr": string(done.errors)}, nil
}
