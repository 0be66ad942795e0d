package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/judge"
)

func TestExperimentKeepsTheKeysThatCount(t *testing.T) {
	made := func() config.Job {
		return config.Job{
			Name: "j", NAttempts: 3, InstructionPath: "/i", MaxStreamSize: 5,
			Environment: config.Environment{Type: "docker", Keep: config.KeepOutcome, PreserveEnv: config.PreserveAlways},
			Agents:      []agent.Agent{{Name: "a", Description: "x"}},
			Models:      map[string]config.Model{"m": {API: "google", RecordTo: "dir", MaxConcurrent: 2}},
			Judges:      []judge.Spec{{Name: "j", OnError: judge.Ignore}},
			Tasks:       []string{},
		}
	}
	job := made()
	if got, want := config.Experiment(job, config.ForResume), (config.Job{
		NAttempts: 3, InstructionPath: "/i",
		Environment: config.Environment{Type: "docker"},
		Agents:      []agent.Agent{{Name: "a"}},
		Models:      map[string]config.Model{"m": {API: "google", MaxConcurrent: 2}},
		Judges:      []judge.Spec{{Name: "j", OnError: judge.Ignore}},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("for resume: %+v", got)
	}
	if got, want := config.Experiment(job, config.ForReuse), (config.Job{
		InstructionPath: "/i", MaxStreamSize: 5,
		Environment: config.Environment{Type: "docker", PreserveEnv: config.PreserveAlways},
		Judges:      []judge.Spec{{Name: "j", OnError: judge.Ignore}},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("for reuse: %+v", got)
	}
	if got := config.Experiment(job.Judges[0], config.ForScores); !reflect.DeepEqual(got, judge.Spec{Name: "j"}) {
		t.Errorf("for scores: %+v", got)
	}
	if !reflect.DeepEqual(job, made()) {
		t.Errorf("the configuration has changed: %+v", job)
	}
}

// A misspelt tag would leave a key out of every digest.
func TestExperimentTagsNameUses(t *testing.T) {
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Slice, reflect.Pointer, reflect.Map:
			check(typ.Elem())
		case reflect.Struct:
			for _, f := range reflect.VisibleFields(typ) {
				uses, ok := f.Tag.Lookup("experiment")
				for use := range strings.SplitSeq(uses, ",") {
					switch {
					case !ok, uses == "no":
					case use != string(config.ForResume) && use != string(config.ForReuse) && use != string(config.ForScores):
						t.Errorf("%s.%s: there is no use %q", typ, f.Name, use)
					}
				}
				check(f.Type)
			}
		}
	}
	check(reflect.TypeFor[config.Job]())
}
