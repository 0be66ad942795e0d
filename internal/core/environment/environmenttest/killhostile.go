package environmenttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
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

// hostileKillChecks check the end of commands that resist it.
func hostileKillChecks() []check {
	var list []check
	for i, a := range attacks {
		list = append(list, check{"a timeout kills a command " + a.name, func(s *scene) { checkAttack(s, a, true) }})
		if i == 0 { // the rest is the same
			list = append(list, check{"a cancel kills a command " + a.name, func(s *scene) { checkAttack(s, a, false) }})
		}
	}
	return list
}

// busyScript appends to a file as long as it lives, without starting a program, as none may be
// startable.
const busyScript = `echo $$ > /k/$1.pid; while :; do echo x >> /k/$1; i=0; while [ $i -lt 200 ]; do i=$((i+1)); done; done`

// checkAttack lets a command defend itself and ends it. Afterwards, either none of its processes
// lives, or the environment is lost. It checks from outside, because nothing inside may work any
// more.
func checkAttack(s *scene, a attack, byTimeout bool) {
	env, err := s.attacked(a, byTimeout)
	switch {
	case a.mayFail && environment.KindOf(err) == environment.KindLost:
		if o := env.exec(s.ctx, ":", environment.ExecOptions{}); o.err == nil {
			s.Errorf("a command ran in an environment that was lost: %v", err)
		}
		return
	case byTimeout && !errors.Is(err, environment.ErrTimeout), !byTimeout && !errors.Is(err, context.Canceled):
		s.Fatalf("error %v, want that of a command that was ended", err)
	}
	before, older := env.length("victim"), env.length("older")
	s.within("an older process's writing", func() {
		for env.length("older") < older+50 { // so a victim would have written, too
			time.Sleep(10 * time.Millisecond)
		}
	})
	if after := env.length("victim"); before < 1 || after != before {
		s.Errorf("the victim had written %d lines, and then %d: it lives", before, after)
	}
}

// attacked creates an environment, starts a command in it and ends it when its defence is ready. If
// it was not ready in time, it uses a longer timeout and another environment.
func (s *scene) attacked(a attack, byTimeout bool) (*box, error) {
	s.Helper()
	script := `bash /k/busy.sh victim >/dev/null 2>&1 &
		until [ -s /k/victim ]; do :; done
		` + a.script + `
		: > /k/ready; echo ready; wait; while :; do :; done`
	for timeout := time.Second; timeout <= s.opts.patience(); timeout *= 2 {
		env := s.underAttack(a)
		ready := newSignal("ready\n")
		ctx, cancel := context.WithCancel(s.ctx)
		opts := environment.ExecOptions{User: a.user, Stdout: ready}
		if byTimeout {
			opts.Timeout = timeout
		} else {
			go func() {
				select {
				case <-ready.seen:
					cancel()
				case <-ctx.Done():
				}
			}()
		}
		o := env.exec(ctx, script, opts)
		cancel()
		if strings.Contains(ready.String(), "ready\n") {
			return env, o.err
		}
		if o.err == nil || !byTimeout {
			s.Fatalf("the command ended by itself: exit code %d, error %v, stderr %q", o.code, o.err, o.stderr)
		}
		if err := env.Destroy(s.ctx); err != nil {
			s.Fatalf("Destroy: %v", err)
		}
	}
	s.Fatal("the command never was ready")
	return nil, nil
}

// underAttack creates an environment in which an earlier command left a process that writes to
// /k/older.
func (s *scene) underAttack(a attack) *box {
	s.Helper()
	env := s.create(func(o *environment.CreateOptions) {
		o.Files = []environment.Copy{{Src: fstest.MapFS{"busy.sh": {Data: []byte(busyScript), Mode: 0o755}}, Dst: "/k", Mode: 0o777}}
		o.Limits = a.limits
	})
	if slices.Contains(environment.Unenforced(env.Environment), a.limit) {
		s.Skipf("Unenforced names %s", a.limit)
	}
	env.run("bash /k/busy.sh older >/dev/null 2>&1 & until [ -s /k/older ]; do :; done")
	return env
}

// length returns the number of lines in a file below /k.
func (b *box) length(name string) int {
	b.s.Helper()
	return strings.Count(b.fetch("/k/"+name, environment.ExtractOptions{}).ok(b.s).text(b.s, name), "x\n")
}
