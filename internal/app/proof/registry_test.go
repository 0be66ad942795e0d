package proof_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/providers"
)

// TestCheckOfARegistryWithManyTasks has 10,000 tasks, of which one can run.
func TestCheckOfARegistryWithManyTasks(t *testing.T) {
	const many = 10_000
	h, _ := apptest.New(t)
	h.Providers = providers.All
	var text strings.Builder
	text.WriteString(`[{"name": "d", "format": "rollout", "tasks": [{"name": "one", "path": "evals/one"}`)
	for i := range many - 1 {
		fmt.Fprintf(&text, `, {"name": "gone-%d", "path": "gone/%d"}`, i, i)
	}
	text.WriteString(`]}, {"name": "e", "tasks": [{"name": "one", "path": "evals/one"}]}]`)
	if err := os.WriteFile(h.Path("registry.json"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	board, err := proof.CheckRegistry(t.Context(), h, "registry.json", nil)
	if err != nil || len(board.Datasets) != 2 || board.Unchecked() != 0 {
		t.Fatalf("%v, %v", board, err)
	}
	d := board.Datasets[0]
	if d.Tasks != many || len(d.Accepted) != len(providers.All) || d.Accepted["docker"] != 1 || len(d.Refused) != 1 || d.Refused[0].Tasks != many-1 || d.Refused[0].Example != "gone-0" {
		t.Errorf("%+v", d)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancelling := event.Watch(ctx, func(work *event.Work) (end func()) {
		if work.What == "Checking tasks" {
			cancel()
		}
		return func() {}
	})
	board, err = proof.CheckRegistry(cancelling, h, "registry.json", nil)
	if err != nil || board.Unchecked() != 2 || !strings.Contains(board.Datasets[1].Error, "cancelled") {
		t.Errorf("after a cancellation: %+v, %v", board.Datasets[1], err)
	}
}
