package kubernetes

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// serviceGuest is a guest whose programs print the name of their service, and run until it is
// closed. Checks succeed at once.
type serviceGuest struct {
	fakeGuest
	name   string
	code   int
	closed sync.Once
	over   chan struct{}
}

func (g *serviceGuest) Run(ctx context.Context, of podinit.Run) (int, error) {
	if of.Args[0] == "check" {
		return 0, nil
	}
	_, _ = io.WriteString(of.Output, "hello of "+g.name+"\n")
	of.Begun()
	if g.code != 0 {
		return g.code, nil
	}
	select {
	case <-g.over:
		return -1, lost(false, "closed")
	case <-ctx.Done():
		return -1, ctx.Err()
	}
}

func (g *serviceGuest) Close() { g.closed.Do(func() { close(g.over) }) }

// withServices has the provider pretend guests of services, whose programs end with these exit
// codes, and the server run all containers of pods.
func withServices(f *fakeAPI, p *Provider, codes map[string]int) {
	f.kubelet = func(name string) {
		f.change(name, running)
		f.change(name, func(pod *corev1.Pod) {
			for _, c := range pod.Spec.Containers[1:] {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
			}
		})
	}
	p.begin = func(ctx context.Context, _ podinit.Dialer, opts podinit.Options) (inContainer, error) {
		if opts.Connected != nil {
			if err := opts.Connected(ctx, nil); err != nil {
				return nil, err
			}
		}
		return &serviceGuest{name: opts.Name, code: codes[opts.Name], over: make(chan struct{})}, nil
	}
}

func threeServices() environment.Services {
	service := func(name string) environment.Service {
		return environment.Service{
			Name: name, Image: name + "-image", Command: []string{"serve"}, Networks: map[string]environment.Endpoint{"default": {}},
			Healthcheck: environment.NewHealthcheck([]string{"CMD", "check"}, nil, environment.Healthcheck{}),
		}
	}
	s := environment.Services{Main: service(environment.MainService), Others: []environment.Service{service("api"), service("db")}, Networks: []environment.ServiceNetwork{{Name: "default"}}}
	s.Main.Command, s.Main.Healthcheck = nil, nil
	s.Main.DependsOn = []environment.Dependency{{Service: "api", Condition: environment.ServiceHealthy}, {Service: "db", Condition: environment.ServiceHealthy}}
	return s
}

func TestServicesRunInThePod(t *testing.T) {
	f := newFakeAPI(t)
	p := f.provider(t, nil)
	withServices(f, p, nil)
	env, err := p.CreateWithServices(t.Context(), fakeOptions(), threeServices())
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	names := ""
	for _, pod := range f.pods {
		for _, c := range pod.Spec.Containers {
			names += c.Name + "=" + c.Image + " "
		}
	}
	f.mu.Unlock()
	if names != "main=image service-api=api-image service-db=db-image " {
		t.Errorf("the containers are %s", names)
	}
	host, _ := environment.As[environment.ServiceHost](env)
	logs := ""
	err = host.ServiceLogs(t.Context(), func(service string, r io.Reader) {
		text, _ := io.ReadAll(r)
		logs += service + ": " + string(text)
	})
	if err != nil || logs != "api: hello of api\ndb: hello of db\n" {
		t.Errorf("the logs are %q, %v", logs, err)
	}
	if db, ok := host.Service("db"); !ok || !strings.HasSuffix(db.ID(), "/db") {
		t.Errorf("the service is %v", db)
	}
	if _, ok := host.Service("other"); ok {
		t.Error("there is a service that is not in the file")
	}
	if err := errors.Join(env.Stop(t.Context()), env.Destroy(t.Context())); err != nil {
		t.Error(err)
	}
	if left := f.names(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A command of main that is to be restarted is not, once main is stopped; the pod and its services
// go on.
func TestStopMain(t *testing.T) {
	f := newFakeAPI(t)
	p := f.provider(t, nil)
	withServices(f, p, nil)
	s := threeServices()
	s.Main.Command, s.Main.Restart = []string{"serve"}, true
	env, err := p.CreateWithServices(t.Context(), fakeOptions(), s)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := environment.StopMain(t.Context(), env); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := env.Exec(t.Context(), ":", environment.ExecOptions{}); environment.KindOf(err) != environment.KindLost {
		t.Errorf("a command in main: %v", err)
	}
	host, _ := environment.As[environment.ServiceHost](env)
	db, _ := host.Service("db")
	if _, err := db.Exec(t.Context(), ":", environment.ExecOptions{}); err != nil {
		t.Errorf("a command in a service: %v", err)
	}
	logs := ""
	err = host.ServiceLogs(t.Context(), func(service string, r io.Reader) {
		text, _ := io.ReadAll(r)
		logs += service + ": " + string(text)
	})
	if err != nil || logs != "api: hello of api\ndb: hello of db\nmain: hello of \n" {
		t.Errorf("the logs are %q, %v", logs, err)
	}
	if err := errors.Join(env.Stop(t.Context()), env.Destroy(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestServicesThatFailLeaveNoPod(t *testing.T) {
	f := newFakeAPI(t)
	p := f.provider(t, nil)
	withServices(f, p, map[string]int{"db": 7})
	s, logs := threeServices(), ""
	s.Others[1].Healthcheck = nil
	s.Main.DependsOn[1].Condition = environment.ServiceCompleted
	s.Log = func(service string, _ io.Reader) { logs += service + " " }
	_, err := p.CreateWithServices(t.Context(), fakeOptions(), s)
	if err == nil || !strings.Contains(err.Error(), "service db ended with exit code 7: hello of db") || environment.KindOf(err) != environment.KindStart {
		t.Errorf("%v", err)
	}
	if logs != "api db " {
		t.Errorf("the logs of %q were passed on", logs)
	}
	if left := f.names(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestImagesOfServicesThatCannotBePulledAreNamed(t *testing.T) {
	f := newFakeAPI(t)
	p := f.provider(t, nil)
	withServices(f, p, nil)
	f.kubelet = func(name string) {
		f.change(name, running)
		f.change(name, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: "service-db", Image: "db-image", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "manifest unknown"}},
			})
		})
	}
	_, err := p.CreateWithServices(t.Context(), fakeOptions(), threeServices())
	if err == nil || !strings.Contains(err.Error(), "db-image") || environment.KindOf(err) != environment.KindPull {
		t.Errorf("%v", err)
	}
	if left := f.names(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestServicesThatNoPodCanHaveMakeNone(t *testing.T) {
	f := newFakeAPI(t)
	p := f.provider(t, nil)
	s := threeServices()
	s.Others[0].Ports, s.Others[1].Ports = []string{"80/tcp"}, []string{"80/tcp"}
	if _, err := p.CreateWithServices(t.Context(), fakeOptions(), s); err == nil || !strings.Contains(err.Error(), "both listen on port 80/tcp") {
		t.Errorf("%v", err)
	}
	s = threeServices()
	s.Isolated = true
	if _, err := p.CreateWithServices(t.Context(), fakeOptions(), s); err == nil || !strings.Contains(err.Error(), "public network in all phases") {
		t.Errorf("%v", err)
	}
	if f.count("POST pods") > 0 {
		t.Error("a pod was created")
	}
}
