package export

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/test/testenv"
)

// Records above 64 MiB were left out once.
func TestLongRecordsAreExported(t *testing.T) {
	testenv.Long(t, "it exports a record of 70 MB")
	dir := recordedJob(t)
	key := result.Key{Agent: "a", Dataset: "set", Task: "add", Attempt: 2}
	var b bytes.Buffer
	r := model.NewRecorder(&b, 1<<30)
	talk := []model.Message{said("user", "Do it.")}
	for n := range 7 {
		answer := said("assistant", strings.Repeat("some words ", 900_000))
		if err := r.Record(model.Turn{N: n + 1, Whole: true, Conversation: model.Conversation{Messages: talk}, Answer: model.Answer{Message: answer}}); err != nil {
			t.Fatal(err)
		}
		talk = append(talk, answer, said("user", "On."))
	}
	if b.Len() < 66<<20 {
		t.Fatalf("the record has %d bytes", b.Len())
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(key.Dir()), result.TrajectoryFile), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"sft", "atif"} {
		text, report := export(t, Options{Dir: dir, Format: format})
		if report.Trials != 2 || len(report.TooLong)+len(report.Unreadable) > 0 || len(text) < 66<<20 {
			t.Errorf("%s: %d bytes, %+v", format, len(text), report)
		}
	}
}
