// Command rollout evaluates agents on containerised tasks.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/cli"
	"github.com/org/rollout-action/providers/sandbox"
)

// A process that rollout starts in another role, such as process 1 of a sandbox, does not get to
// main: the package of its role takes it over in init, before most packages are initialised. The
// roles are initproc, podinit, killer, relay and probe; internal/test/arch lists their packages.
// main does not call them, because by then every package is initialised: that takes memory which
// counts against the limit of the container that such a process runs in.
func main() {
	sandbox.Init() // does not return in a process that is to be a sandbox
	os.Exit(rollout(cli.System()))
}

// rollout runs this process's command line and returns the exit code.
func rollout(env cli.Env) int {
	soft, cancel := context.WithCancel(context.Background())
	hard, abort := context.WithCancel(context.Background())
	// A reader that went away (| head, or | tee killed by the same Ctrl-C) must not end the process
	// before its environments are removed.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup wants the job to survive its terminal
		signal.Notify(signals, syscall.SIGHUP)
	}
	go obey(signals, cancel, abort)
	return cli.Main(soft, hard, env, cli.Args(os.Args))
}

// sameSignal is the time within which further signals count as the same one. Programs that end
// others send a signal to the process and then to its group (timeout), or send several kinds at
// once; a terminal may send its own in addition.
const sameSignal = time.Second

// obey calls cancel at the first signal, which stops the job in an orderly way, and abort at the
// second one, which gives up the logs.
func obey(signals <-chan os.Signal, cancel, abort func()) {
	<-signals
	cancel()
	first := time.Now()
	for range signals {
		if time.Since(first) >= sameSignal {
			abort()
			return
		}
	}
}
