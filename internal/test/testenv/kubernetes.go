package testenv

import (
	"os"
	"testing"
)

// Kubeconfig returns the path of the kubeconfig of a cluster for tests, which ROLLOUT_TEST_KUBECONFIG names. Its nodes have Image,
// and its user may do everything. Without one it skips or fails the test. .ci/kubernetes starts such a cluster.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	return variable(t, "ROLLOUT_TEST_KUBECONFIG", "the kubeconfig of a Kubernetes cluster")
}

// Registry returns the address of a registry on this machine's loopback interface, from which the nodes of the cluster of Kubeconfig
// pull over http, by the same address: that of internal/test/testregistry. ROLLOUT_TEST_REGISTRY names it. Without one it skips or
// fails the test.
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
