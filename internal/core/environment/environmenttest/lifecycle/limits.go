package lifecycle

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// LimitChecks check that each limit is enforced, or reported as not enforced.
func LimitChecks() []suite.Check {
	return []suite.Check{
		{Name: "memory is limited", Run: checkMemory},
		{Name: "cpus are limited", Run: checkCPUs},
		{Name: "processes are limited", Run: checkPids},
		{Name: "processes that fill their limit are counted, and the environment is not lost", Run: suite.Needing(suite.ProcessReporter, checkCrowded)},
		{Name: "storage is limited", Run: checkStorage},
		{Name: "limits that the machine does not have are refused", Run: checkTooManyCPUs},
	}
}

// limited creates an environment, and skips the check if the environment does not apply this limit.
func limited(s *suite.Scene, name string, limits environment.Limits) *suite.Env {
	s.Helper()
	env := s.Create(func(o *environment.CreateOptions) { o.Limits = limits })
	if slices.Contains(environment.Unenforced(env.Environment), name) {
		s.Skipf("Unenforced names %s", name)
	}
	return env
}

func checkMemory(s *suite.Scene) {
	env := limited(s, "memory", environment.Limits{Memory: 96 << 20})
	if n := environment.OOMKills(s.Ctx, env.Environment); n != 0 {
		s.Errorf("%d processes were killed for memory before anything has run", n)
	}
	// tail keeps all of its input in memory.
	o := env.Do(s.Ctx, "head -c 400000000 /dev/zero | tail -c 400000000 | wc -c; exit ${PIPESTATUS[1]}", environment.ExecOptions{})
	switch {
	case environment.KindOf(o.Err) == environment.KindLost:
		if !errors.Is(o.Err, environment.ErrOutOfMemory) { // the environment ended with its process
			s.Errorf("error %v, want ErrOutOfMemory in the chain", o.Err)
		}
		return
	case o.Err != nil:
		s.Errorf("error %v, want none or lost", o.Err)
	case o.Code == 0 || strings.HasPrefix(o.Stdout, "400000000"):
		s.Errorf("400 MB were held within 96 MiB: exit code %d, output %q", o.Code, o.Stdout)
	}
	if n := environment.OOMKills(s.Ctx, env.Environment); n < 1 && !s.Lacks(suite.MemoryReporter) {
		s.Errorf("%d processes were killed for memory, want 1 or more", n)
	}
	next := env.Do(s.Ctx, "echo fine", environment.ExecOptions{})
	if next.Stdout != "fine\n" && environment.KindOf(next.Err) != environment.KindLost {
		s.Errorf("the next command: %q, exit code %d, error %v", next.Stdout, next.Code, next.Err)
	}
}

// checkCPUs computes for two seconds and compares the CPU time with the elapsed time.
func checkCPUs(s *suite.Scene) {
	env := limited(s, "cpus", environment.Limits{MilliCPUs: 250})
	// Fields 14 to 17 of /proc/PID/stat are user and system ticks, own and of ended children.
	out := env.Run(`now() { date +%s%3N; }
		from=$(now)
		while [ $(( $(now) - from )) -lt 2000 ]; do for i in {1..20000}; do :; done; done
		read -r stat < /proc/$$/stat; set -- ${stat##*) }
		echo $(( (${12} + ${13} + ${14} + ${15}) * 1000 / $(getconf CLK_TCK) )) $(( $(now) - from ))`)
	cpu, wall, ok := strings.Cut(strings.TrimSpace(out), " ")
	used, err1 := strconv.Atoi(cpu)
	passed, err2 := strconv.Atoi(wall)
	if !ok || err1 != nil || err2 != nil || used == 0 {
		s.Fatalf("cannot read %q", out)
	}
	if ratio := float64(used) / float64(passed); ratio > 0.45 {
		s.Errorf("%d ms of processor in %d ms: %.2f of one, want 0.25", used, passed, ratio)
	}
}

// checkPids starts more processes than allowed. They end with the timeout at the latest.
func checkPids(s *suite.Scene) {
	env := limited(s, "pids", environment.Limits{Pids: 64})
	o := env.Do(s.Ctx, `: > /tmp/started; for i in $(seq 1 300); do sleep 3600 & echo $i >> /tmp/started; done; echo all`,
		environment.ExecOptions{Timeout: 5 * time.Second})
	if strings.Contains(o.Stdout, "all") {
		s.Error("300 processes were started within a limit of 64")
	}
	if !strings.Contains(o.Stderr, "fork") {
		s.Errorf("stderr does not tell why: %q", o.Stderr)
	}
	switch environment.KindOf(o.Err) {
	case environment.KindLost:
		return // no program could be started to kill them
	case "":
	default:
		s.Errorf("error %v", o.Err)
	}
	// Use no other command: the processes may still exist.
	n := strings.Count(env.Fetch("/tmp/started", environment.ExtractOptions{}).OK(s).Text(s, "started"), "\n")
	if n < 20 || n > 64 {
		s.Errorf("%d processes were started, want at most 64", n)
	}
}

// checkCrowded fills the limit of processes in the background. xargs does not give up when it
// cannot start another one.
func checkCrowded(s *suite.Scene) {
	env := limited(s, "pids", environment.Limits{Pids: 64})
	if environment.Crowded(s.Ctx, env.Environment) {
		s.Error("it is crowded before anything has run")
	}
	env.Run("echo kept > /kept; (yes 3600 | head -n 300 | xargs -n 1 -P 300 sleep) >/dev/null 2>&1 &")
	s.Within("the processes", func() {
		for s.Ctx.Err() == nil && !environment.Crowded(s.Ctx, env.Environment) {
			time.Sleep(50 * time.Millisecond)
		}
	})
	o := env.Do(s.Ctx, "echo began; sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0", environment.ExecOptions{Timeout: time.Second})
	if kind := environment.KindOf(o.Err); kind != "" && kind != environment.KindExec {
		s.Errorf("the next command: error of kind %q: %v", kind, o.Err)
	}
	if !environment.Crowded(s.Ctx, env.Environment) {
		s.Error("it is not crowded after the next command")
	}
	s.Equal("a file", env.Fetch("/kept", environment.ExtractOptions{}).OK(s).Text(s, "kept"), "kept\n")
}

func checkStorage(s *suite.Scene) {
	env := limited(s, "storage", environment.Limits{Storage: 64 << 20})
	o := env.Do(s.Ctx, "head -c 200000000 /dev/zero > /big", environment.ExecOptions{})
	if o.Err != nil || o.Code == 0 {
		s.Errorf("200 MB were written within 64 MiB: exit code %d, error %v", o.Code, o.Err)
	}
	env.Run("rm /big; echo fine > /small")
}

func checkTooManyCPUs(s *suite.Scene) {
	env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{
		Image: s.Opts.Image, Labels: s.Labels, Limits: environment.Limits{MilliCPUs: 100_000_000}})
	if err == nil {
		_ = env.Destroy(s.Ctx)
	}
	s.WantKind("100,000 processors", err, environment.KindResources)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
}
