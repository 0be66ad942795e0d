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
	"time"

	"github.com/org/rollout-action/providers/sandbox"
)

// bench is one run of the benchmark.
type bench struct {
	rounds int    // pairs of measurements; slow ones have fewer
	image  string // of the hello trial
	dir    string // scratch
	stderr io.Writer
	report Report
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
	if len(args) == 3 && args[0] == childArg {
		return child(ctx, args[1], args[2], stdout, stderr)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "measure only this part: "+partNames())
	rounds := flags.Int("rounds", 20, "how many `pairs` to measure; what takes long is measured less often")
	image := flags.String("image", "debian:bookworm", "`image` of the hello trial; it needs bash")
	jsonTo := flags.String("json", "", "write the report as JSON to `file`; - is stdout, and the table goes to stderr")
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
	b := &bench{rounds: *rounds, image: *image, stderr: stderr, report: newReport(*rounds, *image, time.Now())}
	if err := b.run(ctx, *only); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 3
	}
	if err := b.publish(*jsonTo, stdout); err != nil {
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
			b.report.Missing = append(b.report.Missing, fmt.Sprintf("%s: %v", p.name, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
	}
	return nil
}

func (b *bench) publish(jsonTo string, stdout io.Writer) error {
	if jsonTo == "-" {
		return errors.Join(b.report.writeTable(b.stderr), b.report.writeJSON(stdout))
	}
	if err := b.report.writeTable(stdout); err != nil || jsonTo == "" {
		return err
	}
	file, err := os.Create(jsonTo)
	if err != nil {
		return err
	}
	return errors.Join(b.report.writeJSON(file), file.Close())
}

func (b *bench) add(results ...Result) { b.report.Results = append(b.report.Results, results...) }

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(b.stderr, "bench: "+format+"\n", args...)
}

// measured is something to measure; it returns a value in the caller's unit.
type measured func(ctx context.Context) (float64, error)

// turns measures things in turn, rounds times after the warm-ups, and returns the values of each.
func turns(ctx context.Context, warmups, rounds int, things ...measured) ([][]float64, error) {
	values := make([][]float64, len(things))
	for n := range warmups + rounds {
		for i, thing := range things {
			value, err := thing(ctx)
			if err != nil {
				return nil, err
			}
			if n >= warmups {
				values[i] = append(values[i], value)
			}
		}
	}
	return values, ctx.Err()
}

// fewer returns the number of rounds of a slow measurement: one for each per, at least least.
func (b *bench) fewer(per, least int) int { return max(least, (b.rounds+per-1)/per) }

// timed measures the duration of work in milliseconds.
func timed(work func(ctx context.Context) error) measured {
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		err := work(ctx)
		return milliseconds(time.Since(began)), err
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
