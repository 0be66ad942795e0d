package environmenttest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// limitChecks check that each limit is enforced, or reported as not enforced.
func limitChecks() []check {
	return []check{
		{"memory is limited", checkMemory},
		{"cpus are limited", checkCPUs},
		{"processes are limited", checkPids},
		{"processes that fill their limit are counted, and the environment is not lost", needing(processReporter, checkCrowded)},
		{"storage is limited", checkStorage},
		{"limits that the machine does not have are refused", checkTooManyCPUs},
	}
}

// limited creates an environment, and skips the check if the environment does not apply this limit.
func (s *scene) limited(name string, limits environment.Limits) *box {
	s.Helper()
	env := s.create(func(o *environment.CreateOptions) { o.Limits = limits })
	if slices.Contains(environment.Unenforced(env.Environment), name) {
		s.Skipf("Unenforced names %s", name)
	}
	return env
}

func checkMemory(s *scene) {
	env := s.limited("memory", environment.Limits{Memory: 96 << 20})
	if n := environment.OOMKills(s.ctx, env.Environment); n != 0 {
		s.Errorf("%d processes were killed for memory before anything has run", n)
	}
	// tail keeps all of its input in memory.
	o := env.exec(s.ctx, "head -c 400000000 /dev/zero | tail -c 400000000 | wc -c; exit ${PIPESTATUS[1]}", environment.ExecOptions{})
	switch {
	case environment.KindOf(o.err) == environment.KindLost:
		if !errors.Is(o.err, environment.ErrOutOfMemory) { // the environment ended with its process
			s.Errorf("error %v, want ErrOutOfMemory in the chain", o.err)
		}
		return
	case o.err != nil:
		s.Errorf("error %v, want none or lost", o.err)
	case o.code == 0 || strings.HasPrefix(o.stdout, "400000000"):
		s.Errorf("400 MB were held within 96 MiB: exit code %d, output %q", o.code, o.stdout)
	}
	if n := environment.OOMKills(s.ctx, env.Environment); n < 1 && !s.lacks(memoryReporter) {
		s.Errorf("%d processes were killed for memory, want 1 or more", n)
	}
	next := env.exec(s.ctx, "echo fine", environment.ExecOptions{})
	if next.stdout != "fine\n" && environment.KindOf(next.err) != environment.KindLost {
		s.Errorf("the next command: %q, exit code %d, error %v", next.stdout, next.code, next.err)
	}
}

// checkCPUs computes for two seconds and compares the CPU time with the elapsed time.
func checkCPUs(s *scene) {
	env := s.limited("cpus", environment.Limits{MilliCPUs: 250})
	// Fields 14 to 17 of /proc/PID/stat are user and system ticks, own and of ended children.
	out := env.run(`now() { date +%s%3N; }
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
func checkPids(s *scene) {
	env := s.limited("pids", environment.Limits{Pids: 64})
	o := env.exec(s.ctx, `: > /tmp/started; for i in $(seq 1 300); do sleep 3600 & echo $i >> /tmp/started; done; echo all`,
		environment.ExecOptions{Timeout: 5 * time.Second})
	if strings.Contains(o.stdout, "all") {
		s.Error("300 processes were started within a limit of 64")
	}
	if !strings.Contains(o.stderr, "fork") {
		s.Errorf("stderr does not tell why: %q", o.stderr)
	}
	switch environment.KindOf(o.err) {
	case environment.KindLost:
		return // no program could be started to kill them
	case "":
	default:
		s.Errorf("error %v", o.err)
	}
	// Use no other command: the processes may still exist.
	n := strings.Count(env.fetch("/tmp/started", environment.ExtractOptions{}).ok(s).text(s, "started"), "\n")
	if n < 20 || n > 64 {
		s.Errorf("%d processes were started, want at most 64", n)
	}
}

// checkCrowded fills the limit of processes in the background. xargs does not give up when it
// cannot start another one.
func checkCrowded(s *scene) {
	env := s.limited("pids", environment.Limits{Pids: 64})
	if environment.Crowded(s.ctx, env.Environment) {
		s.Error("it is crowded before anything has run")
	}
	env.run("echo kept > /kept; (yes 3600 | head -n 300 | xargs -n 1 -P 300 sleep) >/dev/null 2>&1 &")
	s.within("the processes", func() {
		for s.ctx.Err() == nil && !environment.Crowded(s.ctx, env.Environment) {
			time.Sleep(50 * time.Millisecond)
		}
	})
	o := env.exec(s.ctx, "echo began; sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0 | sleep 0", environment.ExecOptions{Timeout: time.Second})
	if kind := environment.KindOf(o.err); kind != "" && kind != environment.KindExec {
		s.Errorf("the next command: error of kind %q: %v", kind, o.err)
	}
	if !environment.Crowded(s.ctx, env.Environment) {
		s.Error("it is not crowded after the next command")
	}
	s.equal("a file", env.fetch("/kept", environment.ExtractOptions{}).ok(s).text(s, "kept"), "kept\n")
}

func checkStorage(s *scene) {
	env := s.limited("storage", environment.Limits{Storage: 64 << 20})
	o := env.exec(s.ctx, "head -c 200000000 /dev/zero > /big", environment.ExecOptions{})
	if o.err != nil || o.code == 0 {
		s.Errorf("200 MB were written within 64 MiB: exit code %d, error %v", o.code, o.err)
	}
	env.run("rm /big; echo fine > /small")
}

func checkTooManyCPUs(s *scene) {
	env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{
		Image: s.opts.Image, Labels: s.labels, Limits: environment.Limits{MilliCPUs: 100_000_000}})
	if err == nil {
		_ = env.Destroy(s.ctx)
	}
	s.wantKind("100,000 processors", err, environment.KindResources)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
}
