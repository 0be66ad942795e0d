package merge

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

// Read returns the same as a merge of the shards writes, and writes nothing.
func TestReadReportsTheSameAsAMerge(t *testing.T) {
	s := newScene(t)
	s.Shards(4, 3)
	s.RunShard(s.In("shards", "again"), 2, 4, func(result.Key) bool { return true }) // the other one is complete
	before := s.Content(s.Dir)
	opts := Options{Base: s.Dir, Paths: []string{"shards/1", "shards/2", "shards/4", "shards/again"}}
	opened, err := Open(opts)
	s.Check(err)
	read, err := opened.Read(s.Context())
	s.Check(err)
	if !maps.Equal(before, s.Content(s.Dir)) {
		t.Error("reading has changed files")
	}
	merged := s.mustMerge()
	if !reflect.DeepEqual(read.Job, merged.Job) || !slices.Equal(read.Incomplete, merged.Incomplete) || !slices.Equal(read.Notes, merged.Notes) || len(read.Notes) != 1 {
		t.Errorf("it read\n%+v\nand merged\n%+v", read, merged)
	}
	if read.Shards != 4 || read.Merged != 3 || !slices.Equal(opened.Dirs, []string{"shards/1", "shards/2", "shards/4"}) {
		t.Errorf("of %d shards there are %d: %q", read.Shards, read.Merged, opened.Dirs)
	}
	there := 0
	for _, spec := range s.Specs {
		dir := spec.Key.Dir()
		if i := opened.Of(dir); i >= 0 {
			there++
			s.Read(s.In(opened.Dirs[i], dir, result.ResultFile))
		}
	}
	if there != len(read.Tree.Trials) || opened.Of("other/my-set/task-1__1") != -1 || opened.Of("agent 0") != -1 {
		t.Errorf("%d trials have a shard, and %d a result", there, len(read.Tree.Trials))
	}
}

func TestReadRefusesTheSameShardsAsAMerge(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.RunShard(s.In("other"), 1, 3, nil)
	for _, paths := range [][]string{{"shards/1", "other"}, {"nothing"}, nil} {
		if _, err := Open(Options{Base: s.Dir, Paths: paths}); !errors.As(err, new(job.Refusal)) {
			t.Errorf("%q: %v", paths, err)
		}
	}
	file := s.In("shards", "2", result.ConfigFile)
	s.Write(file, s.Read(file)+"\n")
	s.Write(s.In("shards", "1", result.ConfigFile), fmt.Sprintln(s.Read(s.In("shards", "1", result.ConfigFile))))
	opened, err := Open(Options{Base: s.Dir, Paths: []string{"shards/1", "shards/2"}})
	s.Check(err)
	if _, err := opened.Read(s.Context()); !errors.As(err, new(job.Refusal)) {
		t.Errorf("a configuration without its checksum: %v", err)
	}
}
