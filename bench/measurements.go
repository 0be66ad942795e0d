package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	workers                             = 8
	dockerTrials, sandboxTrials         = 24, 48
	podTrials                           = 16        // all at once
	scalePods, scaleNodes               = 1000, 10  // all at once, too
	alive                               = 100       // sandboxes at the same time
	download                            = 128 << 20 // bytes
	engineTrials, engineTasks           = 10_000, 100
	modelTrials                         = 500
	planAgents, planTasks, planAttempts = 10, 1000, 10
	mineCommits                         = 1000 // half of them promising
	mergeTasks, mergeShards             = 10_000, 64
	sizeTrials                          = 20_000
	validateTasks                       = 1280
	viewJobs, viewTrials, pageTrials    = 100, 1000, 500
	registryDatasets, registryTasks     = 43, 300 // as many tasks as the public registry has: 12,900 in 3.3 MB
)

// measurement is a line of the report.
type measurement struct {
	name, unit, what string
	floorIs          string // "" if there is no floor
	target           target
	pairs            pairs
}

// pairs is the number of measurements: warmups that do not count, then per for each of --rounds,
// but at least least.
type pairs struct{ warmups, per, least int }

const oneTrial = "a job of one hello trial, everything written"

var measurements = []measurement{
	{"docker.sequential", "ms", oneTrial, "the same engine calls made bare, nothing written", atMost("ratio", 1.15), pairs{2, 1, 1}},
	{"docker.run", "ms", oneTrial, "docker run --rm IMAGE true", atMost("ratio", 2.2), pairs{2, 1, 1}},
	{"docker.fresh", "ms", oneTrial + ", its tests in a fresh environment", "the same with the tests in the agent's", atMost("ratio", 2), pairs{2, 1, 1}},
	{"docker.services", "ms", "an environment of three services, created and removed", "the same engine calls made bare", atMost("ratio", 1.15), pairs{2, 1, 3}},
	{"docker.parallel", "trials/s", "a job of 24 hello trials by 8 workers", "as many bare trials by 8 goroutines", atLeast("ratio", 0.9), pairs{0, 5, 2}},

	{"sandbox.trial", "ms", oneTrial + ", as root", "", atMost("ours", 60), pairs{2, 1, 1}},
	{"sandbox.user", "ms", oneTrial + ", as an ordinary user", "", atMost("ours", 120), pairs{2, 1, 1}},
	{"sandbox.network", "ms", oneTrial + ", in its own network", "the same on this machine's network", atMost("difference", 5), pairs{2, 1, 1}},
	{"sandbox.fresh", "ms", oneTrial + ", its tests in a fresh environment", "the same with the tests in the agent's", atMost("difference", 40), pairs{2, 1, 5}},
	{"sandbox.download", "MB/s", "a download in a sandbox with its own network", "the same by a process of this machine, over its loopback device", atLeast("ours", 100), pairs{1, 4, 3}},
	{"sandbox.docker", "ms", oneTrial, "the same job on a Docker engine", atMost("ratio", 1.0/8), pairs{2, 1, 1}},
	{"sandbox.parallel", "trials/s", "a job of 48 hello trials by 8 workers", "", atLeast("ours", 25), pairs{1, 4, 3}},
	{"sandbox.exec", "ms", "a script that does nothing, in a live sandbox", "bash -c true as a process", atMost("ours", 3), pairs{5, 1, 60}},
	{"sandbox.create", "ms", "100 sandboxes created by 8 workers", "", atMost("ours", 2000), pairs{1, 5, 3}},
	{"sandbox.memory", "MB", "an idle sandbox, one of 100: its share of memory (PSS)", "", atMost("ours", 5), pairs{}},

	{"kubernetes.sequential", "ms", oneTrial + ", as a pod", "a plain pod: the same API calls made bare with client-go, no init container, nothing written", atMost("ratio", 1.6), pairs{1, 2, 5}},
	{"kubernetes.parallel", "trials/s", "a job of 16 hello trials at once", "as many plain pods at once", atLeast("ratio", 0.6), pairs{1, 5, 3}},

	{"scale.start", "pods/s", "1,000 environments created at once on a real API server with fake nodes, in a process of their own, until each has run a command", "the same API calls made bare with client-go, until each pod has echoed", atLeast("ratio", 0.7), pairs{0, 7, 3}},
	{"scale.memory", "MB", "that process's largest resident set, for each pod", "the same of the bare pods' process", atMost("ours", 0.5), pairs{}},
	{"scale.calls", "per pod", "the calls for pods that the API server has carried out", "those for the bare pods", atMost("ratio", 1.1), pairs{}},

	{"model.sandbox", "ms", "the first event of a streamed turn, asked for in a sandbox, through the gateway", "the same client on this machine, directly to the model", atMost("difference", 2), pairs{1, 1, 5}},
	{"model.docker", "ms", "the same in a container", "the same client on this machine, directly to the model", atMost("difference", 5), pairs{1, 1, 5}},
	{"model.streams", "streams/s", "200 streams of 50 events a second at once, through a gateway that records them, in a process of their own", "the same streams directly", atLeast("ratio", 0.9), pairs{0, 5, 3}},
	{"model.record", "MB", "the heap that is held between the turns of a conversation of 50 MB at its end, while it is recorded", "", atMost("ours", 3), pairs{}},
	{"model.waiting", "MB", "the heap that is held while the model answers a request of 20 MB", "", atMost("ours", 25), pairs{}},
	{"model.recording", "MB", "the same when the turn is about to be recorded", "", atMost("ours", 50), pairs{}},
	{"model.memory", "MB", "that process's largest resident set, less that of the direct streams, for each stream", "", atMost("ours", 1), pairs{}},

	{"engine.trial", "ms", "a trial of 10,000 by 8 workers, on a provider for tests, in a separate process", "", atMost("ours", 2), pairs{0, 10, 1}},
	{"engine.memory", "MB", "that process's largest resident set", "", atMost("ours", 150), pairs{}},
	{"engine.models", "ms", "a trial of 500 whose agent has no model, in a job that has models", "the same in a job without models", atMost("ratio", 1.1), pairs{1, 2, 5}},
	{"engine.allocations", "per trial", "the allocations of that trial", "those in a job without models", atMost("ratio", 1.01), pairs{}},
	{"engine.plan", "ms", "100,000 trials planned, named, checked, encoded", "", atMost("ours", 1000), pairs{1, 4, 3}},

	{"registry.load", "ms", "a registry of 12,900 tasks read, a dataset found and checked", "its file decoded by encoding/json", atMost("ours", 300), pairs{1, 2, 5}},

	{"mine.look", "ms", "1,000 commits looked at by rollout mine, before anything is built", "git log --raw --patch of the same commits", atMost("ours", 10_000), pairs{1, 4, 3}},

	// The time to create a directory depends on the file system: on ext4 the floor alone may take
	// four seconds.
	{"merge.time", "ms", "100,000 trials from 64 shards merged, in a separate process", "the same results read, directories made and files linked", atMost("ratio", 1.6), pairs{0, 10, 1}},
	{"merge.memory", "MB", "that process's largest resident set", "", atMost("ours", 500), pairs{}},
	{"merge.move", "ms", "the same merge with --move", "", atMost("ours", 4000), pairs{0, 1000, 1}},

	{"size.time", "ms", "--trials trials of 256 shards merged, compared with an earlier run, judged and reported, in a separate process", "cp -al of the shards", atMost("ratio", 1.2), pairs{0, 1000, 1}},
	{"size.memory", "kB/trial", "that process's largest resident set, for each trial: 0.5 is 500 MB for a million", "", atMost("ours", 0.5), pairs{}},

	{"validate.time", "ms", "the processor's time of rollout validate over 1,280 tasks with 26 files each, 150 MB: 6 s are 60 s for 12,800", "grep -rE with three patterns over the same", atMost("ours", 6000), pairs{0, 10, 1}},

	{"view.index", "ms", "the first index of 100 jobs of 1,000 trials, the newest with their numbers, from the start of a server in a separate process", "the files that it needs, read", atMost("ours", 1000), pairs{1, 5, 3}},
	{"view.job", "ms", "the page of one of these jobs, after the index", "the files that it needs, read", atMost("ours", 1000), pairs{1, 5, 3}},
	{"view.conversation", "ms", "the page of a trial with a conversation of 1,000 turns, after the index", "the conversation read", atMost("ours", 1000), pairs{1, 5, 3}},
	{"view.memory", "MB", "that process's largest resident set", "", atMost("ours", 150), pairs{}},
	{"view.page", "ms", "a job of 500 trials read and written as one page (report --format html)", "the same bytes written", atMost("ours", 2000), pairs{1, 5, 3}},

	{"binary.size", "MB", "the stripped binary", "", atMost("ours", 75), pairs{}},
	{"binary.version", "ms", "rollout version as a process", "", atMost("ours", 30), pairs{2, 1, 20}},
}

// measured takes one measurement; it returns a value in the caller's unit.
type measured func(ctx context.Context) (float64, error)

// measuring says how to take the values of a measurement. floor is nil if it has none.
type measuring struct {
	name        string
	ours, floor measured
}

// find returns the measurement with the given name.
func find(name string) measurement {
	return measurements[slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })]
}

// measure takes the values of measurements and adds them to the report.
func (b *bench) measure(ctx context.Context, all ...measuring) error {
	for _, m := range all {
		things := slices.DeleteFunc([]measured{m.ours, m.floor}, func(m measured) bool { return m == nil })
		n := find(m.name).pairs
		rounds := max(n.least, (b.rounds+n.per-1)/n.per)
		fmt.Fprintf(b.stderr, "bench: %s, %d times\n", m.name, rounds)
		values, err := turns(ctx, n.warmups, rounds, things...)
		if err == nil {
			b.add(m.name, values...)
		}
		if err := b.unlessMissing(m.name, err); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// add adds a measurement with its values, and those of its floor, to the report.
func (b *bench) add(name string, values ...[]float64) {
	b.report.results = append(b.report.results, newRow(find(name), values...))
}

// turns takes measurements in turn, rounds times after the warm-ups, and returns the values of
// each.
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
		return float64(time.Since(began)) / float64(time.Millisecond), err
	}
}

// perSecond converts the duration of an amount of work, in milliseconds, into a rate per second.
func perSecond(amount float64, took measured) measured {
	return func(ctx context.Context) (float64, error) {
		ms, err := took(ctx)
		return amount / (ms / 1000), err
	}
}

// each calls do with 0 to n-1, at most limit at a time.
func each(ctx context.Context, limit, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// process measures the duration of a process. It returns errUnmeasurable if the program does not
// exist.
func process(name string, args ...string) measured {
	return timed(func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%w: %w", errUnmeasurable, err)
		}
		if err != nil {
			err = fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
		}
		return err
	})
}
