package trajectory_test

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/trajectory"
)

// Protocols without identifiers of calls have the name of the tool in their place, in every turn.
func TestCallsHaveDistinctIdentifiers(t *testing.T) {
	call := func(text string) model.Part {
		return model.Part{Type: model.PartCall, ID: "bash", Name: "bash", Arguments: json.RawMessage(`{"command":"` + text + `"}`)}
	}
	result := func(text string) model.Part { return model.Part{Type: model.PartResult, ID: "bash", Text: text} }
	user := model.Message{Role: "user", Parts: []model.Part{{Type: model.PartText, Text: "?"}}}
	first := model.Message{Role: "assistant", Parts: []model.Part{call("a"), call("b")}}
	results := model.Message{Role: "tool", Parts: []model.Part{result("of a"), result("of b")}}
	second := model.Message{Role: "assistant", Parts: []model.Part{call("c")}}
	var record strings.Builder
	r := model.NewRecorder(&record, 1<<20)
	for n, turn := range []model.Turn{
		{Conversation: model.Conversation{Messages: []model.Message{user}}, Answer: model.Answer{Message: first}},
		{Conversation: model.Conversation{Messages: []model.Message{user, first, results}}, Answer: model.Answer{Message: second}},
	} {
		turn.N, turn.Whole = n+1, true
		if err := r.Record(turn); err != nil {
			t.Fatal(err)
		}
	}
	read, err := trajectory.Read(io.NewSectionReader(strings.NewReader(record.String()), 0, int64(record.Len())), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = read.Branches("x", func(b *trajectory.Branch) error {
		return b.Messages(func(m trajectory.ChatMessage) error {
			for _, c := range m.Calls {
				got = append(got, c.ID+" is "+c.Function.Arguments)
			}
			if m.Role == "tool" {
				got = append(got, m.Call+" gives "+m.Content)
			}
			return nil
		})
	})
	want := []string{`bash is {"command":"a"}`, `bash-2 is {"command":"b"}`, "bash gives of a", "bash-2 gives of b", `bash-3 is {"command":"c"}`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	c, err := read.Conversation("x", 1<<20)
	if err != nil || !strings.Contains(string(c.Completion), `"bash-3"`) || !strings.Contains(string(c.Trajectory), `"id":"bash-3"`) {
		t.Errorf("%s %s %v", c.Completion, c.Trajectory, err)
	}
}
