package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// KillChecks check how commands end that do not exit by themselves.
func KillChecks() []suite.Check {
	list := []suite.Check{
		{Name: "what an older process starts while a command is killed lives on", Run: func(s *suite.Scene) {
			checkOlderStarts(s, "bash /k/tick.sh new >/dev/null 2>&1 &")
		}},
		{Name: "what an older process starts and abandons while a command is killed lives on", Run: func(s *suite.Scene) {
			checkOlderStarts(s, "(bash /k/tick.sh new >/dev/null 2>&1 &)")
		}},
		{Name: "killing in one environment leaves the others alone", Run: checkOtherEnvironment},
		{Name: "a cancel kills what later commands have left behind", Run: checkLaterCommands},
		{Name: "files and networks may change while a command waits, whose end ends what came later", Run: checkWaiting},
		{Name: "a writer that blocks does not keep a timeout from ending the command", Run: checkBlockedWriter},
		{Name: "output from before a timeout is kept", Run: checkOutputBeforeTimeout},
		{Name: "a timeout has no effect on a command that ends in time", Run: checkUnusedTimeout},
	}
	for _, victim := range victims {
		list = append(list,
			suite.Check{Name: "a timeout kills " + victim.name, Run: func(s *suite.Scene) { checkKilled(s, victim.script, timeoutEnds) }},
			suite.Check{Name: "a cancel kills " + victim.name, Run: func(s *suite.Scene) { checkKilled(s, victim.script, suite.CancelEnds) }},
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

// An ending runs a script that prints "ready" and never ends, and then ends it.
type ending func(s *suite.Scene, b *suite.Env, script string)

// timeoutEnds uses a longer timeout if the script was not ready in time.
func timeoutEnds(s *suite.Scene, b *suite.Env, script string) {
	s.Helper()
	for timeout := time.Second; timeout <= s.Opts.Patience()/2; timeout *= 2 {
		o := b.Do(s.Ctx, script, environment.ExecOptions{Timeout: timeout})
		if !errors.Is(o.Err, environment.ErrTimeout) {
			s.Fatalf("exit code %d, error %v; want %v (stderr %q)", o.Code, o.Err, environment.ErrTimeout, o.Stderr)
		}
		if strings.Contains(o.Stdout, "ready\n") {
			return
		}
	}
	s.Fatal("the command never began")
}

// checkKilled ends a command and checks whether any of its processes still writes, for as long as
// an older process takes to write twenty more lines.
func checkKilled(s *suite.Scene, victim string, end ending) {
	env := s.WithTools()
	end(s, env, ". /k/lib.sh; (until [ -s /k/victim ]; do sleep 0.01; done; echo ready) & "+victim)
	s.Equal("afterwards", env.Run(`. /k/lib.sh
		before=$(size victim)
		grown older 40 || exit 0
		after=$(size victim)
		if [ $before != $after ]; then echo "the victim still writes"; fi
		if [ -e /k/victim.pid ] && alive $(cat /k/victim.pid); then echo "the victim is alive"; fi`), "")
}

func checkOlderStarts(s *suite.Scene, start string) {
	env := s.WithTools()
	suite.CancelEnds(s, env, fmt.Sprintf(`. /k/lib.sh
		echo '%s' > /k/order.new; mv /k/order.new /k/order
		until [ -s /k/new ]; do sleep 0.01; done
		echo ready; sleep 3600`, start))
	s.Equal("afterwards", env.Run(". /k/lib.sh; grown older 20; grown new 20; alive $(cat /k/new.pid) || echo dead"), "")
}

func checkOtherEnvironment(s *suite.Scene) {
	other, env := s.WithTools(), s.WithTools()
	suite.CancelEnds(s, env, "echo ready; sleep 3600")
	s.Equal("the server in the other", other.Run(". /k/lib.sh; grown older 20"), "")
	if err := env.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.Equal("the server in the other", other.Run(". /k/lib.sh; grown older 20"), "")
}

// checkWaiting calls all methods that a trial uses while one command waits for its input.
func checkWaiting(s *suite.Scene) {
	env := s.WithTools()
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	input, writer := io.Pipe()
	defer writer.Close()
	stdout, first := suite.NewSignal("ready\n"), make(chan error, 1)
	go func() {
		_, err := env.Exec(ctx, "echo ready; read -r", environment.ExecOptions{Stdin: input, Stdout: stdout})
		first <- err
	}()
	s.Within("the first command", func() { <-stdout.Seen })
	s.Equal("another command", env.Run(`. /k/lib.sh
		bash /k/tick.sh victim >/dev/null 2>&1 &
		grown victim 2; echo ran`), "ran\n")
	env.Put(environment.Copy{Src: fstest.MapFS{"f": {Data: []byte("x"), Mode: 0o644}}, Dst: "/later", Clean: true})
	if f := env.Fetch("/later", environment.ExtractOptions{}); f.Err != nil || f.Files != 1 {
		s.Errorf("CopyFrom: %d files, %v", f.Files, f.Err)
	}
	if _, ok := environment.As[environment.NetworkSetter](env.Environment); ok {
		env.SetNetwork(suite.None)
	}
	s.Equal("a command after that", env.Run(". /k/lib.sh; grown older 20; grown victim 20"), "")
	select {
	case err := <-first:
		s.Fatalf("the command that waits has ended: %v", err)
	default:
	}
	cancel()
	s.Within("Exec", func() {
		if err := <-first; !errors.Is(err, context.Canceled) {
			s.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
	s.Equal("afterwards", env.Run(`. /k/lib.sh
		before=$(size victim)
		grown older 40 || exit 0
		if [ $before != $(size victim) ]; then echo "the victim still writes"; fi`), "")
}

// checkLaterCommands ends a command during which others ran. The processes that those left behind
// belong to no session that still runs.
func checkLaterCommands(s *suite.Scene) {
	env := s.WithTools()
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	stdout, first := suite.NewSignal("ready\n"), make(chan error, 1)
	go func() {
		_, err := env.Exec(ctx, "echo ready; sleep 3600", environment.ExecOptions{Stdout: stdout})
		first <- err
	}()
	s.Within("the first command", func() { <-stdout.Seen })
	s.Equal("a second command", env.Run(`. /k/lib.sh
		(setsid bash -c 'bash /k/tick.sh victim &' >/dev/null 2>&1 &)
		grown victim 2; echo ran`), "ran\n")
	cancel()
	s.Within("Exec", func() {
		if err := <-first; !errors.Is(err, context.Canceled) {
			s.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
	s.Equal("afterwards", env.Run(`. /k/lib.sh
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

func checkBlockedWriter(s *suite.Scene) {
	env := s.WithTools()
	w := stuck{make(chan struct{})}
	defer close(w.release)
	o := env.Do(s.Ctx, "bash /k/tick.sh victim & head -c 10000000 /dev/zero; sleep 3600",
		environment.ExecOptions{Stdout: w, Timeout: 2 * time.Second})
	if !errors.Is(o.Err, environment.ErrTimeout) {
		s.Errorf("error %v, want %v", o.Err, environment.ErrTimeout)
	}
	s.Equal("afterwards", env.Run(`. /k/lib.sh; before=$(size victim); grown older 40
		if [ $(size victim) != $before ]; then echo "the victim still writes"; fi`), "")
}

func checkOutputBeforeTimeout(s *suite.Scene) {
	env := s.Create()
	for timeout := time.Second; timeout <= s.Opts.Patience()/2; timeout *= 2 {
		o := env.Do(s.Ctx, "echo out; echo err >&2; sleep 3600", environment.ExecOptions{Timeout: timeout})
		if !errors.Is(o.Err, environment.ErrTimeout) {
			s.Fatalf("error %v, want %v", o.Err, environment.ErrTimeout)
		}
		if o.Stdout == "out\n" && o.Stderr == "err\n" {
			return
		}
	}
	s.Error("what the command wrote first never arrived")
}

func checkUnusedTimeout(s *suite.Scene) {
	env := s.Create()
	o := env.Do(s.Ctx, "sleep 3600 & echo out; exit 3", environment.ExecOptions{Timeout: s.Opts.Patience()})
	if o.Err != nil || o.Code != 3 || o.Stdout != "out\n" {
		s.Errorf("exit code %d, error %v, stdout %q; want 3, no error and %q", o.Code, o.Err, o.Stdout, "out\n")
	}
}
