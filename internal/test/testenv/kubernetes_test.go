package testenv

import "testing"

func TestClustersAreNamedByVariables(t *testing.T) {
	for name, get := range map[string]func(testing.TB) string{
		"ROLLOUT_TEST_KUBECONFIG": Kubeconfig,
		"ROLLOUT_TEST_REGISTRY":   Registry,
	} {
		t.Setenv("ROLLOUT_TEST_REQUIRE", "docker")
		t.Setenv(name, "named")
		if got := get(t); got != "named" {
			t.Errorf("%s names %q", name, got)
		}
		t.Setenv(name, "")
		skipped := false
		t.Run("without "+name, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			get(t)
		})
		if !skipped {
			t.Errorf("without %s the test goes on", name)
		}
	}
}
