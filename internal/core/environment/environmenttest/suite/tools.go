package suite

import (
	"context"
	"errors"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// Tools returns the scripts of the kill and background checks, for CreateOptions.Files.
func (s *Scene) Tools() environment.Copy {
	tree := fstest.MapFS{"lib.sh": {Mode: 0o644, Data: fmt.Appendf(nil, libScript, s.Opts.Patience()/(80*time.Millisecond))}}
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

// WithTools creates an environment with the scripts, and a server that an earlier command started.
func (s *Scene) WithTools() *Env {
	s.Helper()
	env := s.Create(func(o *environment.CreateOptions) { o.Files = []environment.Copy{s.Tools()} })
	env.Run(". /k/lib.sh; bash /k/older.sh >/dev/null 2>&1 & grown older 2")
	return env
}

// CancelEnds runs a script that prints "ready" and never ends, and then cancels it.
func CancelEnds(s *Scene, b *Env, script string) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	stdout := NewSignal("ready\n")
	go func() {
		select {
		case <-stdout.Seen:
			cancel()
		case <-ctx.Done():
		}
	}()
	o := b.Do(ctx, script, environment.ExecOptions{Stdout: stdout})
	if !errors.Is(o.Err, context.Canceled) {
		s.Fatalf("exit code %d, error %v; want %v (stderr %q)", o.Code, o.Err, context.Canceled, o.Stderr)
	}
}
