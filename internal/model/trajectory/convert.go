package trajectory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/model"
)

// About holds the data of a trajectory that is not in the recorded calls.
type About struct {
	ID           string // of the trajectory and its session
	Agent        string
	AgentVersion string // "" if it is not known
}

// ErrEmpty is returned if no call had a conversation.
var ErrEmpty = errors.New("there is no recorded conversation")

// Convert reads the lines of a model.Recorder and writes them as a Trajectory. A last line that was
// cut off is left out. Texts are read when they are written, so a record may be far longer than the
// memory. It fails with ErrTooLong for records above MaxRecord, and for some that Rollout did not
// write; with ErrEmpty, nothing is written.
//
// The conversation with the most turns is the agent's own. One that follows it with the same tools
// and the same agent is its continuation after a compaction. All others belong to sub-agents or
// auxiliary calls, such as for a title.
func Convert(w io.Writer, r *io.SectionReader, about About) error {
	x, err := read(r, 0)
	if err != nil {
		return err
	}
	return x.convert(w, about)
}

func (x *index) convert(w io.Writer, about About) error {
	if err := x.link(); err != nil {
		return err
	}
	out := &writer{b: bufio.NewWriterSize(w, 64<<10), indent: !x.hasTokens()} // indenting would put each id on a separate line
	var subagents []*talk
	for _, t := range x.talks {
		if t != x.head && !t.follows {
			subagents = append(subagents, t)
		}
	}
	id := func(n int) string { return fmt.Sprintf("%s#%d", about.ID, n+1) }
	list := x.steps(x.head)
	if err := x.refer(list, subagents, id); err != nil {
		return err
	}
	out.begin('{')
	if err := x.write(out, x.head, list, about.ID, about); err != nil {
		return err
	}
	if notes := x.notes(); notes != "" {
		out.member("notes", notes)
	}
	out.member("final_metrics", x.sums(len(list)))
	if len(subagents) > 0 {
		out.key("subagent_trajectories")
		out.begin('[')
		for n, t := range subagents {
			out.element()
			out.begin('{')
			if err := x.write(out, t, x.steps(t), id(n), about); err != nil {
				return err
			}
			out.end('}')
		}
		out.end(']')
	}
	out.end('}')
	if err := x.visited(); err != nil {
		return err
	}
	return out.finish()
}

// write writes the members of a trajectory up to its steps.
func (x *index) write(out *writer, t *talk, list []*planned, id string, about About) error {
	agent := Agent{Name: about.Agent, Version: about.AgentVersion}
	if agent.Version == "" {
		agent.Version = "unknown"
	}
	var err error
	for one := t; one != nil; one = one.next {
		for _, turn := range one.turns {
			if agent.Model == "" {
				agent.Model = turn.Answered
			}
			if len(agent.Tools) == 0 {
				if agent.Tools, err = x.definitions(turn.ToolSet); err != nil {
					return err
				}
			}
		}
	}
	out.member("schema_version", Version)
	if about.ID != "" {
		out.member("session_id", about.ID)
	}
	if id != "" {
		out.member("trajectory_id", id)
	}
	out.member("agent", agent)
	if len(list) == 0 {
		out.member("steps", nil)
		return out.err
	}
	out.key("steps")
	out.begin('[')
	for i, p := range list {
		step, err := x.step(i+1, p)
		if err != nil {
			return err
		}
		out.element()
		if out.value(step); out.err != nil {
			return out.err
		}
	}
	out.end(']')
	return nil
}

// notes returns the defects of the record, such as unreadable lines.
func (x *index) notes() string {
	var notes []string
	if x.empty > 0 {
		notes = append(notes, fmt.Sprintf("%d calls were recorded without messages", x.empty))
	}
	if x.broken > 0 {
		notes = append(notes, fmt.Sprintf("%d lines of the record cannot be read", x.broken))
	}
	if x.unkept > 0 {
		notes = append(notes, fmt.Sprintf("the ids of tokens of %d calls are left out: there are more than %d altogether, or the record has a gap", x.unkept, x.maxIDs))
	}
	return strings.Join(notes, "; ")
}

// lowerBound is the key that marks the cost in the same object as a lower bound.
const lowerBound = "cost_at_least"

// sums adds up the metrics of all calls, those of sub-agents included.
func (x *index) sums(steps int) *FinalMetrics {
	f := &FinalMetrics{Steps: steps}
	var total model.Usage
	var cost *float64
	atLeast := false
	for _, t := range x.talks {
		for _, turn := range t.turns {
			total = total.Plus(turn.Usage)
			unknown := turn.Cost == nil && (turn.Failure == nil || turn.Usage.Known())
			atLeast = atLeast || turn.AtLeast || unknown
			if turn.Cost != nil {
				if cost == nil {
					cost = new(float64)
				}
				*cost += *turn.Cost
			}
		}
	}
	f.Prompt, f.Completion, f.Cached, f.Cost = total.Input, total.Output, total.Cached, cost
	if cost != nil && atLeast {
		f.Extra = map[string]any{lowerBound: true}
	}
	return f
}

// definitions returns tools in the shape of OpenAI's functions.
func definitions(tools []model.Tool) []any {
	var out []any
	for _, t := range tools {
		f := map[string]any{"name": t.Name}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if t.Parameters != nil {
			f["parameters"] = t.Parameters
		}
		out = append(out, map[string]any{"type": "function", "function": f})
	}
	return out
}

// writer writes JSON value by value, in the format of a json.Encoder without EscapeHTML. Objects
// and lists that it begins must not stay empty.
type writer struct {
	b      *bufio.Writer
	indent bool
	depth  int
	more   bool // in the object or list that is open
	text   bytes.Buffer
	err    error
}

func (w *writer) put(text []byte) {
	if w.err == nil {
		_, w.err = w.b.Write(text)
	}
}

func (w *writer) line() {
	if w.indent {
		w.put([]byte("\n" + strings.Repeat("  ", w.depth)))
	}
}

func (w *writer) begin(c byte) {
	w.put([]byte{c})
	w.depth++
	w.more = false
}

func (w *writer) end(c byte) {
	w.depth--
	w.line()
	w.put([]byte{c})
	w.more = true
}

// element begins an element of a list, or a member of an object.
func (w *writer) element() {
	if w.more {
		w.put([]byte{','})
	}
	w.more = true
	w.line()
}

func (w *writer) key(name string) {
	w.element()
	w.put([]byte(`"` + name + `":`))
	if w.indent {
		w.put([]byte{' '})
	}
}

func (w *writer) member(name string, v any) {
	w.key(name)
	w.value(v)
}

func (w *writer) value(v any) {
	text, err := encode(v)
	if err == nil && w.indent {
		w.text.Reset()
		err = json.Indent(&w.text, text, strings.Repeat("  ", w.depth), "  ")
		text = w.text.Bytes()
	}
	if w.err == nil {
		w.err = err
	}
	w.put(text)
	if w.text.Cap() > maxKept { // a long value is not kept
		w.text = bytes.Buffer{}
	}
}

// maxKept is the maximum size of the buffer that is kept for the next value, in bytes.
const maxKept = 1 << 20

func (w *writer) finish() error {
	w.put([]byte{'\n'})
	if w.err == nil {
		w.err = w.b.Flush()
	}
	return w.err
}
