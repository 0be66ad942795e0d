package job

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/trial"
)

// Plan returns every trial of a job: agents × tasks × attempts, in the order of the job file
// (agents, then datasets), tasks by name, attempts from 1. env holds each agent's expanded
// variables.
// Source: specification, "Trial enumeration".
func Plan(cfg config.Job, sets []*dataset.Set, env map[string]map[string]string) []trial.Spec {
	tasks := 0
	for _, set := range sets {
		tasks += len(set.Tasks)
	}
	specs := make([]trial.Spec, 0, len(cfg.Agents)*tasks*cfg.NAttempts)
	for _, agent := range cfg.Agents {
		for _, set := range sets {
			for _, t := range set.Tasks {
				for n := 1; n <= cfg.NAttempts; n++ {
					specs = append(specs, trial.Spec{
						Key:   result.Key{Task: t.Name, Dataset: set.Name, Agent: agent.Name, Attempt: n},
						Task:  t,
						Agent: agent,
						Env:   env[agent.Name],
					})
				}
			}
		}
	}
	return specs
}

// Keys returns the specs' keys, in order.
func Keys(specs []trial.Spec) []result.Key {
	keys := make([]result.Key, len(specs))
	for i, s := range specs {
		keys[i] = s.Key
	}
	return keys
}

// CheckNames returns an error if two trials with different names would have the same directory.
func CheckNames(keys []result.Key) error {
	byDir := make(map[string]result.Key, len(keys))
	for _, key := range keys {
		dir := key.Dir()
		other, taken := byDir[dir]
		if taken {
			pair := []result.Key{other, key}
			slices.SortFunc(pair, func(a, b result.Key) int { return cmp.Compare(a.String(), b.String()) })
			return fmt.Errorf("%s and %s would have the same directory %s: rename one of them", pair[0], pair[1], dir)
		}
		byDir[dir] = key
	}
	return nil
}
