package main

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/kubernetes/kubernetestest"
)

// A thousand environments started at once all respond and end, with three calls each. Other calls
// are reactions to a busy API server: watches and commands that it ends, and queries for objects
// missing from a list.
func TestThousandPodsOnKubernetes(t *testing.T) {
	programs := os.Getenv("ROLLOUT_TEST_KUBERNETES")
	if programs == "" {
		testenv.Lacks(t, "kubernetes-programs", "the programs of Kubernetes: ROLLOUT_TEST_KUBERNETES names no directory with them")
	}
	c, err := kubernetestest.Start(t.Context(), programs, t.TempDir(), scaleNodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	pods, err := environments(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	took, err := fill(t.Context(), c, pods, scalePods)
	if err != nil {
		t.Fatal(err)
	}
	if err := pods.close(); err != nil {
		t.Error(err)
	}
	calls, err := c.Calls(kubernetestest.Ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods in %.0f ms, by the calls %v", scalePods, took, calls)
	for _, call := range []string{"create pods", "delete pods"} {
		if calls[call] != scalePods {
			t.Errorf("%s was called %d times", call, calls[call])
		}
	}
	if execs := calls["get pods/exec"]; execs < scalePods || execs > scalePods*11/10 {
		t.Errorf("%d commands ran in %d pods", execs, scalePods)
	}
	for call, most := range map[string]int{"get pods": scalePods / 2, "list pods": 10, "watch pods": 50} {
		if calls[call] > most {
			t.Errorf("%s was called %d times: nothing is polled", call, calls[call])
		}
	}
}
