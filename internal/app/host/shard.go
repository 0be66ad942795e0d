package host

import (
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
)

// ShardAuto selects the shard that the variables of a CI system name.
const ShardAuto = "auto"

// ciShards lists the variables in which CI systems number the parallel jobs of one step.
var ciShards = []struct {
	system, index, total string
	first                int // the index of the first job
}{
	{"GitLab CI/CD", "CI_NODE_INDEX", "CI_NODE_TOTAL", 1},
	{"Buildkite", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0},
	{"CircleCI", "CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0},
	{"Semaphore", "SEMAPHORE_JOB_INDEX", "SEMAPHORE_JOB_COUNT", 1},
	{"Azure Pipelines", "SYSTEM_JOBPOSITIONINPHASE", "SYSTEM_TOTALJOBSINPHASE", 1},
}

// ParseShard parses i/N, or ShardAuto, for which it reads the variables of the CI system. It
// returns nil if text is empty, or if the CI system runs one job only.
func ParseShard(text string, getenv func(string) (string, bool)) (*result.Shard, error) {
	if text == "" {
		return nil, nil
	}
	if text == ShardAuto {
		return shardOfCI(getenv)
	}
	left, right, ok := strings.Cut(text, "/")
	index, err := strconv.Atoi(left)
	total, err2 := strconv.Atoi(right)
	if !ok || err != nil || err2 != nil || index < 1 || total < index || total > result.MaxShards {
		return nil, Usagef("--shard %s: want i/N with i from 1 to N, as in 2/4, and N at most %d, or auto", text, result.MaxShards)
	}
	return &result.Shard{Index: index, Total: total}, nil
}

// shardOfCI returns the shard that a CI system's variables name; nil if it runs only one job.
func shardOfCI(getenv func(string) (string, bool)) (*result.Shard, error) {
	var names []string
	for _, ci := range ciShards {
		names = append(names, ci.index+" ("+ci.system+")")
		indexText, there := getenv(ci.index)
		totalText, both := getenv(ci.total)
		if !there && !both {
			continue
		}
		index, err := strconv.Atoi(indexText)
		total, err2 := strconv.Atoi(totalText)
		index += 1 - ci.first
		if err != nil || err2 != nil || index < 1 || index > total || total > result.MaxShards {
			return nil, Usagef("--shard auto: %s=%q and %s=%q do not number the jobs of %s (from %d, and at most %d)",
				ci.index, indexText, ci.total, totalText, ci.system, ci.first, result.MaxShards)
		}
		if total == 1 {
			return nil, nil
		}
		return &result.Shard{Index: index, Total: total}, nil
	}
	return nil, Usagef("--shard auto: no variable of a CI system numbers this job: there are %s; or give --shard i/N", strings.Join(names, ", "))
}
