//go:build linux

package main

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/testenv"
	"github.com/org/rollout-action/providers/kubernetes"
)

// TestKubernetes tests on a cluster what depends on how runs end. Its node is this machine, on which processes are looked for.
func TestKubernetes(t *testing.T) {
	testenv.Registry(t)
	t.Setenv("KUBECONFIG", testenv.Kubeconfig(t))
	for _, tc := range []struct {
		name string
		test func(t *testing.T, provider string)
	}{
		{"a signal stops the job in order", func(t *testing.T, provider string) { stopInOrder(t, provider, os.Interrupt) }},
		{"a second signal stops it at once", stopAtOnce},
		{"environments go after stdout closes", cleanUpAfterStdoutCloses},
		{"rollout clean removes only what dead runs left", cleanDeadRuns},
		{"the next run removes what a killed one left", removeLeftovers},
		{"jobs that are killed again and again lose nothing", func(t *testing.T, provider string) {
			killAgainAndAgain(t, provider, testenv.Times(3, 20), 1)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, kubernetes.Name) })
	}
}
