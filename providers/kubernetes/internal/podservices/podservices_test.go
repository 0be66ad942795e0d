package podservices

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// inDefault returns a service in the default network.
func inDefault(name string) environment.Service {
	return environment.Service{Name: name, Image: "image", Networks: map[string]environment.Endpoint{"default": {}}}
}

func services(others ...environment.Service) environment.Services {
	return environment.Services{Main: inDefault(environment.MainService), Others: others, Networks: []environment.ServiceNetwork{{Name: "default"}}}
}

func TestServicesThatAPodCannotHaveAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a, b *environment.Service, s *environment.Services)
		want   string
	}{
		"two that can run": {func(a, b *environment.Service, _ *environment.Services) {
			a.Ports, b.Ports = []string{"80/tcp"}, []string{"80/udp"}
		}, ""},
		"the same port": {func(a, b *environment.Service, _ *environment.Services) {
			a.Ports, b.Ports = []string{"80/tcp"}, []string{"80/tcp"}
		}, "services a and b both listen on port 80/tcp"},
		"the port of main": {func(a, _ *environment.Service, s *environment.Services) {
			a.Ports, s.Main.Ports = []string{"80/tcp"}, []string{"80/tcp"}
		}, "services a and main both listen"},
		"networks that keep services apart": {func(a, _ *environment.Service, s *environment.Services) {
			a.Networks = map[string]environment.Endpoint{"back": {}}
			s.Networks = append(s.Networks, environment.ServiceNetwork{Name: "back"})
		}, "keep the services a and b apart"},
		"an internal network": {func(a, _ *environment.Service, s *environment.Services) {
			a.Networks = map[string]environment.Endpoint{"back": {}}
			s.Networks = append(s.Networks, environment.ServiceNetwork{Name: "back", Internal: true})
		}, "service a is only in internal networks"},
		"no network":                 {func(a, _ *environment.Service, _ *environment.Services) { a.Networks = nil }, "service a has no network"},
		"no network of the last one": {func(_, b *environment.Service, _ *environment.Services) { b.Networks = nil }, "service b has no network"},
		"the network of another one": {func(a, _ *environment.Service, _ *environment.Services) { a.Networks, a.NetworkOf = nil, "b" }, ""},
		"other addresses of a host": {func(a, b *environment.Service, _ *environment.Services) {
			a.Hosts, b.Hosts = []string{"x:10.0.0.1"}, []string{"x:10.0.0.2"}
		}, "another address for x"},
	} {
		a, b := inDefault("a"), inDefault("b")
		s := services()
		c.change(&a, &b, &s)
		s.Others = []environment.Service{a, b}
		err := Check(s)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	s := services(inDefault("a"))
	s.Networks[0].Internal, s.Isolated = true, true
	if err := Check(s); err != nil {
		t.Errorf("internal networks of an isolated environment: %v", err)
	}
}

func TestPodHasTheServices(t *testing.T) {
	db, odd := inDefault("db"), inDefault("My_API")
	db.Networks["default"] = environment.Endpoint{Aliases: []string{"store", "with_underscore"}}
	db.Mounts = []environment.ServiceMount{{Volume: "data", Target: "/data"}, {Target: "/scratch"}}
	db.Tmpfs, db.SharedMemory, db.NoNewPrivileges, db.CapDrop = []string{"/run:size=1m"}, 1<<20, true, []string{"all"}
	db.Hosts = []string{"v6:[::1]", "v4:10.0.0.1"}
	s := services(odd, db)
	s.Volumes = []string{"data"}
	s.Main.Mounts = []environment.ServiceMount{{Volume: "data", Target: "/shared", ReadOnly: true}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "task", SecurityContext: &corev1.SecurityContext{}}}}}
	Pod{Services: s, Images: map[string]Image{"db": {Ref: "db-image"}, "My_API": {Ref: "api-image"}}, Resources: func(environment.Limits) corev1.ResourceRequirements { return corev1.ResourceRequirements{} }}.
		Extend(pod, corev1.VolumeMount{Name: "guest", MountPath: podinit.Dir})
	var got bytes.Buffer
	for _, h := range pod.Spec.HostAliases {
		fmt.Fprintln(&got, "host", h.IP, h.Hostnames)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		fmt.Fprintln(&got, c.Name, c.Image, c.Command)
		for _, m := range c.VolumeMounts {
			fmt.Fprintln(&got, " ", m.Name, m.MountPath, m.ReadOnly)
		}
	}
	const want = `host 127.0.0.1 [db main store]
host 10.0.0.1 [v4]
host ::1 [v6]
rollout-fill-2 db-image [/.rollout/rollout-guest-fill /data /.rollout-volumes/data-1]
  guest /.rollout false
  data-1 /.rollout-volumes/data-1 false
rollout-fill-main task [/.rollout/rollout-guest-fill /shared /.rollout-volumes/data-1]
  guest /.rollout false
  data-1 /.rollout-volumes/data-1 false
main task []
  data-1 /shared true
services-1 api-image [/.rollout/rollout-guest My_API]
  guest /.rollout false
service-db db-image [/.rollout/rollout-guest db]
  guest /.rollout false
  data-1 /data false
  memory-s2-1 /run false
  memory-s2-2 /dev/shm false
`
	if got.String() != want {
		t.Errorf("the pod has\n%s", got.String())
	}
	if security := pod.Spec.Containers[2].SecurityContext; *security.AllowPrivilegeEscalation || !slices.Equal(security.Capabilities.Add, needed) {
		t.Errorf("the rights are %+v", security)
	}
	if lines := MoreHosts(s); lines != "127.0.0.1 My_API with_underscore\n" {
		t.Errorf("further names are %q", lines)
	}
}

// guest records the programs that it runs. A program "serve" runs until ctx ends; "check" succeeds
// from the third time on; "exit N" ends; "cat" prints a table of connections, in which port 8080 is
// being listened on from the third time on.
type guest struct {
	name string
	of   *record
}

type record struct {
	mu     sync.Mutex
	began  []string
	checks map[string]int
}

func (g guest) Run(ctx context.Context, of podinit.Run) (int, error) {
	g.of.mu.Lock()
	if of.Args[0] == "fail" {
		g.of.mu.Unlock()
		return 1, nil
	}
	if of.Args[0] == "check" {
		g.of.checks[g.name]++
		n := g.of.checks[g.name]
		g.of.mu.Unlock()
		if n < 3 {
			_, _ = io.WriteString(of.Output, "not yet")
			return 1, nil
		}
		return 0, nil
	}
	if of.Args[0] == "cat" {
		g.of.checks["cat"]++
		state := "01"
		if g.of.checks["cat"] >= 3 {
			state = "0A"
		}
		g.of.mu.Unlock()
		_, _ = io.WriteString(of.Output, "  sl  local_address rem_address   st\n   0: 0100007F:0016 00000000:0000 0A\n   1: 00000000:1F90 00000000:0000 "+state+"\n")
		return 1, nil // there is no IPv6
	}
	g.of.began = append(g.of.began, g.name)
	g.of.mu.Unlock()
	_, _ = io.WriteString(of.Output, "hello of "+g.name+"\n")
	of.Begun()
	switch of.Args[0] {
	case "serve":
		<-ctx.Done()
		return -1, ctx.Err()
	case "missing":
		return -1, &environment.Error{Kind: environment.KindExec, Err: errors.New("there is no such program")}
	}
	var code int
	_, _ = fmt.Sscan(of.Args[1], &code)
	return code, nil
}

// startAll starts services, and returns the names in the order in which they began.
func startAll(ctx context.Context, s environment.Services) (*Group, *record, error) {
	r := &record{checks: map[string]int{}}
	guests, images := map[string]Guest{}, map[string]Image{}
	for _, other := range s.Others {
		guests[other.Name], images[other.Name] = guest{other.Name, r}, Image{Entrypoint: []string{"serve"}, Cmd: []string{"unused"}}
	}
	g := New(s, images, guests)
	err := g.Begin(ctx)
	if err == nil {
		err = g.Main(ctx, guest{"main", r})
	}
	return g, r, err
}

func needing(s environment.Service, on string, c environment.Condition) environment.Service {
	s.DependsOn = append(slices.Clone(s.DependsOn), environment.Dependency{Service: on, Condition: c})
	return s
}

func TestServicesStartInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := inDefault("db")
		db.Healthcheck = environment.NewHealthcheck([]string{"CMD", "check"}, nil, environment.Healthcheck{Interval: time.Minute})
		seed := needing(inDefault("a-seed"), "db", environment.ServiceHealthy)
		seed.Entrypoint, seed.Command = []string{"exit"}, []string{"0"}
		s := services(needing(inDefault("a-api"), "a-seed", environment.ServiceCompleted), seed, db)
		s.Main = needing(s.Main, "a-api", environment.ServiceStarted)
		s.Main.Command = []string{"serve"}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g, r, err := startAll(ctx, s)
		defer g.End()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := []string{"db", "a-seed", "a-api", "main"}; !slices.Equal(r.began, want) {
			t.Errorf("they began as %v, want %v", r.began, want)
		}
		logs := ""
		g.Logs(func(service string, output io.Reader) {
			text, _ := io.ReadAll(output)
			logs += service + ": " + string(text)
		})
		if logs != "a-api: hello of a-api\na-seed: hello of a-seed\ndb: hello of db\nmain: hello of main\n" {
			t.Errorf("the logs are %q", logs)
		}
	})
}

// Services without a health check listen when the environment is ready, but one that never does
// keeps it only for a while.
func TestServicesListen(t *testing.T) {
	for name, c := range map[string]struct {
		ports  []string
		asked  int // how often the table is read, at least
		listen time.Duration
	}{
		"it listens after a while": {[]string{"8080/tcp", "22/tcp", "53/udp"}, 3, 30 * time.Millisecond},
		"it names other ports":     {[]string{"8080/tcp", "9/tcp"}, 4, listenTime},
		"it names no TCP port":     {[]string{"53/udp", "8000-8010/tcp"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, checked, ended := inDefault("web"), inDefault("checked"), inDefault("ended")
				web.Ports, checked.Ports, ended.Ports = c.ports, []string{"1/tcp"}, []string{"2/tcp"}
				checked.Healthcheck = environment.NewHealthcheck([]string{"CMD", "check"}, nil, environment.Healthcheck{Interval: time.Nanosecond})
				ended.Entrypoint, ended.Command = []string{"exit"}, []string{"0"}
				s := services(web, checked, ended)
				s.Main = needing(needing(s.Main, "ended", environment.ServiceCompleted), "checked", environment.ServiceHealthy)
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				g, r, err := startAll(ctx, s)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began).Truncate(time.Millisecond) - quickInterval; took != c.listen || // after the health check
					r.checks["cat"] < c.asked || c.asked == 0 && r.checks["cat"] > 0 {
					t.Errorf("the table was read %d times in %s, want %d in %s", r.checks["cat"], took, c.asked, c.listen)
				}
				g.End()
				cancel()
				synctest.Wait()
			})
		})
	}
}

// The program that prints the table of connections is the image's, which may be hostile.
func TestTheTableOfConnectionsIsBounded(t *testing.T) {
	web := inDefault("web")
	web.Ports = []string{"80/tcp"}
	New(services(web), nil, nil).awaitPorts(t.Context(), flood{t})
}

// flood prints more than is kept, and then that it listens on the port 80.
type flood struct{ t *testing.T }

func (f flood) Run(_ context.Context, of podinit.Run) (int, error) {
	for range 64 {
		_, _ = of.Output.Write(bytes.Repeat([]byte("x"), 1<<20))
	}
	_, _ = io.WriteString(of.Output, "\n0: 00000000:0050 00000000:0000 0A\n")
	if kept := len(of.Output.(fmt.Stringer).String()); kept > 2<<20 {
		f.t.Errorf("%d bytes are kept", kept)
	}
	return 0, nil
}

func TestServicesThatFailAreNamed(t *testing.T) {
	ends, ill, unchecked, missing, again := inDefault("db"), inDefault("db"), inDefault("db"), inDefault("db"), inDefault("db")
	ends.Entrypoint = []string{"exit", "7"}
	ends.Healthcheck = environment.NewHealthcheck([]string{"CMD", "check"}, nil, environment.Healthcheck{})
	ill.Healthcheck = environment.NewHealthcheck([]string{"CMD", "check"}, nil, environment.Healthcheck{Interval: time.Nanosecond, Retries: 1})
	missing.Entrypoint = []string{"missing"}
	missing.Healthcheck = ends.Healthcheck
	again.Entrypoint, again.Restart, again.Healthcheck = []string{"exit", "3"}, true, &environment.Healthcheck{Args: []string{"fail"}, Interval: time.Minute, Timeout: time.Second, StartInterval: time.Second, Retries: 2}
	for name, c := range map[string]struct {
		service environment.Service
		want    string
	}{
		"it ends":                    {ends, "service db ended with exit code 7: hello of db"},
		"it is unhealthy":            {ill, "service db is unhealthy: its check ended with exit code 1: not yet"},
		"it has no health check":     {unchecked, "service db has no healthcheck"},
		"its program is not there":   {missing, "service db does not run: there is no such program"},
		"it ends after each restart": {again, "service db ended with exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := services(c.service)
				s.Main = needing(s.Main, "db", environment.ServiceHealthy)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				g, r, err := startAll(ctx, s)
				g.End()
				if err == nil || !strings.Contains(err.Error(), c.want) || environment.KindOf(err) != environment.KindStart {
					t.Errorf("%v, want %q", err, c.want)
				}
				if slices.Contains(r.began, "main") {
					t.Error("main began")
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

func TestLogsKeepTheirEnd(t *testing.T) {
	var l log
	for i := range 100_000 {
		fmt.Fprintf(&l, "%045d\n", i)
	}
	text := l.copy()
	if len(text) != maxLog || !bytes.HasSuffix(text, []byte("99999\n")) {
		t.Errorf("%d bytes are kept, with the end %q", len(text), text[len(text)-10:])
	}
}
