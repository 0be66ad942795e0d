package host

import (
	"strings"
	"testing"
)

func TestParseShard(t *testing.T) {
	for _, c := range []struct {
		text, vars string
		want       string // the shard, "" for the whole job, or a part of the error
	}{
		{"", "", ""},
		{"2/4", "", "2/4"},
		{"1/1", "", "1/1"},
		{"0/4", "", "--shard 0/4: want i/N"},
		{"5/4", "", "want i/N"},
		{"1/1001", "", "want i/N"},
		{"x", "", "want i/N"},
		{"auto", "CI_NODE_INDEX=2 CI_NODE_TOTAL=3", "2/3"},
		{"auto", "BUILDKITE_PARALLEL_JOB=0 BUILDKITE_PARALLEL_JOB_COUNT=3", "1/3"},
		{"auto", "CIRCLE_NODE_INDEX=2 CIRCLE_NODE_TOTAL=3", "3/3"},
		{"auto", "SEMAPHORE_JOB_INDEX=3 SEMAPHORE_JOB_COUNT=3", "3/3"},
		{"auto", "SYSTEM_JOBPOSITIONINPHASE=1 SYSTEM_TOTALJOBSINPHASE=2", "1/2"},
		{"auto", "CIRCLE_NODE_INDEX=0 CIRCLE_NODE_TOTAL=1", ""},
		{"auto", "", "no variable of a CI system numbers this job: there are CI_NODE_INDEX (GitLab CI/CD), "},
		{"auto", "CI_NODE_TOTAL=3", `CI_NODE_INDEX="" and CI_NODE_TOTAL="3" do not number the jobs of GitLab CI/CD (from 1, and at most 1000)`},
		{"auto", "CIRCLE_NODE_INDEX=3 CIRCLE_NODE_TOTAL=3", "do not number the jobs of CircleCI (from 0"},
		{"auto", "CI_NODE_INDEX=1 CI_NODE_TOTAL=1001", "do not number"},
	} {
		vars := map[string]string{}
		for _, v := range strings.Fields(c.vars) {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
		shard, err := ParseShard(c.text, func(name string) (string, bool) { value, ok := vars[name]; return value, ok })
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case shard != nil:
			got = shard.String()
		}
		if (err == nil && got != c.want) || !strings.Contains(got, c.want) {
			t.Errorf("--shard %q with %s: %q, want %q", c.text, c.vars, got, c.want)
		}
	}
}
