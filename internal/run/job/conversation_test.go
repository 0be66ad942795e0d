package job

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/run/trial"
)

// record writes a gateway's record of one call with an answer of n bytes.
func record(t *testing.T, dir string, n int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, result.TrajectoryFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := func(role, s string) model.Message {
		return model.Message{Role: role, Parts: []model.Part{{Type: model.PartText, Text: s}}}
	}
	err = model.NewRecorder(f, 1<<30).Record(model.Turn{
		N: 1, Whole: true, Began: time.Unix(1, 0), Ended: time.Unix(2, 0),
		Conversation: model.Conversation{Messages: []model.Message{text("user", "Say it.")}, Tools: []model.Tool{{Name: "bash"}}},
		Answer:       model.Answer{Message: text("assistant", strings.Repeat("x", n)), Finish: "stop"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOutputLinesHaveConversations(t *testing.T) {
	list := specs(3)
	sizes := map[result.Key]int{list[0].Key: 10, list[1].Key: MaxOutputConversation} // the third has no gateway
	tree := newTree(t, list)
	opts := options(tree, runnerFunc(func(_ context.Context, s trial.Spec) trial.Outcome {
		o := passed(s.Key)
		if n := sizes[s.Key]; n > 0 {
			o.Trial.Usage = &result.Usage{Turns: 1}
			record(t, tree.TrialDir(s.Key), n)
		}
		return o
	}), &recorder{})
	if _, err := Run(t.Context(), list, opts); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tree.Dir, result.OutputsFile)
	check := func(t *testing.T) {
		t.Helper()
		all := lines(t, path)
		if len(all) != len(list) {
			t.Fatalf("%d lines", len(all))
		}
		for _, o := range all {
			key := result.Key{Agent: o.Agent, Dataset: o.Dataset, Task: o.Task, Attempt: o.Attempt}
			var turns []struct {
				Prompt, Completion []struct{ Role, Content string }
				Truncated          *bool           `json:"is_truncated"`
				Tokens             json.RawMessage `json:"tokens"`
			}
			switch n := sizes[key]; n {
			case 0:
				if o.Usage != nil || string(o.Completion) != "null" || o.Trajectory != nil || o.ConversationOmitted != "" {
					t.Errorf("without a gateway: %+v", o)
				}
			case 10:
				if err := json.Unmarshal(o.Trajectory, &turns); err != nil || len(turns) != 1 || turns[0].Prompt[0].Content != "Say it." || turns[0].Completion[0].Content != "xxxxxxxxxx" || turns[0].Truncated == nil || string(turns[0].Tokens) != "null" {
					t.Errorf("%v: %s", err, o.Trajectory)
				}
				if string(o.Completion) != `[{"role":"assistant","content":"xxxxxxxxxx"}]` || string(o.ToolDefs) != `[{"function":{"name":"bash"},"type":"function"}]` || o.Usage.Turns != 1 {
					t.Errorf("%+v", o)
				}
			default:
				if string(o.Completion) != "null" || o.Trajectory != nil || o.ConversationOmitted == "" || o.Usage == nil {
					t.Errorf("too long: %q, %d bytes", o.ConversationOmitted, len(o.Completion))
				}
			}
		}
	}
	check(t)
	trials, unreadable := result.ReadTrials(tree.Dir, tree.Plan.Own().Slice())
	if len(unreadable) > 0 {
		t.Fatal(unreadable)
	}
	repaired, err := repairOutputs(tree.Dir, tree.Plan, trials, func(string, string) []result.Message { return nil }) // as a resume does
	if err != nil {
		t.Fatal(err)
	}
	defer repaired.file.Close()
	check(t)
}
