package look

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/result"
)

func TestLongListsAreBoundedOnATerminal(t *testing.T) {
	var shown inspect.ShownJob
	var diff result.Diff
	for i := range 50 {
		name := fmt.Sprintf("task-%02d", i)
		shown.Keys = append(shown.Keys, result.Key{Agent: "a", Dataset: "d", Task: name, Attempt: 1})
		diff.Tasks = append(diff.Tasks, result.TaskDiff{Agent: "a", Dataset: "d", Task: name, Change: result.Broken})
	}
	shown.Input.Trials = result.PackAll([]result.Trial{{Key: shown.Keys[0], Durations: result.Durations{TotalSec: 71, ImageSec: new(60.0)}}})
	var first bytes.Buffer
	writeTrials(&first, shown, 1)
	if !strings.Contains(first.String(), "11.0s") { // as in the mean times
		t.Errorf("the time of a trial has the wait for its image:\n%s", first.String())
	}
	for what, write := range map[string]func(b *bytes.Buffer, rows int){
		"show": func(b *bytes.Buffer, rows int) { writeTrials(b, shown, rows) },
		"diff": func(b *bytes.Buffer, rows int) { writeDiff(b, diff, rows) },
	} {
		var bounded, whole bytes.Buffer
		write(&bounded, maxShownRows)
		if text := bounded.String(); strings.Count(text, "task-") != maxShownRows || !strings.Contains(text, "… and 30 more; a pipe (| less) or --json has all\n") {
			t.Errorf("%s prints:\n%s", what, text)
		}
		write(&whole, shownRows((command.Env{Stdout: &whole})))
		if text := whole.String(); strings.Count(text, "task-") != 50 || strings.Contains(text, "more") {
			t.Errorf("%s prints to a pipe:\n%s", what, text)
		}
	}
}
