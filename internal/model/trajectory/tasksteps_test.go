package trajectory

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
)

// The conversations of a task's steps are one trajectory, in which each step's beginning is marked,
// although sessions number their turns from 1, and steps may begin with the same message.
func TestStepsOfATaskAreOneTrajectory(t *testing.T) {
	r := newRecording(t)
	system, user := text("system", "You are."), text("user", "Do the next part.")
	first := call("c1", "bash", `{"command":"ls"}`)
	r.r.Begin("build")
	r.turn("", shell, first, system, user)
	r.turn("", shell, text("assistant", "Built."), system, user, first, came("c1", "a b", false))
	r.r.Begin("extend")
	r.n = 0
	r.turn("", shell, call("c1", "bash", `{"command":"pwd"}`), system, user)
	r.turn("", nil, text("assistant", "A title."), text("user", "Name this conversation."))
	r.turn("", shell, text("assistant", "Extended."), system, user, call("c1", "bash", `{"command":"pwd"}`), came("c1", "/", false))
	_, out, err := convert(r.b.String())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range out.Steps {
		line := s.Source + ": " + s.Message
		if name, ok := s.Extra[TaskStep].(string); ok {
			line += " [" + name + "]"
		}
		if s.Observation != nil {
			line += " = " + s.Observation.Results[0].Content
		}
		got = append(got, line)
	}
	want := []string{
		"system: The step build begins. [build]", "system: You are.", "user: Do the next part.", "agent: I call. = a b", "agent: Built.",
		"system: The step extend begins. [extend]", "system: You are.", "user: Do the next part.", "agent: I call. = /", "agent: Extended.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the trajectory is\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(out.Subagents) != 1 || len(out.Subagents[0].Steps) != 2 {
		t.Errorf("other conversations: %+v", out.Subagents)
	}
	if f := out.Final; f == nil || *f.Prompt != 100+200+100+200+300 || *f.Cost != 5*0.25 {
		t.Errorf("the sums are %+v", f)
	}
	var turns []int
	for i, line := range strings.Split(strings.TrimSpace(r.b.String()), "\n") {
		var one model.RecordedTurn
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if turns = append(turns, one.Turn); one.Step != []string{"build", "build", "extend", "extend", "extend"}[i] {
			t.Errorf("line %d is of step %q", i+1, one.Step)
		}
	}
	if !slices.Equal(turns, []int{1, 2, 3, 4, 5}) {
		t.Errorf("the turns are %v", turns)
	}
}
