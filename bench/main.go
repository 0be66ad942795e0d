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
	dir    string // scratch
	stderr io.Writer
	report report
}

// part is a group of measurements. It returns errUnmeasurable if this machine cannot do them.
type part struct {
	name    string
	measure func(*bench, context.Context) error
}

var parts = []part{
	{"docker", (*bench).docker},
	{"sandbox", (*bench).sandbox},
	{"engine", (*bench).engine},
	{"registry", (*bench).registry},
	{"merge", (*bench).merge},
	{"binary", (*bench).binary},
}

// errUnmeasurable means that this machine lacks something.
var errUnmeasurable = errors.New("cannot be measured here")

func main() {
	sandbox.Init() // does not return in a process of a sandbox
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == childArg {
		return child(ctx, args[1:], stdout, stderr)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "measure only this part: "+partNames())
	rounds := flags.Int("rounds", 20, "how many `pairs` to measure; what takes long is measured less often")
	image := flags.String("image", "debian:bookworm", "`image` of the hello trial; it needs bash")
	check := flags.Bool("check", false, "exit with 1 when a target is missed")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *rounds < 1 || flags.NArg() > 0 || *only != "" && !slices.ContainsFunc(parts, func(p part) bool { return p.name == *only }) {
		fmt.Fprintf(stderr, "bench: want --rounds of 1 or more, --only one of %s, and no arguments\n", partNames())
		return 2
	}
	b := &bench{rounds: *rounds, image: *image, stderr: stderr}
	if err := b.run(ctx, *only); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 3
	}
	if err := b.report.write(stdout); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 3
	}
	if *check && b.report.missed() {
		return 1
	}
	return 0
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
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
		err := p.measure(b, ctx)
		if errors.Is(err, errUnmeasurable) {
			b.missing(p.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
	}
	return nil
}
