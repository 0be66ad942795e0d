package environmenttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// killChecks check how commands end that do not exit by themselves.
func killChecks() []check {
	list := []check{
		{"what an older process starts while a command is killed lives on", func(s *scene) {
			checkOlderStarts(s, "bash /k/tick.sh new >/dev/null 2>&1 &")
		}},
		{"what an older process starts and abandons while a command is killed lives on", func(s *scene) {
			checkOlderStarts(s, "(bash /k/tick.sh new >/dev/null 2>&1 &)")
		}},
		{"killing in one environment leaves the others alone", checkOtherEnvironment},
		{"a cancel kills what later commands have left behind", checkLaterCommands},
		{"files and networks may change while a command waits, whose end ends what came later", checkWaiting},
		{"a writer that blocks does not keep a timeout from ending the command", checkBlockedWriter},
		{"output from before a timeout is kept", checkOutputBeforeTimeout},
		{"a timeout has no effect on a command that ends in time", checkUnusedTimeout},
	}
	for _, victim := range victims {
		list = append(list,
			check{"a timeout kills " + victim.name, func(s *scene) { checkKilled(s, victim.script, timeoutEnds) }},
			check{"a cancel kills " + victim.name, func(s *scene) { checkKilled(s, victim.script, cancelEnds) }},
		)
	}
	return list
}

// victims start a process that appends to /k/victim as long as it lives.
var victims = []struct{ name, script string }{
	{"the command itself", "bash /k/tick.sh victim"},
	{"a background child", "bash /k/tick.sh victim & wait"},
	{"a child that left the session", "setsid nohup bash /k/tick.sh victim >/dev/null 2>&1 & sleep 3600"},
	{"an orphan without session and environment",
		"(env -i setsid bash -c 'bash /k/tick.sh victim &' >/dev/null 2>&1 &); sleep 3600"},
	{"a child that ignores every polite signal",
		`bash -c 'trap "" TERM INT HUP QUIT; bash /k/tick.sh victim' & sleep 3600`},
	{"a process that keeps starting others", "bash /k/spread.sh & sleep 3600"},
	{"a chain of processes in which each starts the next and dies", "bash /k/chain.sh 20000; sleep 3600"},
}

// tools returns the scripts of the kill and background checks, for CreateOptions.Files.
func (s *scene) tools() environment.Copy {
	tree := fstest.MapFS{"lib.sh": {Mode: 0o644, Data: fmt.Appendf(nil, libScript, s.opts.patience()/(80*time.Millisecond))}}
	for name, script := range toolScripts {
		tree[name] = &fstest.MapFile{Data: []byte(script), Mode: 0o644}
	}
	return environment.Copy{Src: tree, Dst: "/k", Mode: 0o777}
}

var toolScripts = map[string]string{
	// Appends to a file as long as it lives.
	"tick.sh": `echo $$ > /k/$1.pid; while :; do echo x >> /k/$1; sleep 0.02; done`,
	// Starts many processes that detach at once and stay.
	"spread.sh": `i=0; while [ $i -lt 300 ]; do i=$((i+1)); setsid bash -c 'echo x >> /k/victim; sleep 3600' & sleep 0.02; done`,
	// Each generation is an orphan in its own session before the next one begins.
	"chain.sh": `echo $$ > /k/victim.pid; echo x >> /k/victim
		if [ $1 -gt 0 ]; then env -i setsid bash /k/chain.sh $(($1-1)) >/dev/null 2>&1 & fi`,
	// A server that executes /k/order when it appears.
	"older.sh": `while :; do
			echo x >> /k/older
			if [ -e /k/order ]; then . /k/order; rm /k/order; fi
			sleep 0.02
		done`,
}

const libScript = `
		size() { if [ -e /k/$1 ]; then wc -c < /k/$1; else echo 0; fi; }
		# A process that nobody has waited for yet is dead all the same.
		alive() { kill -0 $1 2>/dev/null && ! grep -qs '^State:.Z' /proc/$1/status; }
		# reached NAME BYTES: waits until the file has so much.
		reached() {
			local i=0
			while [ $(size $1) -lt $2 ]; do
				i=$((i+1)); if [ $i -gt %d ]; then echo "$1 does not grow"; return 1; fi
				sleep 0.02
			done
		}
		# grown NAME BYTES: waits until the file has grown so much.
		grown() { reached $1 $(($(size $1) + $2)); }`

// withTools creates an environment with the scripts, and a server that an earlier command started.
func (s *scene) withTools() *box {
	s.Helper()
	env := s.create(func(o *environment.CreateOptions) { o.Files = []environment.Copy{s.tools()} })
	env.run(". /k/lib.sh; bash /k/older.sh >/dev/null 2>&1 & grown older 2")
	return env
}

// An ending runs a script that prints "ready" and never ends, and then ends it.
type ending func(s *scene, b *box, script string)

func cancelEnds(s *scene, b *box, script string) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	stdout := newSignal("ready\n")
	go func() {
		select {
		case <-stdout.seen:
			cancel()
		case <-ctx.Done():
		}
	}()
	o := b.exec(ctx, script, environment.ExecOptions{Stdout: stdout})
	if !errors.Is(o.err, context.Canceled) {
		s.Fatalf("exit code %d, error %v; want %v (stderr %q)", o.code, o.err, context.Canceled, o.stderr)
	}
}

// timeoutEnds uses a longer timeout if the script was not ready in time.
func timeoutEnds(s *scene, b *box, script string) {
	s.Helper()
	for timeout := time.Second; timeout <= s.opts.patience()/2; timeout *= 2 {
		o := b.exec(s.ctx, script, environment.ExecOptions{Timeout: timeout})
		if !errors.Is(o.err, environment.ErrTimeout) {
			s.Fatalf("exit code %d, error %v; want %v (stderr %q)", o.code, o.err, environment.ErrTimeout, o.stderr)
		}
		if strings.Contains(o.stdout, "ready\n") {
			return
		}
	}
	s.Fatal("the command never began")
}

// checkKilled ends a command and checks whether any of its processes still writes, for as long as
// an older process takes to write twenty more lines.
func checkKilled(s *scene, victim string, end ending) {
	env := s.withTools()
	end(s, env, ". /k/lib.sh; (until [ -s /k/victim ]; do sleep 0.01; done; echo ready) & "+victim)
	s.equal("afterwards", env.run(`. /k/lib.sh
		before=$(size victim)
		grown older 40 || exit 0
		after=$(size victim)
		if [ $before != $after ]; then echo "the victim still writes"; fi
		if [ -e /k/victim.pid ] && alive $(cat /k/victim.pid); then echo "the victim is alive"; fi`), "")
}

func checkOlderStarts(s *scene, start string) {
	env := s.withTools()
	cancelEnds(s, env, fmt.Sprintf(`. /k/lib.sh
		echo '%s' > /k/order.new; mv /k/order.new /k/order
		until [ -s /k/new ]; do sleep 0.01; done
		echo ready; sleep 3600`, start))
	s.equal("afterwards", env.run(". /k/lib.sh; grown older 20; grown new 20; alive $(cat /k/new.pid) || echo dead"), "")
}

func checkOtherEnvironment(s *scene) {
	other, env := s.withTools(), s.withTools()
	cancelEnds(s, env, "echo ready; sleep 3600")
	s.equal("the server in the other", other.run(". /k/lib.sh; grown older 20"), "")
	if err := env.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.equal("the server in the other", other.run(". /k/lib.sh; grown older 20"), "")
}

// checkWaiting calls all methods that a trial uses while one command waits for its input.
func checkWaiting(s *scene) {
	env := s.withTools()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	input, writer := io.Pipe()
	defer writer.Close()
	stdout, first := newSignal("ready\n"), make(chan error, 1)
	go func() {
		_, err := env.Exec(ctx, "echo ready; read -r", environment.ExecOptions{Stdin: input, Stdout: stdout})
		first <- err
	}()
	s.within("the first command", func() { <-stdout.seen })
	s.equal("a command beside it", env.run(`. /k/lib.sh
		bash /k/tick.sh victim >/dev/null 2>&1 &
		grown victim 2; echo ran`), "ran\n")
	env.copyTo(environment.Copy{Src: fstest.MapFS{"f": {Data: []byte("x"), Mode: 0o644}}, Dst: "/later", Clean: true})
	if f := env.fetch("/later", environment.ExtractOptions{}); f.err != nil || f.Files != 1 {
		s.Errorf("CopyFrom: %d files, %v", f.Files, f.err)
	}
	if _, ok := environment.As[environment.NetworkSetter](env.Environment); ok {
		env.setNetwork(none)
	}
	s.equal("a command after that", env.run(". /k/lib.sh; grown older 20; grown victim 20"), "")
	select {
	case err := <-first:
		s.Fatalf("the command that waits has ended: %v", err)
	default:
	}
	cancel()
	s.within("Exec", func() {
		if err := <-first; !errors.Is(err, context.Canceled) {
			s.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
	s.equal("afterwards", env.run(`. /k/lib.sh
		before=$(size victim)
		grown older 40 || exit 0
		if [ $before != $(size victim) ]; then echo "the victim still writes"; fi`), "")
}

// checkLaterCommands ends a command during which others ran. The processes that those left behind
// belong to no session that still runs.
func checkLaterCommands(s *scene) {
	env := s.withTools()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	stdout, first := newSignal("ready\n"), make(chan error, 1)
	go func() {
		_, err := env.Exec(ctx, "echo ready; sleep 3600", environment.ExecOptions{Stdout: stdout})
		first <- err
	}()
	s.within("the first command", func() { <-stdout.seen })
	s.equal("a command beside another", env.run(`. /k/lib.sh
		(setsid bash -c 'bash /k/tick.sh victim &' >/dev/null 2>&1 &)
		grown victim 2; echo ran`), "ran\n")
	cancel()
	s.within("Exec", func() {
		if err := <-first; !errors.Is(err, context.Canceled) {
			s.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
	s.equal("afterwards", env.run(`. /k/lib.sh
		before=$(size victim)
		grown older 40 || exit 0
		if [ $before != $(size victim) ]; then echo "the victim still writes"; fi
		if alive $(cat /k/victim.pid); then echo "the victim is alive"; fi`), "")
}

// stuck is a writer that blocks until it is released.
type stuck struct{ release chan struct{} }

func (w stuck) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

func checkBlockedWriter(s *scene) {
	env := s.withTools()
	w := stuck{make(chan struct{})}
	defer close(w.release)
	o := env.exec(s.ctx, "bash /k/tick.sh victim & head -c 10000000 /dev/zero; sleep 3600",
		environment.ExecOptions{Stdout: w, Timeout: 2 * time.Second})
	if !errors.Is(o.err, environment.ErrTimeout) {
		s.Errorf("error %v, want %v", o.err, environment.ErrTimeout)
	}
	s.equal("afterwards", env.run(`. /k/lib.sh; before=$(size victim); grown older 40
		if [ $(size victim) != $before ]; then echo "the victim still writes"; fi`), "")
}

func checkOutputBeforeTimeout(s *scene) {
	env := s.create()
	for timeout := time.Second; timeout <= s.opts.patience()/2; timeout *= 2 {
		o := env.exec(s.ctx, "echo out; echo err >&2; sleep 3600", environment.ExecOptions{Timeout: timeout})
		if !errors.Is(o.err, environment.ErrTimeout) {
			s.Fatalf("error %v, want %v", o.err, environment.ErrTimeout)
		}
		if o.stdout == "out\n" && o.stderr == "err\n" {
			return
		}
	}
	s.Error("what the command wrote first never arrived")
}

func checkUnusedTimeout(s *scene) {
	env := s.create()
	o := env.exec(s.ctx, "sleep 3600 & echo out; exit 3", environment.ExecOptions{Timeout: s.opts.patience()})
	if o.err != nil || o.code != 3 || o.stdout != "out\n" {
		s.Errorf("exit code %d, error %v, stdout %q; want 3, no error and %q", o.code, o.err, o.stdout, "out\n")
	}
}
