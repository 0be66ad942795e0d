package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
)

// shardFlags are the flags that make a run one part of its job.
type shardFlags struct {
	shard, timings string
}

func (f *shardFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.shard, "shard", "", "run only this part of the job, as in 2/4: merge puts the parts together")
	addTimings(cmd, &f.timings)
}

func addTimings(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "timings", "", "balance shards by the durations in an earlier job's directory or result.json; the same for all shards")
}

// parseShard reads i/N.
func parseShard(text string) (*result.Shard, error) {
	left, right, ok := strings.Cut(text, "/")
	index, err := strconv.Atoi(left)
	total, err2 := strconv.Atoi(right)
	if !ok || err != nil || err2 != nil || index < 1 || total < index || total > result.MaxShards {
		return nil, usage("--shard %s: want i/N with i from 1 to N, as in 2/4, and N at most %d", text, result.MaxShards)
	}
	return &result.Shard{Index: index, Total: total}, nil
}

// timings reads the durations of an earlier job's trials; none without a path.
func (a *app) timings(path string) (job.Timings, error) {
	if path == "" {
		return nil, nil
	}
	earlier, unreadable, err := result.ReadJob(a.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("--timings %s: there is no such directory or file", path)
	}
	if err != nil {
		return nil, usage("--timings: %w", err)
	}
	for _, u := range unreadable {
		a.warnf("timings: %v", u)
	}
	return job.TimingsOf(earlier), nil
}

// split reduces the session to one part of its job.
func (a *app) split(p *session, flags shardFlags) error {
	if flags.shard == "" {
		if flags.timings != "" {
			return usage("--timings says how to divide a job into shards: it needs --shard")
		}
		return nil
	}
	shard, err := parseShard(flags.shard)
	if err != nil {
		return err
	}
	timings, err := a.timings(flags.timings)
	if err != nil {
		return err
	}
	p.shard, p.shardOf = shard, job.Shards(p.specs, shard.Total, timings)
	if own := p.own(); len(own) == 0 {
		fmt.Fprintf(a.Stderr, "Shard %s has nothing to do: the job has only %s\n", shard, plural.Count(len(p.specs), "trial"))
	}
	return nil
}

// own returns the trials of this run: those of its shard, or all.
func (p *session) own() []trial.Spec {
	if p.shard == nil {
		return p.specs
	}
	var own []trial.Spec
	for i, s := range p.specs {
		if p.shardOf[i] == p.shard.Index {
			own = append(own, s)
		}
	}
	return own
}

// dir returns the job's directory. Each shard has its own, so that one machine can hold all of them.
func (p *session) dir() string {
	if p.into != "" {
		return p.into
	}
	name := p.Job.Name
	if p.shard != nil {
		name = fmt.Sprintf("%s.shard-%s", name, shardName(*p.shard))
	}
	return filepath.Join(p.Job.JobsDir, name)
}

// shardName returns a shard as a part of a file's or an artifact's name.
func shardName(s result.Shard) string { return fmt.Sprintf("%d-of-%d", s.Index, s.Total) }
