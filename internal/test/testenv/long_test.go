package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLongTestsAreSkippedUnlessAskedFor(t *testing.T) {
	for _, value := range []string{"", "0", "1"} {
		t.Setenv("ROLLOUT_TEST_LONG", value)
		skipped := false
		t.Run("of "+value, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			Long(t, "an example")
		})
		if skipped != (value != "1") {
			t.Errorf("with %q a long test is skipped: %v", value, skipped)
		}
	}
}

func TestReleasedBinariesAreNotCompiledForAQuickTest(t *testing.T) {
	for _, tc := range []struct {
		binary, long string
		skips        bool
	}{{"", "", true}, {"", "1", false}, {"rollout", "", false}} {
		t.Setenv("ROLLOUT_TEST_BINARY", tc.binary)
		t.Setenv("ROLLOUT_TEST_LONG", tc.long)
		skipped := false
		t.Run("", func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			NeedReleased(t)
		})
		if skipped != tc.skips {
			t.Errorf("with the binary %q and long tests %q it is skipped: %v", tc.binary, tc.long, skipped)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Setenv("ROLLOUT_TEST_FULL", "")
	if n := Times(3, 9); n != 3 {
		t.Errorf("for a change %d times", n)
	}
	t.Setenv("ROLLOUT_TEST_FULL", "1")
	if n := Times(3, 9); n != 9 {
		t.Errorf("by night %d times", n)
	}
}

func TestBinaryIsTheOneThatIsNamed(t *testing.T) {
	named := filepath.Join(t.TempDir(), "named")
	t.Setenv("ROLLOUT_TEST_BINARY", named)
	dir := t.TempDir()
	if path, err := Binary(dir, Released...); err != nil || path != named {
		t.Errorf("it is %s, %v", path, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("something was built: %v, %v", left, err)
	}
	t.Setenv("PATH", t.TempDir()) // there is no Go here
	if path, err := Binary(dir, "-race"); err == nil {
		t.Errorf("with the race detector it is %s, too", path)
	}
}
