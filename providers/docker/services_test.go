package docker

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/org/rollout-action/internal/core/environment"
)

// web is a service that serves its variable WORD over HTTP, and is healthy when it does.
func web(name string) environment.Service {
	return environment.Service{
		Name: name, Image: testImage, Env: map[string]string{"WORD": "hello of " + name},
		Command:  []string{"bash", "-c", `mkdir /srv/www; cd /srv/www; echo starts; sleep 0.3; echo "$WORD" >word; exec python3 -m http.server 8000`},
		Networks: map[string]environment.Endpoint{"default": {Aliases: []string{name + "-alias"}}},
		Healthcheck: &environment.Healthcheck{
			Args:     []string{"python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/word')"},
			Interval: 200 * time.Millisecond, Timeout: 5 * time.Second, Retries: 50,
		},
	}
}

const fetchWord = `python3 -c "import urllib.request as u, sys; print(u.urlopen('http://$1:8000/word').read().decode(), end='')"`

func services(others ...environment.Service) environment.Services {
	main := environment.Service{Name: environment.MainService, Networks: map[string]environment.Endpoint{"default": {}}}
	for _, o := range others {
		main.DependsOn = append(main.DependsOn, environment.Dependency{Service: o.Name, Condition: environment.ServiceHealthy})
	}
	return environment.Services{Main: main, Others: others, Networks: []environment.ServiceNetwork{{Name: "default"}}}
}

// noRemains fails if containers, networks or volumes of services are left.
func noRemains(t *testing.T, p *Provider, labels environment.Labels) {
	t.Helper()
	mine := filters.NewArgs(filters.Arg("label", environment.LabelJob+"="+labels.Job))
	containers, err := listContainers(context.Background(), p.api, filters.Arg("label", environment.LabelJob+"="+labels.Job))
	if err != nil || len(containers) > 0 {
		t.Errorf("containers are left: %v, %v", containers, err)
	}
	networks, err := p.api.NetworkList(context.Background(), network.ListOptions{Filters: mine})
	if err != nil || len(networks) > 0 {
		t.Errorf("networks are left: %v, %v", networks, err)
	}
	volumes, err := p.api.VolumeList(context.Background(), volume.ListOptions{Filters: mine})
	if err != nil || len(volumes.Volumes) > 0 {
		t.Errorf("volumes are left: %v, %v", volumes, err)
	}
}

func TestServices(t *testing.T) {
	p := newProvider(t, nil)
	labels := testLabels(t)
	s := services(web("db"))
	s.Volumes = []string{"data"}
	s.Others[0].Mounts = []environment.ServiceMount{{Volume: "data", Target: "/data"}}
	env, err := p.CreateWithServices(t.Context(), environment.CreateOptions{Image: testImage, Labels: labels, Limits: environment.Limits{Memory: 256 << 20}}, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := printed(t, env, strings.ReplaceAll(fetchWord, "$1", "db")+";"+strings.ReplaceAll(fetchWord, "$1", "db-alias")); got != "hello of db\nhello of db\n" {
		t.Errorf("the service says %q", got)
	}
	listed, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mine := 0
	for _, l := range listed {
		if l.Labels.Job == labels.Job {
			mine++
		}
	}
	if mine != 1 {
		t.Errorf("%d environments are listed", mine)
	}
	host, ok := environment.As[environment.ServiceHost](env)
	if !ok {
		t.Fatal("no ServiceHost")
	}
	logs := map[string]string{}
	if err := host.ServiceLogs(t.Context(), func(service string, r io.Reader) {
		text, _ := io.ReadAll(r)
		logs[service] = string(text)
	}); err != nil || !strings.HasPrefix(logs["db"], "starts\n") {
		t.Errorf("the logs are %q, %v", logs, err)
	}
	db, ok := host.Service("db")
	if !ok {
		t.Fatal("no service db")
	}
	if got := printed(t, db, "cat /srv/www/word; ls -d /data"); got != "hello of db\n/data\n" {
		t.Errorf("the service has %q", got)
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	noRemains(t, p, labels)
}

func printed(t *testing.T, env environment.Environment, script string) string {
	t.Helper()
	var out, trouble strings.Builder
	code, err := env.Exec(t.Context(), script, environment.ExecOptions{Stdout: &out, Stderr: &trouble})
	if err != nil || code != 0 {
		t.Errorf("%s: %d, %v\n%s", script, code, err, trouble.String())
	}
	return out.String()
}

func TestServicesThatFail(t *testing.T) {
	p := newProvider(t, nil)
	dies, ill, unchecked, missing := web("db"), web("db"), web("db"), web("db")
	dies.Command = []string{"bash", "-c", "echo cannot go on; exit 7"}
	ill.Healthcheck = &environment.Healthcheck{Args: []string{"bash", "-c", "echo not well; exit 1"}, Interval: 100 * time.Millisecond, Timeout: time.Minute, Retries: 2}
	unchecked.Healthcheck = nil
	missing.Image = "rollout.invalid/missing"
	for name, c := range map[string]struct {
		service environment.Service
		says    []string
	}{
		"it ends":                {dies, []string{"service db ended with exit code 7"}},
		"it is unhealthy":        {ill, []string{"service db is unhealthy", "exit code 1: not well"}},
		"it has no health check": {unchecked, []string{"service db has no healthcheck"}},
		"its image is not there": {missing, []string{"service db", environment.ErrNoImage.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			labels := testLabels(t)
			s, logs := services(c.service), map[string]string{}
			s.Log = func(service string, r io.Reader) {
				text, _ := io.ReadAll(r)
				logs[service] = string(text)
			}
			_, err := p.CreateWithServices(t.Context(), environment.CreateOptions{Image: testImage, Labels: labels}, s)
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %q", err, want)
				}
			}
			if name == "it ends" {
				e := new(environment.Error)
				if !errors.As(err, &e) || e.Output != "cannot go on" || logs["db"] != "cannot go on\n" {
					t.Errorf("output %q, logs %q", e.Output, logs)
				}
			}
			noRemains(t, p, labels)
		})
	}
}

func TestCancelledStartOfServicesLeavesNothing(t *testing.T) {
	p := newProvider(t, nil)
	labels := testLabels(t)
	slow := web("db")
	slow.Command = []string{"sleep", "infinity"}
	ctx, cancel := context.WithCancel(t.Context())
	s := services(slow)
	go func() { // when the service runs
		for ctx.Err() == nil {
			if all, err := p.List(context.Background()); err == nil {
				for _, l := range all {
					if l.Labels.Job == labels.Job {
						cancel()
					}
				}
			}
		}
	}()
	_, err := p.CreateWithServices(ctx, environment.CreateOptions{Image: testImage, Labels: labels}, s)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	noRemains(t, p, labels)
}

// Without a public network neither main nor services reach anything but each other.
func TestIsolatedServices(t *testing.T) {
	p := newProvider(t, nil)
	labels := testLabels(t)
	s := services(web("db"))
	s.Isolated = true
	env, err := p.CreateWithServices(t.Context(), environment.CreateOptions{Image: testImage, Labels: labels, Network: environment.Network{Mode: environment.NetworkNone}}, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		noRemains(t, p, labels)
	}()
	if got := printed(t, env, strings.ReplaceAll(fetchWord, "$1", "db")); got != "hello of db\n" {
		t.Errorf("the service says %q", got)
	}
	db, _ := env.(environment.ServiceHost).Service("db")
	for name, e := range map[string]environment.Environment{"main": env, "db": db} {
		got := printed(t, e, `getent hosts example.com >/dev/null && echo resolved
			ip=$(hostname -i)
			for at in "${ip%.*}.1" 1.1.1.1; do for port in 22 53 2375; do timeout 1 bash -c "echo >/dev/tcp/$at/$port" 2>&1 | grep -q refused && echo "$at answered"; done; done; true`)
		if got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if err := environment.SetNetwork(t.Context(), env, environment.Network{}); err == nil {
		t.Error("the network became public")
	}
}

// The remains of a killed process are one entry of the list, whichever parts are there.
func TestRemainsOfServicesAreListed(t *testing.T) {
	p := newProvider(t, nil)
	labels := testLabels(t)
	env, err := p.CreateWithServices(t.Context(), environment.CreateOptions{Image: testImage, Labels: labels}, services(web("db")))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.remove(t.Context(), env.ID()); err != nil {
		t.Fatal(err)
	}
	listed, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range listed {
		if l.Labels.Job == labels.Job {
			if err := p.Remove(t.Context(), l.ID); err != nil {
				t.Error(err)
			}
		}
	}
	noRemains(t, p, labels)
}
