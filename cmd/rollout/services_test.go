//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/hostedtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers"
	"github.com/org/rollout-action/providers/apple"
	"github.com/org/rollout-action/providers/apple/appletest"
	"github.com/org/rollout-action/providers/fly"
	"github.com/org/rollout-action/providers/fly/flytest"
	"github.com/org/rollout-action/providers/modal"
	"github.com/org/rollout-action/providers/modal/modaltest"
)

// services are providers of hosted sandboxes, for which this process has stand-ins.
var services = []string{modal.Name, fly.Name, apple.Name}

// appleVariable names the program that takes the place of Apple's command, for processes that this
// one starts.
const appleVariable = "ROLLOUT_TEST_APPLE_PROGRAM"

// withServices returns a table in which the images of services are those of this machine: there is
// no registry.
func withServices(table providers.Table) providers.Table {
	images := flytest.NewImages(nil, testenv.Image)
	connect := map[string]func(context.Context, map[string]any) (environment.Provider, error){
		modal.Name: func(ctx context.Context, cfg map[string]any) (environment.Provider, error) {
			return modal.New(ctx, cfg, modal.Options{Program: hostedtest.Program, Images: images})
		},
		fly.Name: func(ctx context.Context, cfg map[string]any) (environment.Provider, error) {
			return fly.New(ctx, cfg, fly.Options{Program: hostedtest.Program, Images: images, Unpaced: true})
		},
		apple.Name: func(ctx context.Context, cfg map[string]any) (environment.Provider, error) {
			return apple.New(ctx, cfg, apple.Options{
				OS: "darwin", Architecture: runtime.GOARCH, Command: os.Getenv(appleVariable), Dir: filepath.Dir(os.Getenv(appleVariable)), Program: hostedtest.Program,
			})
		},
	}
	table = slices.Clone(table)
	for i := range table {
		if with := connect[table[i].Name]; with != nil {
			table[i].New = func(ctx context.Context, cfg map[string]any, _ providers.Host) (environment.Provider, error) {
				return with(ctx, cfg)
			}
		}
	}
	return table
}

// serve starts the stand-in for a service, which ends with the test.
func serve(t *testing.T, provider string) {
	t.Helper()
	runs := hostedtest.Open(t, filepath.Join(scratch, "services"))
	var variables map[string]string
	switch provider {
	case modal.Name:
		s, err := modaltest.Start(runs)
		must(t, err)
		t.Cleanup(s.Close)
		variables = s.Variables()
	case apple.Name:
		s, err := appletest.Start(runs, flytest.NewImages(runs, testenv.Image))
		must(t, err)
		t.Cleanup(s.Close)
		variables = map[string]string{appleVariable: s.Program()}
	default:
		s := flytest.Start(runs, flytest.NewImages(runs, testenv.Image))
		t.Cleanup(s.Close)
		variables = s.Variables()
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// TestServices tests whole jobs on providers of hosted sandboxes.
func TestServices(t *testing.T) {
	testenv.Long(t, "jobs on three services, which are killed and resumed")
	guest, err := hostedtest.Program()
	must(t, err)
	file := filepath.Join(t.TempDir(), "guest")
	must(t, os.WriteFile(file, guest, 0o600))
	t.Setenv(hostedtest.ProgramFile, file)
	const again = "jobs that are killed again and again lose nothing"
	for _, provider := range services {
		t.Run(provider, func(t *testing.T) {
			for _, tc := range []struct {
				name string
				test func(t *testing.T, provider string)
			}{
				{"a signal stops the job in order", func(t *testing.T, provider string) { stopInOrder(t, provider, os.Interrupt) }},
				{"rollout clean removes only what dead runs left", cleanDeadRuns},
				{"the next run removes what a killed one left", removeLeftovers},
				{again, func(t *testing.T, provider string) {
					killAgainAndAgain(t, provider, testenv.Times(2, 20), 1)
				}},
				{"judges go on after a kill", killWhileJudging},
				{"turns with a model survive a kill", killBetweenTurns},
				{"shards are merged to the results of one run", mergeShards},
			} {
				if tc.name == again && provider == apple.Name {
					continue // its containers are made as the sandboxes of modal are, and are slower here
				}
				t.Run(tc.name, func(t *testing.T) {
					serve(t, provider)
					tc.test(t, provider)
				})
			}
		})
	}
}

// mergeShards runs a job whole and in two shards. Environments of services cost something.
func mergeShards(t *testing.T, provider string) {
	const priced = "environment.provider_config={}"
	calm, j := steadyJob(t, provider, 1, "0.01"), steadyJob(t, provider, 1, "0.01")
	want := calm.start(t, "job.yaml", "--set", priced).exit(t)
	for i := range 2 {
		j.start(t, "job.yaml", "--set", priced, "--shard", fmt.Sprintf("%d/2", i+1)).exit(t)
	}
	if code := j.start(t, "merge", "jobs", "--output", "merged/steady").exit(t); code != want {
		t.Errorf("the merge ends with %d, want %d", code, want)
	}
	// ends returns how trials ended, by agent and task.
	ends := func(dir string) map[string]string {
		tree, err := result.ReadTree(dir)
		must(t, err)
		found := map[string]string{}
		for _, tr := range tree.Trials {
			reward, failure := "none", ""
			if tr.Reward != nil {
				reward = fmt.Sprint(*tr.Reward)
			}
			if tr.Error != nil {
				failure = string(tr.Error.Type)
			}
			found[tr.Agent+"/"+tr.Task] = strings.TrimSpace(reward + " " + failure)
			if provider != apple.Name && !(tr.Costs.Environment.Amount() > 0) {
				t.Errorf("the environment of %s/%s cost %v", tr.Agent, tr.Task, tr.Costs.Environment.Amount())
			}
		}
		return found
	}
	one, shards := ends(calm.directory()), ends(filepath.Join(j.dir, "merged/steady"))
	if len(one) != 6 || !maps.Equal(one, shards) {
		t.Errorf("one run: %v; shards: %v", one, shards)
	}
	j.wantLeft(t, 0, "after the shards")
}
