package commands

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// attack is a command's way to survive its end. By default it runs as root. It has started a
// victim, which appends to /k/victim as long as it lives, and it does not exit by itself.
type attack struct {
	name   string
	script string
	user   string
	limits environment.Limits
	limit  string // the name of the limit that it uses
	// mayFail: the environment may be lost as well.
	mayFail bool
}

// attacks aim at the processes that end the command: those must not depend on anything that a
// command can change.
var attacks = []attack{
	{name: "that has replaced bash and the tools", script: `
		cp "$(command -v bash)" /k/shell
		printf '#!/k/shell\n/k/shell /k/busy.sh victim >/dev/null 2>&1 &\nexit 0\n' > /k/evil; chmod 755 /k/evil
		for tool in bash sh tr grep cat ps kill setsid env timeout; do
			for dir in /usr/local/bin /usr/bin /bin; do rm -f $dir/$tool; cp /k/evil $dir/$tool; done
		done 2>/dev/null`},
	{name: "that keeps every program from starting", script: `mkfifo /k/preload; echo /k/preload > /etc/ld.so.preload`},
	{name: "that has closed every directory", script: `chmod 000 /root /home /tmp /var /etc /usr/bin /usr/sbin /usr /opt / 2>/dev/null`},
	{name: "that has put links in the place of directories", script: `
		rm -rf /tmp /var/tmp /root /opt /.rollout /run/* /dev/shm/* 2>/dev/null
		ln -s /nowhere /tmp; ln -s loop /root; ln -s /k /.rollout; ln -s /proc/self/root/k/gone /opt`},
	{name: "of a user who is not root", user: "nobody", script: ``},
	{name: "that kills what it does not know", mayFail: true, script: `
		known=" $$ $(cat /k/older.pid) 1 "
		while :; do
			for p in /proc/[0-9]*; do
				pid=${p#/proc/}
				case $known in *" $pid "*) ;; *) [ -e /k/ready ] && kill -9 $pid ;; esac
			done 2>/dev/null
		done &`},
	{name: "that has all the processes there may be", limits: environment.Limits{Pids: 48}, limit: "pids", mayFail: true, script: `
		(for i in $(seq 1 200); do sleep 3600 & echo $i > /k/started; done) >/dev/null 2>&1 &
		until [ "$(cat /k/started 2>/dev/null)" -ge 30 ]; do :; done 2>/dev/null`},
	{name: "that multiplies up to the limit of processes", limits: environment.Limits{Pids: 64, MilliCPUs: 1000}, limit: "pids", mayFail: true, script: `
		bomb() { echo x > /k/bomb; bomb & bomb & wait; }; (bomb) >/dev/null 2>&1 & until [ -s /k/bomb ]; do :; done`},
	{name: "that has filled the storage", limits: environment.Limits{Storage: 64 << 20}, limit: "storage", script: `
		head -c 100000000 /dev/zero > /full; head -c 100000000 /dev/zero > /fuller`},
}

// HostileKillChecks check the end of commands that resist it.
func HostileKillChecks() []suite.Check {
	var list []suite.Check
	for i, a := range attacks {
		list = append(list, suite.Check{Name: "a timeout kills a command " + a.name, Run: func(s *suite.Scene) { checkAttack(s, a, true) }})
		if i == 0 { // the rest is the same
			list = append(list, suite.Check{Name: "a cancel kills a command " + a.name, Run: func(s *suite.Scene) { checkAttack(s, a, false) }})
		}
	}
	return list
}

// busyScript appends to a file as long as it lives. It waits between two lines, in bash without
// starting a program, as none may be startable.
const busyScript = `echo $$ > /k/$1.pid
if [ -n "$BASH_VERSION" ]; then
	eval 'exec 9<> <(:)'
	pause() { read -r -t 0.005 -u 9; }
else
	pause() { sleep 0.005; }
fi
while :; do echo x >> /k/$1; pause; done`

// checkAttack lets a command defend itself and ends it. Afterwards, either none of its processes
// lives, or the environment is lost. It checks from outside, because nothing inside may work any
// more.
func checkAttack(s *suite.Scene, a attack, byTimeout bool) {
	env, err := attacked(s, a, byTimeout)
	switch {
	case a.mayFail && environment.KindOf(err) == environment.KindLost:
		if o := env.Do(s.Ctx, ":", environment.ExecOptions{}); o.Err == nil {
			s.Errorf("a command ran in an environment that was lost: %v", err)
		}
		return
	case byTimeout && !errors.Is(err, environment.ErrTimeout), !byTimeout && !errors.Is(err, context.Canceled):
		s.Fatalf("error %v, want that of a command that was ended", err)
	}
	before, older := length(env, "victim"), length(env, "older")
	s.Within("an older process's writing", func() {
		for length(env, "older") < older+50 { // so a victim would have written, too
			time.Sleep(10 * time.Millisecond)
		}
	})
	if after := length(env, "victim"); before < 1 || after != before {
		s.Errorf("the victim had written %d lines, and then %d: it lives", before, after)
	}
}

// attacked creates an environment, starts a command in it and ends it when its defence is ready. If
// it was not ready in time, it uses a longer timeout and another environment.
func attacked(s *suite.Scene, a attack, byTimeout bool) (*suite.Env, error) {
	s.Helper()
	script := `bash /k/busy.sh victim >/dev/null 2>&1 &
		until [ -s /k/victim ]; do :; done
		` + a.script + `
		: > /k/ready; echo ready; wait; while :; do :; done`
	for timeout := time.Second; timeout <= s.Opts.Patience(); timeout *= 2 {
		env := underAttack(s, a)
		ready := suite.NewSignal("ready\n")
		ctx, cancel := context.WithCancel(s.Ctx)
		opts := environment.ExecOptions{User: a.user, Stdout: ready}
		if byTimeout {
			opts.Timeout = timeout
		} else {
			go func() {
				select {
				case <-ready.Seen:
					cancel()
				case <-ctx.Done():
				}
			}()
		}
		o := env.Do(ctx, script, opts)
		cancel()
		if strings.Contains(ready.String(), "ready\n") {
			return env, o.Err
		}
		if o.Err == nil || !byTimeout {
			s.Fatalf("the command ended by itself: exit code %d, error %v, stderr %q", o.Code, o.Err, o.Stderr)
		}
		if err := env.Destroy(s.Ctx); err != nil {
			s.Fatalf("Destroy: %v", err)
		}
	}
	s.Fatal("the command never was ready")
	return nil, nil
}

// underAttack creates an environment in which an earlier command left a process that writes to
// /k/older.
func underAttack(s *suite.Scene, a attack) *suite.Env {
	s.Helper()
	env := s.Create(func(o *environment.CreateOptions) {
		o.Files = []environment.Copy{{Src: fstest.MapFS{"busy.sh": {Data: []byte(busyScript), Mode: 0o755}}, Dst: "/k", Mode: 0o777}}
		o.Limits = a.limits
	})
	if slices.Contains(environment.Unenforced(env.Environment), a.limit) {
		s.Skipf("Unenforced names %s", a.limit)
	}
	env.Run("bash /k/busy.sh older >/dev/null 2>&1 & until [ -s /k/older ]; do :; done")
	return env
}

// length returns the number of lines in a file below /k.
func length(b *suite.Env, name string) int {
	b.Scene.Helper()
	return strings.Count(b.Fetch("/k/"+name, environment.ExtractOptions{}).OK(b.Scene).Text(b.Scene, name), "x\n")
}
