package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// recording records turns as a gateway does.
type recording struct {
	t *testing.T
	b bytes.Buffer
	r *model.Recorder
	n int
	// tokens are the tokens of the next turn.
	tokens *model.Tokens
	// failure is the failure of the next turn.
	failure *model.Failure
	// atLeast and unpriced: the cost of the next turn is a lower bound, or not known.
	atLeast, unpriced bool
}

func newRecording(t *testing.T) *recording {
	r := &recording{t: t}
	r.r = model.NewRecorder(&r.b, 1<<30)
	return r
}

var shell = []model.Tool{{Name: "bash", Description: "runs a command", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "task"}}

func text(role, s string) model.Message {
	return model.Message{Role: role, Parts: []model.Part{{Type: model.PartText, Text: s}}}
}

func call(id, name, arguments string) model.Message {
	return model.Message{Role: "assistant", Parts: []model.Part{
		{Type: model.PartReasoning, Text: "I think."}, {Type: model.PartText, Text: "I call."}, {Type: model.PartCall, ID: id, Name: name, Arguments: json.RawMessage(arguments)},
	}}
}

func came(id, s string, failed bool) model.Message {
	return model.Message{Role: "tool", Parts: []model.Part{{Type: model.PartResult, ID: id, Text: s, Failed: failed}}}
}

func (r *recording) cost() *float64 {
	if r.unpriced {
		return nil
	}
	return new(0.25)
}

func (r *recording) turn(agent string, tools []model.Tool, answer model.Message, messages ...model.Message) {
	r.t.Helper()
	r.n++
	at := time.Date(2026, 11, 23, 5, 0, r.n, 0, time.UTC)
	n := int64(r.n)
	err := r.r.Record(model.Turn{
		N: r.n, Agent: agent, Asked: "small", Began: at, FirstByte: at, Ended: at.Add(500 * time.Millisecond), Whole: r.failure == nil, Cost: r.cost(), AtLeast: r.atLeast, Failure: r.failure,
		Conversation: model.Conversation{Messages: messages, Tools: tools},
		Answer:       model.Answer{Tokens: r.tokens, Message: answer, Model: "small-1", Finish: "stop", Usage: model.Usage{Input: new(100 * n), Cached: new(10 * n), Output: new(n), Reasoning: new(int64(1))}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// section returns a text as a reader of a record.
func section(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}

// convert converts a record of the trial a/tests/one__1.
func convert(record string) (text []byte, out *Trajectory, err error) {
	var b bytes.Buffer
	if err := Convert(&b, section(record), About{ID: "a/tests/one__1", Agent: "a"}); err != nil {
		return b.Bytes(), nil, err
	}
	err = json.Unmarshal(b.Bytes(), &out)
	return b.Bytes(), out, err
}

func TestConvert(t *testing.T) {
	for name, record := range map[string]func(r *recording){
		"one conversation": func(r *recording) {
			system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "bash", `{"command": "ls"}`)
			r.turn("", shell, first, system, user)
			// The client sends the answer again without its reasoning, with other spaces.
			again := model.Message{Role: "assistant", Parts: []model.Part{{Type: model.PartText, Text: " I call.\n"}, {Type: model.PartCall, ID: "c1", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}}}
			r.turn("", shell, text("assistant", "Done."), system, user, again, came("c1", "no such file", true))
		},
		"ids of tokens": func(r *recording) {
			user, first := text("user", "Do it."), call("c1", "bash", `{"command":"ls"}`)
			r.tokens = &model.Tokens{Prompt: []int32{1, 2, 3}, Completion: []int32{4, 5}, Logprobs: []float64{-0.5, 0}}
			r.turn("", shell, first, user)
			r.tokens = &model.Tokens{Prompt: []int32{1, 2, 3, 4, 5, 6}, Completion: []int32{7}}
			r.turn("", shell, text("assistant", "Done."), user, first, came("c1", "a b", false))
		},
		"costs that are lower bounds": func(r *recording) {
			user, first := text("user", "Do it."), call("c1", "bash", `{"command":"ls"}`)
			r.atLeast = true
			r.turn("", shell, first, user)
			r.atLeast, r.unpriced = false, true
			r.turn("", shell, text("assistant", "Done."), user, first, came("c1", "a b", false))
		},
		"a sub-agent": func(r *recording) {
			system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "task", `{"prompt":"Look for the bug."}`)
			r.turn("main", shell, first, system, user)
			r.turn("helper", shell, text("assistant", "Line 7."), text("system", "You help."), text("user", "Look for the bug."))
			r.turn("main", shell, text("assistant", "Done."), system, user, first, came("c1", "Line 7.", false))
		},
		"a compaction": func(r *recording) {
			system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "bash", `{"command":"ls"}`)
			r.turn("a", shell, first, system, user)
			r.turn("a", shell, text("assistant", "More."), system, user, first, came("c1", "a b", false))
			r.turn("a", shell, text("assistant", "Done."), system, text("user", "You have done this. Go on."))
		},
		"a compaction with reminders of the system": func(r *recording) {
			system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "bash", `{"command":"ls"}`)
			r.turn("a", shell, first, system, user, text("system", "The directory is /app."))
			r.turn("a", shell, text("assistant", "More."), system, user, text("system", "The directory is /app."), first, came("c1", "a b", false))
			r.turn("a", shell, text("assistant", "Done."), system, text("user", "You have done this. Go on."), text("system", "There are other tools."))
		},
		"a compaction that keeps what the user said": func(r *recording) {
			system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "bash", `{"command":"ls"}`)
			context := text("user", "The directory is /app.")
			r.turn("a", shell, first, system, context, user)
			r.turn("a", shell, text("assistant", "I listed the files a and b.\n"), system, context, user, first, came("c1", "a b", false), text("user", "Sum up."))
			r.turn("a", shell, text("assistant", "Done."), system, context, user, text("user", "Somebody began: I listed the files a and b."))
			r.turn("a", shell, text("assistant", "More."), system, context, user, text("user", "Somebody began: it is done."))
		},
		"an injection after a compaction": func(r *recording) {
			system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "bash", `{"command":"ls"}`)
			r.turn("a", shell, first, system, user)
			r.turn("", nil, text("assistant", "It listed files."), text("system", "You sum up."), user, first, came("c1", "a b", false))
			kept := call("c1", "bash", `{"command":"ls"}`)
			kept.Parts[1].Text = "Thank you."
			second, result := call("c2", "bash", `{"command": "pwd"}`), came("c1", "a b", false)
			r.turn("a", shell, second, system, text("user", "It listed files."), kept, result)
			r.turn("a", shell, text("assistant", "Done."), system, text("user", "You have skills. It listed files."), kept, result, call("c2", "bash", `{"command":"pwd"}`), came("c2", "/app", false))
		},
		"a compacted sub-agent with one of its own": func(r *recording) {
			system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "task", `{"prompt":"Look for the bug.","n":1}`)
			second := call("c2", "task", `"Look for the cause."`)
			r.turn("main", shell, first, system, user)
			r.turn("helper", shell, call("h1", "task", `{"x":"Count all of the lines."}`), text("system", "You help."), text("user", "Look for the bug. Now."))
			r.turn("counter", nil, text("assistant", "7"), text("user", " Count all of the lines. "))
			r.turn("helper", shell, text("assistant", "Line 7."), text("system", "You help."), text("user", "You have looked."))
			r.turn("main", shell, second, system, user, first, came("c1", "Line 7.", false))
			r.turn("other", nil, text("assistant", "It is old."), text("user", "Look for the cause."))
			r.turn("main", shell, text("assistant", "Done."), system, user, first, came("c1", "Line 7.", false), second, came("c2", "It is old.", false))
		},
		"a pruning and failures": func(r *recording) {
			user, first := text("user", "Do <it> & \u2028 \x1b\xff."), call("c1", "bash", `{ "command": "a <b> && c" }`)
			media := model.Message{Role: "user", Parts: []model.Part{{Type: model.PartMedia, Media: "image/png"}, {Type: model.PartText, Text: "See."}}}
			r.turn("", shell, first, user, media)
			r.failure = &model.Failure{Kind: model.FailedProvider, Status: 500, Message: "<broken>"}
			r.turn("", shell, model.Message{}, user, media, first, came("c1", "one", false))
			r.failure = nil
			r.b.WriteString("{\"turn\":\n\nnull\n[]\n{} {}\n{\"turn\":\"x\",\"messages\":[{\"id\":1}]}\n")
			r.turn("", append(shell, model.Tool{Name: "new"}), call("", "bash", `3`), user, media, first, came("c1", "one", false), text("assistant", "The client wrote this."), text("user", "On."))
			r.turn("", shell, call("c1", "bash", `{}`), user, call("", "bash", `3`), came("", "two", true), text("system", "Mind."))
			r.turn("", shell, text("assistant", "Done."), user, call("c1", "bash", `{}`), came("c1", "again", false))
		},
		"a title beside the work": func(r *recording) {
			r.turn("", nil, text("assistant", "A title"), text("user", "Make a title."))
			r.turn("", shell, text("assistant", "Done."), text("user", "Do it."))
		},
		"calls without ids and results of nobody": func(r *recording) {
			user := text("user", "Do it.")
			two := model.Message{Role: "assistant", Parts: []model.Part{
				{Type: model.PartCall, ID: "bash", Name: "bash", Arguments: json.RawMessage(`"no object"`)}, {Type: model.PartCall, ID: "bash", Name: "bash", Arguments: json.RawMessage(`{}`)},
			}}
			r.turn("", shell, two, user)
			r.turn("", shell, text("assistant", "Done."), user, two, came("bash", "one", false), came("bash", "two", false), came("elsewhere", "three", false))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t)
			record(r)
			text, got, err := convert(r.b.String())
			if err != nil {
				t.Fatal(err)
			}
			check(t, got)
			golden := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".json")
			if *update {
				if err := os.WriteFile(golden, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != string(text) {
				t.Errorf("got %s", text)
			}
		})
	}
}

// check checks the requirements of the format for every trajectory.
func check(t *testing.T, out *Trajectory) {
	t.Helper()
	if len(out.Steps) == 0 || out.Agent.Name == "" || out.Agent.Version == "" {
		t.Errorf("%s: %d steps, agent %+v", out.ID, len(out.Steps), out.Agent)
	}
	for i, s := range out.Steps {
		if s.ID != i+1 {
			t.Errorf("step %d has the number %d", i+1, s.ID)
		}
		if s.Source != fromAgent && (s.Model != "" || s.Reasoning != "" || s.Metrics != nil || len(s.Calls) > 0) {
			t.Errorf("step %d is not the agent's: %+v", s.ID, s)
		}
		own := map[string]bool{}
		for _, c := range s.Calls {
			if own[c.ID] {
				t.Errorf("step %d has two calls %s", s.ID, c.ID)
			}
			own[c.ID] = true
			var arguments map[string]any
			if err := json.Unmarshal(c.Arguments, &arguments); err != nil {
				t.Errorf("step %d: %v", s.ID, err)
			}
		}
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				if r.Call != "" && !own[r.Call] {
					t.Errorf("step %d has the result of %s, which another step called", s.ID, r.Call)
				}
			}
		}
	}
	for i := range out.Subagents {
		check(t, &out.Subagents[i])
	}
}

func TestConvertOfNothing(t *testing.T) {
	if text, _, err := convert(""); !errors.Is(err, ErrEmpty) || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// A kill may cut off the last line.
func TestConvertOfACutRecord(t *testing.T) {
	r := newRecording(t)
	r.turn("", shell, text("assistant", "One."), text("user", "Do it."))
	whole := r.b.Len()
	r.turn("", shell, text("assistant", "Two."), text("user", "Do it."), text("assistant", "One."), text("user", "More."))
	for _, at := range []int{whole, whole + 10, r.b.Len() - 1} {
		_, got, err := convert(r.b.String()[:at])
		if err != nil || len(got.Steps) < 2 {
			t.Errorf("%d bytes: %v, %+v", at, err, got)
		}
	}
}

// Records come from hostile environments: no line may make the conversion fail badly.
func FuzzConvert(f *testing.F) {
	f.Add(`{"turn":1,"last":1,"answer":2,"messages":[{"id":1,"parent":2,"role":"user"},{"id":2,"parent":1,"role":"assistant"}]}`)
	f.Add(`{"turn":1,"last":9}` + "\n" + `{"turn":2,"last":9,"answer":9}`)
	f.Add(fmt.Sprintf(`{"turn":1,"last":1,"messages":[{"id":1,"role":"assistant","parts":[{"type":"tool_call","arguments":%q}]}]}`, "x"))
	f.Fuzz(func(t *testing.T, lines string) {
		if text, _, err := convert(lines); err != nil && len(text) > 0 {
			t.Errorf("%v after %s", err, text)
		}
	})
}

// Point 18 of the requirements that clients have for a gateway: sub-agents that a client does not
// name are identified by the contents of their messages.
func TestSubAgentsAreFoundByTheirContents(t *testing.T) {
	r := newRecording(t)
	system, user, first := text("system", "You are."), text("user", "Do it."), call("c1", "task", `{"prompt":"Look for the bug."}`)
	r.turn("", shell, first, system, user)
	help, look, second := text("system", "You help."), text("user", "Look for the bug."), call("h1", "bash", `{"command":"ls"}`)
	r.turn("", shell, second, help, look)
	r.turn("", shell, text("assistant", "Line 7."), help, look, second, came("h1", "a b", false))
	r.turn("", shell, text("assistant", "Done."), system, user, first, came("c1", "Line 7.", false))
	_, got, err := convert(r.b.String())
	if err != nil {
		t.Fatal(err)
	}
	check(t, got)
	if len(got.Subagents) != 1 || len(got.Subagents[0].Steps) != 4 || len(got.Steps) != 4 {
		t.Fatalf("%d steps and %d trajectories of sub-agents: %+v", len(got.Steps), len(got.Subagents), got)
	}
	if o := got.Steps[2].Observation; o == nil || len(o.Results) != 1 || len(o.Results[0].Subagents) != 1 || o.Results[0].Subagents[0].ID != got.Subagents[0].ID {
		t.Errorf("the call does not name its trajectory: %+v", o)
	}
}
