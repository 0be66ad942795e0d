package history

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/bounded"
)

func TestHostileLinesTakeLittleMemory(t *testing.T) {
	line := `{"history_format":1,"agents":[` + strings.Repeat("{},", 300_000) + "{}]}\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Read(strings.NewReader(line), "h.jsonl")
	runtime.ReadMemStats(&after)
	if !errors.Is(err, bounded.ErrAmplified) || !strings.HasPrefix(err.Error(), "h.jsonl:1: ") {
		t.Errorf("%v", err)
	}
	if took := int(after.TotalAlloc - before.TotalAlloc); took > 1<<20+8*len(line) {
		t.Errorf("%d bytes allocated for %d", took, len(line))
	}
}
