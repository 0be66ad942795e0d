package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/model/trajectory"
)

// Bounds of conversations.
const (
	maxBranches     = 5 // sub-agents in sub-agents
	minConversation = 800
	maxFolded       = 8000 // bytes of one text
	folds           = 600  // bytes of a text that is not folded
	turnBytes       = 350  // of a turn's HTML without its texts
)

// Conversation holds the messages of an agent and its model.
type Conversation struct {
	Name     string // of a sub-agent; "" for the agent
	Turns    []Turn
	Branches []Conversation // sub-agents
	Last     string         // the anchor of the last turn
	Failed   string         // the anchor of the first tool call that failed; "" without one
	Earlier  int            // turns after the last one here that are left out
}

// Turn is one step.
type Turn struct {
	ID, Who      string
	N            int
	Gap          int // turns before this one that are left out
	Class        string
	Text         Folded
	Reasoning    Folded
	Calls        []Call
	Tokens, Cost string
	Time         string
	Latency      string // how long the model took
	Replaced     bool   // the context was replaced: a compaction or a pruning
	Step         string // of the task, which begins here
	failed       bool
	bytes        int // of its HTML, about
}

// Call is a call of a tool with its result.
type Call struct {
	Name      string
	Arguments Folded
	Result    Folded
	Failed    bool
	Agents    []string // the names of sub-agents
}

// Folded is a text. A long one is folded below its beginning.
type Folded struct {
	Text string
	Fold string // what the fold is called; "" if the text is short
}

// addConversation adds the conversation of a trial within size bytes, and returns what was read of
// it; nil: nothing.
func (v *Trial) addConversation(in report.Input, t result.Trial, size int) *trajectory.Trajectory {
	file := path.Join(t.Dir(), result.ATIFFile)
	record, err := readTrajectory(in, file, size >= minConversation)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || record == nil:
		v.LeftOut = append(v.LeftOut, "the conversation, "+result.ATIFFile)
		return nil
	}
	c, left := conversation(*record, v.ID, size, 0)
	v.Conversation = &c
	if left > 0 {
		v.LeftOut = append(v.LeftOut, report.Plural(left, "turn")+" or parts of turns of the conversation, "+result.ATIFFile)
	}
	return record
}

// errNoRoom means that a file has more bytes than may still be read.
var errNoRoom = errors.New("there is no room for it")

// trajectoryWithin reads a trajectory of at most room bytes, and subtracts its size from room.
func trajectoryWithin(in report.Input, file string, room *int64) (*trajectory.Trajectory, error) {
	f, size, err := report.Open(in, file)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if size > *room {
		return nil, errNoRoom
	}
	*room -= size
	return report.Trajectory(in, file)
}

// readTrajectory returns the trajectory in a file. If it is not wanted, it only checks that the
// file exists, and returns nil.
func readTrajectory(in report.Input, file string, wanted bool) (*trajectory.Trajectory, error) {
	if wanted {
		return report.Trajectory(in, file)
	}
	f, _, err := report.Open(in, file)
	if err != nil {
		return nil, err
	}
	return nil, f.Close()
}

// conversation returns a view of at most about size bytes: the first turns, and as many of the last
// as there is room for. left is how many turns were shortened or left out.
func conversation(record trajectory.Trajectory, id string, size, depth int) (c Conversation, left int) {
	if n := len(record.Subagents); n > 0 && depth < maxBranches {
		part := size / 2 / n
		for i, sub := range record.Subagents {
			if part < 1000 {
				left += len(sub.Steps)
				continue
			}
			branch, short := conversation(sub, id+"-b"+strconv.Itoa(i+1), part, depth+1)
			branch.Name = cmp.Or(name(sub.ID), "sub-agent")
			c.Branches, left = append(c.Branches, branch), left+short
		}
		size -= size / 2
	} else if n > 0 {
		left += n
	}
	steps := record.Steps
	most := min(max(size/8, 150), maxFolded)
	var first, last []Turn
	add := func(to *[]Turn, i int) bool {
		turn, short := turnOf(steps[i], id, i+1, most)
		if turn.bytes > size {
			return false
		}
		size -= turn.bytes
		left += short
		*to = append(*to, turn)
		return true
	}
	leading := 2 // the system's prompt and the task
	if size < 4000 {
		leading = 0
	}
	n := 0
	for n < min(leading, len(steps)) && add(&first, n) {
		n++
	}
	end := len(steps)
	for end > n && add(&last, end-1) {
		end--
	}
	left += end - n
	c.Turns = first
	for i := len(last) - 1; i >= 0; i-- {
		if i == len(last)-1 {
			last[i].Gap = end - n
		}
		c.Turns = append(c.Turns, last[i])
	}
	if len(last) == 0 {
		c.Earlier = end - n
	}
	for _, turn := range c.Turns {
		c.Last = turn.ID
		if turn.failed && c.Failed == "" {
			c.Failed = turn.ID
		}
	}
	return c, left
}

// turnOf returns the view of a step. short is 1 if a text was shortened.
func turnOf(s trajectory.Step, id string, n, most int) (t Turn, short int) {
	t = Turn{ID: id + "-" + strconv.Itoa(n), N: n, Who: name(s.Source), Class: "other", bytes: turnBytes}
	switch s.Source {
	case "agent", "user", "system":
		t.Class = s.Source
	}
	fold := func(text string) Folded {
		f, cut := folded(text, most)
		if cut {
			short = 1
		}
		if f.Text != "" {
			t.bytes += len(f.Text)*9/8 + 150
		}
		return f
	}
	t.Text, t.Reasoning = fold(s.Message), fold(s.Reasoning)
	if s.Time != nil {
		t.Time = s.Time.UTC().Format("15:04:05")
	}
	if kind, ok := s.Extra["context_management"]; ok && kind != nil {
		t.Replaced = true
	}
	if step, ok := s.Extra[trajectory.TaskStep].(string); ok {
		t.Step = name(step)
	}
	if m := s.Metrics; m != nil {
		var parts []string
		if m.Prompt != nil {
			parts = append(parts, report.Tokens(float64(*m.Prompt))+" in")
		}
		if m.Completion != nil {
			parts = append(parts, report.Tokens(float64(*m.Completion))+" out")
		}
		t.Tokens = strings.Join(parts, ", ")
		if m.Cost != nil {
			t.Cost = report.Dollars(*m.Cost)
		}
		if sec, ok := m.Extra[trajectory.Latency].(float64); ok && sec > 0 {
			t.Latency = report.Duration(sec)
		}
	}
	at := map[string]int{}
	for _, c := range s.Calls[:min(len(s.Calls), maxList)] {
		at[c.ID] = len(t.Calls)
		t.Calls = append(t.Calls, Call{Name: name(c.Name), Arguments: fold(arguments(c.Arguments))})
		t.bytes += 200
	}
	if s.Observation == nil {
		return t, short
	}
	for _, r := range s.Observation.Results[:min(len(s.Observation.Results), 2*maxList)] {
		i, ok := at[r.Call]
		if !ok || t.Calls[i].Result.Text != "" {
			i = len(t.Calls)
			t.Calls = append(t.Calls, Call{Name: "result"})
			t.bytes += 200
		}
		t.Calls[i].Result = fold(r.Content)
		if failed, _ := r.Extra["is_error"].(bool); failed {
			t.Calls[i].Failed, t.failed = true, true
		}
		for _, ref := range r.Subagents {
			t.Calls[i].Agents = append(t.Calls[i].Agents, name(ref.ID))
		}
	}
	return t, short
}

// arguments returns the arguments of a call as people read them: the only one that is a text as it
// is, others as JSON.
func arguments(raw json.RawMessage) string {
	var object map[string]any
	if bounded.Unmarshal(raw, &object) == nil && len(object) == 1 {
		for key, value := range object {
			if text, ok := value.(string); ok {
				return key + ": " + text
			}
		}
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return string(raw)
	}
	return compact.String()
}

// folded returns a text from outside. cut reports whether it lost its middle.
func folded(text string, most int) (f Folded, cut bool) {
	whole := strings.Join(untrusted.Lines(text), "\n")
	f.Text = excerpt.Middle(whole, most)
	if len(f.Text) > folds || strings.Count(f.Text, "\n") > 12 {
		f.Fold = report.Plural(strings.Count(whole, "\n")+1, "line")
	}
	return f, f.Text != whole
}
