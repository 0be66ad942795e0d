package testenv

import (
	"os"
	"testing"
)

// Kubeconfig returns the path of the kubeconfig of a cluster for tests, from
// ROLLOUT_TEST_KUBECONFIG. Its nodes have Image, and its user has all permissions. Without one it
// skips or fails the test. .ci/kubernetes starts such a cluster.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	return variable(t, "ROLLOUT_TEST_KUBECONFIG", "the kubeconfig of a Kubernetes cluster")
}

// Registry returns the address of a registry on this machine's loopback interface, from
// ROLLOUT_TEST_REGISTRY. The nodes of the cluster of Kubeconfig pull from it over http by the same
// address; internal/test/testregistry is one. Without one it skips or fails the test.
func Registry(t testing.TB) string {
	t.Helper()
	return variable(t, "ROLLOUT_TEST_REGISTRY", "a registry that a Kubernetes cluster pulls from")
}

func variable(t testing.TB, name, what string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		Lacks(t, "kubernetes", what+" ("+name+")")
	}
	return value
}
