package lifecycle

import (
	"io"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// serviceChecks check environments with services.
func serviceChecks() []suite.Check {
	return []suite.Check{
		{Name: "services start in order, have names and keep logs", Run: suite.Needing(suite.ServiceProvider, checkServices)},
		{Name: "a service that fails is named, and leaves no environment", Run: suite.Needing(suite.ServiceProvider, checkFailingService)},
	}
}

// service returns a service of the suite's image that runs a script.
func service(s *suite.Scene, name, script string) environment.Service {
	return environment.Service{
		Name: name, Image: s.Opts.Image, Entrypoint: []string{"bash", "-c", script}, Networks: map[string]environment.Endpoint{"default": {}},
	}
}

func withMain(others ...environment.Service) environment.Services {
	return environment.Services{
		Main:   environment.Service{Name: environment.MainService, Networks: map[string]environment.Endpoint{"default": {}}},
		Others: others, Networks: []environment.ServiceNetwork{{Name: "default"}},
	}
}

// createWith creates an environment with services.
func createWith(s *suite.Scene, of environment.Services) (environment.Environment, error) {
	return environment.CreateWithServices(s.Ctx, s.Provider, environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels}, of)
}

func checkServices(s *suite.Scene) {
	db := service(s, "db", `echo "$WORD"; touch /shared/ready; exec sleep infinity`)
	db.Env = map[string]string{"WORD": "the db begins"}
	db.Networks = map[string]environment.Endpoint{"default": {Aliases: []string{"store"}}}
	db.Healthcheck = &environment.Healthcheck{
		Args: []string{"test", "-e", "/shared/ready"}, Interval: 100 * time.Millisecond, Timeout: s.Opts.Patience(), StartInterval: time.Second, StartPeriod: s.Opts.Patience(), Retries: 3,
	}
	seed := service(s, "a-seed", `echo seeds; cat /shared/ready && echo seeded >/shared/word`)
	seed.DependsOn = []environment.Dependency{{Service: "db", Condition: environment.ServiceHealthy}}
	of := withMain(seed, db)
	of.Main.DependsOn = []environment.Dependency{{Service: "a-seed", Condition: environment.ServiceCompleted}}
	of.Volumes = []string{"data"}
	for _, sharing := range []*environment.Service{&of.Main, &of.Others[0], &of.Others[1]} {
		sharing.Mounts = []environment.ServiceMount{{Volume: "data", Target: "/shared"}}
	}
	env, err := createWith(s, of)
	if err != nil {
		s.Fatalf("CreateWithServices: %v", err)
	}
	defer func() {
		if err := env.Destroy(s.Ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	}()
	host, ok := environment.As[environment.ServiceHost](env)
	if !ok {
		s.Fatalf("the environment is no ServiceHost")
	}
	main := &suite.Env{Environment: env, Scene: s}
	s.Equal("what a service that ends has written", main.Run("cat /shared/word"), "seeded\n")
	main.Run("getent hosts db && getent hosts store && getent hosts main")
	found, ok := host.Service("db")
	if !ok {
		s.Fatalf("there is no service db")
	}
	s.Equal("a variable of a service", (&suite.Env{Environment: found, Scene: s}).RunWith(`cat /shared/word; echo "$WORD"`, environment.ExecOptions{}), "seeded\nthe db begins\n")
	if _, ok := host.Service("none"); ok {
		s.Errorf("there is a service that was not asked for")
	}
	logs := map[string]string{}
	if err := host.ServiceLogs(s.Ctx, keep(logs)); err != nil {
		s.Errorf("ServiceLogs: %v", err)
	}
	if logs["db"] != "the db begins\n" || logs["a-seed"] != "seeds\n" || len(logs) != 2 {
		s.Errorf("the logs are %q", logs)
	}
	if n := len(s.Listed()); n != 1 {
		s.Errorf("%d environments are listed, want 1", n)
	}
}

// keep returns a function that keeps logs.
func keep(logs map[string]string) environment.ServiceLog {
	return func(service string, output io.Reader) {
		text, _ := io.ReadAll(output)
		logs[service] = string(text)
	}
}

func checkFailingService(s *suite.Scene) {
	failing := service(s, "db", "echo cannot go on; exit 7")
	of := withMain(failing)
	of.Main.DependsOn = []environment.Dependency{{Service: "db", Condition: environment.ServiceCompleted}}
	logs := map[string]string{}
	of.Log = keep(logs)
	env, err := createWith(s, of)
	if err == nil {
		_ = env.Destroy(s.Ctx)
		s.Fatalf("an environment whose service has failed was created")
	}
	if environment.KindOf(err) != environment.KindStart || !strings.Contains(err.Error(), "db") || !strings.Contains(err.Error(), "7") {
		s.Errorf("the error is %v, want a KindStart that names the service and its exit code", err)
	}
	if len(logs) != 1 || logs["db"] != "cannot go on\n" {
		s.Errorf("the logs are %q", logs)
	}
}
