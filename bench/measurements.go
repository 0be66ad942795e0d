package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	workers       = 8
	dockerTrials  = 24
	sandboxTrials = 48
	alive         = 100       // sandboxes at the same time
	download      = 128 << 20 // bytes
	engineTrials  = 10_000
	engineTasks   = 100
	planAgents    = 10
	planTasks     = 1000
	planAttempts  = 10
	mergeTasks    = 10_000
	mergeShards   = 64

	registryDatasets = 43 // as many tasks as the public registry has: 12,900 in 3.3 MB
	registryTasks    = 300
)

// measurement is a line of the report.
type measurement struct {
	name, unit string
	what       string
	floorIs    string // "" if there is no floor
	target     target
	pairs      pairs
}

// pairs says how often something is measured: warmups times without effect, then once for each per of --rounds, at least least
// times.
type pairs struct{ warmups, per, least int }

const oneTrial = "a job of one hello trial, everything written"

var measurements = []measurement{
	{"docker.sequential", "ms", oneTrial, "the same engine calls made bare, nothing written", atMost("ratio", 1.15), pairs{2, 1, 1}},
	{"docker.run", "ms", oneTrial, "docker run --rm IMAGE true", atMost("ratio", 2.2), pairs{2, 1, 1}},
	{"docker.parallel", "trials/s", "a job of 24 hello trials by 8 workers", "as many bare trials by 8 goroutines", atLeast("ratio", 0.9), pairs{0, 5, 2}},

	{"sandbox.trial", "ms", oneTrial + ", as root", "", atMost("ours", 60), pairs{2, 1, 1}},
	{"sandbox.user", "ms", oneTrial + ", as an ordinary user", "", atMost("ours", 120), pairs{2, 1, 1}},
	{"sandbox.network", "ms", oneTrial + ", in a network of its own", "the same on this machine's network", atMost("difference", 5), pairs{2, 1, 1}},
	{"sandbox.download", "MB/s", "a download in a sandbox with a network of its own", "the same by a process of this machine, over its loopback device", atLeast("ours", 100), pairs{1, 4, 3}},
	{"sandbox.docker", "ms", oneTrial, "the same job on a Docker engine", atMost("ratio", 1.0/8), pairs{2, 1, 1}},
	{"sandbox.parallel", "trials/s", "a job of 48 hello trials by 8 workers", "", atLeast("ours", 25), pairs{1, 4, 3}},
	{"sandbox.exec", "ms", "a script that does nothing, in a live sandbox", "bash -c true as a process", atMost("ours", 3), pairs{5, 1, 60}},
	{"sandbox.create", "ms", "100 sandboxes created by 8 workers", "", atMost("ours", 2000), pairs{1, 5, 3}},
	{"sandbox.memory", "MB", "an idle sandbox, one of 100: its share of memory (PSS)", "", atMost("ours", 5), pairs{}},

	{"engine.trial", "ms", "a trial of 10,000 by 8 workers, on a provider for tests, in a process of its own", "", atMost("ours", 2), pairs{0, 10, 1}},
	{"engine.memory", "MB", "that process's largest resident set", "", atMost("ours", 150), pairs{}},
	{"engine.plan", "ms", "100,000 trials planned, named, checked, encoded", "", atMost("ours", 1000), pairs{1, 4, 3}},

	{"registry.load", "ms", "a registry of 12,900 tasks read, a dataset found and checked", "its file decoded by encoding/json", atMost("ours", 300), pairs{1, 2, 5}},

	// The time to create a directory depends on the file system: on ext4 the floor alone may take four seconds.
	{"merge.time", "ms", "100,000 trials from 64 shards merged, in a process of its own", "the same results read, directories made and files linked", atMost("ratio", 1.6), pairs{0, 10, 1}},
	{"merge.memory", "MB", "that process's largest resident set", "", atMost("ours", 500), pairs{}},
	{"merge.move", "ms", "the same merge with --move", "", atMost("ours", 4000), pairs{0, 1000, 1}},

	{"binary.size", "MB", "the stripped binary", "", atMost("ours", 45), pairs{}},
	{"binary.version", "ms", "rollout version as a process", "", atMost("ours", 30), pairs{2, 1, 20}},
}

// measured is something to measure; it returns a value in the caller's unit.
type measured func(ctx context.Context) (float64, error)

// find returns the measurement with a name.
func find(name string) measurement {
	return measurements[slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })]
}

// measure takes the values of a measurement and adds it to the report. floor is nil if it has none.
func (b *bench) measure(ctx context.Context, name string, ours, floor measured) error {
	things := []measured{ours}
	if floor != nil {
		things = append(things, floor)
	}
	n := find(name).pairs
	rounds := max(n.least, (b.rounds+n.per-1)/n.per)
	fmt.Fprintf(b.stderr, "bench: %s, %d times\n", name, rounds)
	values, err := turns(ctx, n.warmups, rounds, things...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.add(name, values...)
	return nil
}

// add adds a measurement with its values, and those of its floor, to the report.
func (b *bench) add(name string, values ...[]float64) {
	b.report.results = append(b.report.results, newRow(find(name), values...))
}

func (b *bench) missing(name string, reason error) {
	b.report.missing = append(b.report.missing, fmt.Sprintf("%s: %v", name, reason))
}

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

// timed measures the duration of work in milliseconds.
func timed(work func(ctx context.Context) error) measured {
	return func(ctx context.Context) (float64, error) {
		began := time.Now()
		err := work(ctx)
		return milliseconds(time.Since(began)), err
	}
}

// perSecond measures how much of an amount is done in a second, given the duration in milliseconds.
func perSecond(amount float64, took measured) measured {
	return func(ctx context.Context) (float64, error) {
		ms, err := took(ctx)
		return amount / (ms / 1000), err
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
