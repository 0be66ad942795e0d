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
		{Name: "main stops for good, and the services go on", Run: suite.Needing(suite.ServiceProvider, checkStopMain)},
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
	main, host, destroy := sharingVolume(s, of)
	defer destroy()
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

// sharingVolume creates an environment whose main and services share a volume at /shared. destroy
// destroys it.
func sharingVolume(s *suite.Scene, of environment.Services) (main *suite.Env, host environment.ServiceHost, destroy func()) {
	of.Volumes = []string{"data"}
	mounts := []environment.ServiceMount{{Volume: "data", Target: "/shared"}}
	of.Main.Mounts = mounts
	for i := range of.Others {
		of.Others[i].Mounts = mounts
	}
	env, err := createWith(s, of)
	if err != nil {
		s.Fatalf("CreateWithServices: %v", err)
	}
	host, ok := environment.As[environment.ServiceHost](env)
	if !ok {
		s.Fatalf("the environment is no ServiceHost")
	}
	return &suite.Env{Environment: env, Scene: s}, host, func() {
		if err := env.Destroy(s.Ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	}
}

// checkStopMain stops main while a detached process of it writes to a volume of a service.
func checkStopMain(s *suite.Scene) {
	of := withMain(service(s, "db", "echo begins; exec sleep infinity"))
	main, host, destroy := sharingVolume(s, of)
	defer destroy()
	main.Run(`(setsid bash -c 'while echo x >>/shared/beats; do sleep 0.02; done' >/dev/null 2>&1 </dev/null &)
		until [ -s /shared/beats ]; do sleep 0.02; done`)
	for range 2 {
		if err := environment.StopMain(s.Ctx, main.Environment); err != nil {
			s.Fatalf("StopMain: %v", err)
		}
	}
	found, ok := host.Service("db")
	if !ok {
		s.Fatalf("there is no service db")
	}
	db := &suite.Env{Environment: found, Scene: s}
	s.Equal("what main writes afterwards", db.Run(`before=$(stat -c %s /shared/beats); sleep 0.3; echo $(($(stat -c %s /shared/beats) - before))`), "0\n")
	dir := s.TempDir()
	if got, err := found.CopyFrom(s.Ctx, "/shared", dir, environment.ExtractOptions{MaxBytes: 1 << 20, MaxFiles: 10}); err != nil || got.Files != 1 {
		s.Errorf("CopyFrom of the service: %d files, %v", got.Files, err)
	}
	logs := map[string]string{}
	if err := host.ServiceLogs(s.Ctx, keep(logs)); err != nil || logs["db"] != "begins\n" {
		s.Errorf("the logs are %q, %v", logs, err)
	}
	_, err := main.Exec(s.Ctx, ":", environment.ExecOptions{})
	s.WantKind("a command in main", err, environment.KindLost)
	if err := main.Stop(s.Ctx); err != nil {
		s.Errorf("Stop: %v", err)
	}
	if all := s.Listed(); len(all) != 1 || !all[0].Kept {
		s.Errorf("after Stop, %+v is listed, want one that is kept", all)
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
