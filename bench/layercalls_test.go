package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

// A trial on a layer makes the usual calls except those for the install script, and no others.
func TestTrialOnALayerMakesFewerEngineCalls(t *testing.T) {
	proxy, provider, ours := countedTrials(t)
	ours.loaded.Job.Agents[0].CacheInstall = new(true)
	ours.loaded.Job.Agents[0].Install += "# " + t.TempDir() + "\n" // a layer that no earlier test has created
	if _, err := ours.trials(1, 1)(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		store, ok := environment.As[environment.ImageStore](provider)
		if !ok {
			t.Fatal("the provider keeps no images")
		}
		images, err := store.Images(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, img := range images {
			if strings.Contains(img.Name, "of job bench-1)") && !img.InUse {
				if err := store.RemoveImage(context.Background(), img.ID); err != nil {
					t.Error(err)
				}
			}
		}
	})
	made := proxy.take()
	for call, times := range map[string]int{
		"POST /containers/create": 2, "GET /containers/{id}/changes": 1, "GET /containers/{id}/export": 1, "POST /commit": 1, "POST /containers/{id}/exec": 3,
		"DELETE /containers/{id}": 2,
	} {
		n := 0
		for _, c := range made {
			if c == call {
				n++
			}
		}
		if n != times {
			t.Errorf("the trial that makes the layer calls %[2]s %[1]d times, want %[3]d:\n%s", n, call, times, strings.Join(made, "\n"))
		}
	}

	if _, err := ours.trials(1, 1)(t.Context()); err != nil {
		t.Fatal(err)
	}
	image := "GET /images/" + testenv.Image + "/json"
	var without []string
	without = append(without, engineCalls[:3]...)
	without = append(without, engineCalls[6:]...) // without those of install
	got := proxy.take()
	if len(got) < 3 || got[0] != image || got[1] != image || !strings.HasPrefix(got[2], "GET /images/rollout/layer:") || !slices.Equal(got[3:], without) {
		t.Errorf("a trial on a layer makes the calls\n%s\nwant the image twice, the layer, and\n%s", strings.Join(got, "\n"), strings.Join(without, "\n"))
	}
}
