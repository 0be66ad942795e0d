package task_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/task"
)

// A task of terminal-bench before 2.0 has this one problem and no others.
func TestOldTaskIsRecognised(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "foo")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "task.yaml"), []byte("instruction: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	problems := new(task.Loader).Load(dir).Problems
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "terminal-bench before 2.0") || problems[0].Hint != task.HowToConvert {
		t.Errorf("the task has the problems %v", problems)
	}
}
