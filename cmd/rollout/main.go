// Command rollout evaluates agents on containerised tasks.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/org/rollout-action/internal/cli"
	"github.com/org/rollout-action/providers/sandbox"
)

func main() {
	sandbox.Init() // does not return in a process that is to be a sandbox
	soft, cancel := context.WithCancel(context.Background())
	hard, abort := context.WithCancel(context.Background())
	// A reader that went away (| head, or | tee killed by the same Ctrl-C) must not end the process before
	// its environments are removed.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup wants the job to survive its terminal
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		cancel() // the first one stops the job in good order
		<-signals
		abort() // the second one skips the clean-up
	}()
	os.Exit(cli.Main(soft, hard, cli.System(), cli.Args(os.Args)))
}
