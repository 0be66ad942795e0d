// Command bench measures Rollout and checks the targets of docs/internals/performance.md:
//
//	go run ./bench                          # everything; takes some minutes
//	go run ./bench --only docker --rounds 40
//	go run ./bench --check
//
// measurements lists all measurements. A target that is relative has a floor, the same work without
// Rollout. Both take turns, pair by pair, after warm-ups, and ratios are computed per pair: the
// load of the machine changes from minute to minute and affects both. Absolute times do not carry
// over to other machines.
//
// The exit code is 0, or 3 if measuring failed. With --check it is 1 if a target was missed or
// could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/org/rollout-action/providers/sandbox"
)

// bench is one run of the benchmark.
type bench struct {
	rounds int    // pairs of measurements; slow ones have fewer
	image  string // of the hello trial
	trials int    // of the job of size
	dir    string // scratch
	stderr io.Writer
	report report

	children int                  // processes started by inChild
	peaks    map[string][]float64 // their peak memory in millions of bytes, by work
}

// part is a group of measurements. It returns errUnmeasurable if this machine cannot do them.
type part struct {
	name    string
	measure func(*bench, context.Context) error
}

var parts = []part{
	{"docker", (*bench).docker},
	{"sandbox", (*bench).sandbox},
	{"kubernetes", (*bench).kubernetes},
	{"scale", (*bench).scale},
	{"model", (*bench).model},
	{"engine", (*bench).engine},
	{"registry", (*bench).registry},
	{"mine", (*bench).mine},
	{"merge", (*bench).merge},
	{"size", (*bench).size},
	{"validate", (*bench).validate},
	{"view", (*bench).view},
	{"binary", (*bench).binary},
}

// errUnmeasurable means that this machine lacks a requirement.
var errUnmeasurable = errors.New("cannot be measured here")

func main() {
	sandbox.Init() // does not return in a process of a sandbox
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	b := &bench{stderr: stderr, peaks: map[string][]float64{}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "measure only this part: "+strings.Join(names, ", "))
	flags.IntVar(&b.rounds, "rounds", 20, "how many `pairs` to measure; what takes long is measured less often")
	flags.StringVar(&b.image, "image", "debian:bookworm", "`image` of the hello trial; it needs bash")
	flags.IntVar(&b.trials, "trials", sizeTrials, "how many `trials` the job of size has; a million need 60 GB of disk")
	check := flags.Bool("check", false, "exit with 1 when a target is missed")
	work := new(string)
	if len(args) > 0 && args[0] == childArg {
		args = args[1:]
		work = flags.String("work", "nothing", "what to do, one of works")
		flags.StringVar(&b.dir, "dir", "", "where to do it")
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case b.rounds < 1 || b.trials < 1 || flags.NArg() > 0 || *only != "" && !slices.Contains(names, *only):
		fmt.Fprintf(stderr, "bench: want --rounds and --trials of 1 or more, --only one of %s, and no arguments\n", strings.Join(names, ", "))
		return 2
	}
	var err error
	if *work != "" {
		err = b.work(ctx, *work, stdout)
	} else if err = b.run(ctx, *only); err == nil {
		err = b.report.write(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 3
	}
	if *check && b.report.missed() {
		return 1
	}
	return 0
}

// run measures all parts, or only one.
func (b *bench) run(ctx context.Context, only string) (err error) {
	if b.dir, err = os.MkdirTemp("", "rollout-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	for _, p := range parts {
		if only != "" && only != p.name {
			continue
		}
		if err := b.unlessMissing(p.name, p.measure(b, ctx)); err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
	}
	return nil
}

// unlessMissing reports a measurement that is not possible here, and returns other errors.
func (b *bench) unlessMissing(name string, err error) error {
	if errors.Is(err, errUnmeasurable) {
		b.report.missing = append(b.report.missing, fmt.Sprintf("%s: %v", name, err))
		return nil
	}
	return err
}
