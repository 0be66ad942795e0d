package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/registry"
)

// A registry of the public one's size: 12,900 tasks in 3.3 MB.
const (
	registryDatasets = 43
	registryTasks    = 300 // of each
)

// registry measures reading a registry and finding a dataset in it, beside decoding the same text with encoding/json.
func (b *bench) registry(ctx context.Context) error {
	b.logf("registry: reading %d tasks", registryDatasets*registryTasks)
	text, err := largeRegistry()
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, "registry.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	values, err := turns(ctx, 1, b.fewer(2, 5),
		timed(func(ctx context.Context) error { return findInRegistry(ctx, path) }),
		timed(func(context.Context) error { return decodeBare(path) }))
	if err != nil {
		return err
	}
	b.add(newResult("registry.load", "ms",
		series{"a registry of 12,900 tasks read, a dataset found and checked", values[0]},
		series{"its file decoded by encoding/json", values[1]}, atMost("ours", 300)))
	return nil
}

func findInRegistry(ctx context.Context, path string) error {
	reg, err := registry.Load(ctx, path, registry.Options{})
	if err != nil {
		return err
	}
	d, err := reg.Find("dataset-7", "")
	if err == nil && len(d.Tasks) != registryTasks {
		err = fmt.Errorf("the dataset has %d tasks", len(d.Tasks))
	}
	return err
}

func decodeBare(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all []registry.Dataset
	return json.Unmarshal(text, &all)
}

func largeRegistry() ([]byte, error) {
	all := make([]registry.Dataset, registryDatasets)
	for n := range all {
		all[n] = registry.Dataset{Name: fmt.Sprint("dataset-", n), Version: "1.0", Description: "A dataset of many tasks, with a description of one sentence."}
		for m := range registryTasks {
			name := fmt.Sprintf("a-task-with-a-name-of-some-length-%04d", m)
			all[n].Tasks = append(all[n].Tasks, registry.Task{
				Name: name, GitURL: "https://git.example.org/datasets/datasets.git",
				GitCommitID: "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c", Path: "datasets/dataset/" + name,
			})
		}
	}
	return json.MarshalIndent(all, "", "  ")
}
